// Listening to the open call: begin and end, how late the sound is, and each side's level.
import { useEffect, useRef, useState } from "react";

import { useSend } from "../../app/api.ts";
import { Button, IconButton } from "../../parts/button.tsx";
import { Checkbox } from "../../parts/field.tsx";
import { toast } from "../../parts/toast.tsx";
import { words } from "../../words/live.ts";
import { LEAD, Listening, type Side } from "./listening.ts";

const SIDES = ["caller", "agent"] as const;

/** Listens while it is on; leaving the call ends it. */
export function useListening(call_id: string) {
  const [delay, setDelay] = useState<number | "connecting" | null>(null);
  const meters = useRef<Record<Side, HTMLMeterElement | null>>({ caller: null, agent: null });
  const listening = useRef<Listening>(undefined);
  const stop = () => {
    listening.current?.stop();
    listening.current = undefined;
    setDelay(null);
  };
  const gone = useRef(false);
  useEffect(() => {
    gone.current = false;
    return () => {
      gone.current = true;
      listening.current?.stop();
    };
  }, []);
  const ticket = useSend("post", "/api/v1/calls/{call_id}/listen", {
    onDone: ({ ticket: value }) => {
      if (gone.current) return; // the panel was closed meanwhile
      listening.current?.stop();
      listening.current = new Listening(call_id, value, {
        began: setDelay,
        levels: (caller, agent) => {
          if (meters.current.caller) meters.current.caller.value = caller;
          if (meters.current.agent) meters.current.agent.value = agent;
        },
        ended: (how) => {
          setDelay(null);
          if (how === "over") toast(words.listening.over);
          else toast.bad(words.listening[how]);
        },
      });
      setDelay("connecting");
    },
  });
  return {
    delay,
    meters,
    busy: ticket.isPending,
    begin: () => ticket.mutate({ path: { call_id } }),
    stop,
    hear: (side: Side, heard: boolean) => listening.current?.hear(side, heard),
  };
}

type ListeningState = ReturnType<typeof useListening>;

export function ListenButton({ listening }: { listening: ListeningState }) {
  const on = listening.delay !== null;
  return (
    <Button
      icon={on ? "stop" : "headphones"}
      aria-pressed={on}
      busy={listening.busy}
      onClick={on ? listening.stop : listening.begin}
    >
      {on ? words.listening.stop : words.listening.listen}
    </Button>
  );
}

/** Shown while somebody listens. */
export function ListenBar({ listening }: { listening: ListeningState }) {
  const { delay, meters, hear, stop } = listening;
  if (delay === null) return null;
  return (
    <div className="flex flex-wrap items-center gap-x-4 gap-y-1 border-b border-line bg-accent-soft px-4 py-1.5">
      <span role="status" className="flex-1">
        {delay === "connecting"
          ? words.listening.connecting
          : words.listening.behind(`${(delay / 1_000 + LEAD).toFixed(1)} s`)}
      </span>
      {SIDES.map((side) => (
        <SideLevel
          key={side}
          side={side}
          onHear={hear}
          meter={(element) => {
            meters.current[side] = element;
          }}
        />
      ))}
      <IconButton label={words.listening.stop} icon="close" small onClick={stop} />
    </div>
  );
}

interface SideLevelProps {
  side: Side;
  onHear: (side: Side, heard: boolean) => void;
  meter: (element: HTMLMeterElement | null) => void;
}

function SideLevel({ side, onHear, meter }: SideLevelProps) {
  const [heard, setHeard] = useState(true);
  return (
    <span className="flex items-center gap-2">
      <Checkbox
        label={words.listening[side]}
        checked={heard}
        onChecked={(next) => {
          setHeard(next);
          onHear(side, next);
        }}
      />
      <meter ref={meter} min={0} max={1} aria-label={words.sides[side]} className="h-3 w-16" />
    </span>
  );
}
