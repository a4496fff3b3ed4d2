// The drain: the engine takes no new calls, and live ones go on.
import { useState } from "react";

import { type Schema, useSend } from "../../app/api.ts";
import { useTopic } from "../../app/live.ts";
import { useMay } from "../../app/session.ts";
import { Button } from "../../parts/button.tsx";
import { Confirm } from "../../parts/dialog.tsx";
import { Icon } from "../../parts/icons.tsx";
import { Time } from "../../parts/time.tsx";
import { words } from "../../words/live.ts";

/** Null until it is known, and for who may not see the engine. */
export function useDrain(): Schema<"Drain"> | null {
  const { snapshot } = useTopic(useMay("engine.read") ? { topic: "engine" } : null);
  return (snapshot as Schema<"EngineState"> | null)?.drain ?? null;
}

export function DrainButton({ drain }: { drain: Schema<"Drain"> | null }) {
  const [asks, setAsks] = useState(false);
  const begin = useSend("post", "/api/v1/engine/drain", { onDone: () => setAsks(false) });
  const may = useMay("engine.control");
  if (!may || drain === null || drain.draining) return null;
  return (
    <>
      <Button icon="stop" onClick={() => setAsks(true)}>
        {words.drain.begin}
      </Button>
      {asks && (
        <Confirm
          title={words.drain.title}
          about={words.drain.about}
          confirm={words.drain.confirm}
          busy={begin.isPending}
          onConfirm={() => begin.mutate({})}
          onClose={() => setAsks(false)}
        />
      )}
    </>
  );
}

export function DrainNote({ drain }: { drain: Schema<"Drain"> | null }) {
  const end = useSend("post", "/api/v1/engine/undrain");
  const may = useMay("engine.control");
  if (!drain?.draining) return null;
  return (
    <div
      role="status"
      className="mx-6 mb-2 flex flex-wrap items-center gap-2 rounded-md bg-warn-soft px-3 py-1.5 text-warn phone:mx-4"
    >
      <Icon name="warning" size={14} />
      <span>
        {words.drain.since} {drain.since && <Time at={drain.since} />}.{" "}
        {words.drain.left(drain.calls_left)}
      </span>
      {may && (
        <span className="ml-auto">
          <Button small busy={end.isPending} onClick={() => end.mutate({})}>
            {words.drain.end}
          </Button>
        </span>
      )}
    </div>
  );
}
