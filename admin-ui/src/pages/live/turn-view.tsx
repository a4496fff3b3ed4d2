// The wait of the running turn, stage by stage and to scale, as it grows.
import { useEffect, useState } from "react";

import { cx } from "../../parts/cx.ts";
import { durationText } from "../../parts/time.tsx";
import { words } from "../../words/live.ts";
import { everyTick } from "./elapsed.tsx";
import type { LiveCallState } from "./transcript.ts";
import { type Waterfall, waterfallOf } from "./waterfall.ts";

export interface TurnViewProps {
  state: LiveCallState;
  /** When the call began, ms since 1970 by the engine's clock. */
  begun: number;
  /** What this browser's clock is ahead of the engine's. */
  ahead: number;
}

export function TurnView({ state, begun, ahead }: TurnViewProps) {
  const { turn, uses } = state;
  const runs = turn !== null && turn.sounded_ms === null && turn.stages === null && !state.ended;
  const now = useCallTime(runs, begun + ahead, state.last_ms);
  if (turn === null) return null;
  const fall = waterfallOf(turn, uses.values(), now);
  const title = words.call.turn(turn.number, fall.waits);
  return (
    <section aria-label={title} className="border-b border-line px-4 py-2">
      <h3 className="mb-1 flex justify-between text-xs font-medium text-muted">
        {title}
        <span className={cx(fall.waits && "text-warn")}>
          {fall.waits ? words.call.waiting : words.call.waited}{" "}
          {durationText(fall.waits ? fall.total : (turn.stages?.total ?? fall.total))}
        </span>
      </h3>
      <Bars fall={fall} />
    </section>
  );
}

/** The time in the call; it runs while `runs`, and is never before what has happened. */
function useCallTime(runs: boolean, zero: number, least: number): number {
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    if (!runs) return;
    setNow(Date.now());
    return everyTick(() => setNow(Date.now()));
  }, [runs]);
  return Math.max(least, now - zero);
}

interface Bar {
  key: string;
  name: string;
  from: number;
  to: number;
  open: boolean;
  isTool: boolean;
}

function Bars({ fall }: { fall: Waterfall }) {
  const bars: Bar[] = [
    ...fall.spans.map((span) => ({
      ...span,
      key: span.stage,
      name: words.call.stages[span.stage],
      isTool: false,
    })),
    ...fall.tools.map((span) => ({ ...span, key: span.use.id, name: span.use.name, isTool: true })),
  ].sort((a, b) => a.from - b.from);
  return (
    <ul className="grid gap-0.5">
      {bars.map(({ key, name, from, to, open, isTool }) => (
        <li key={key} className="grid grid-cols-[9.5rem_1fr_4rem] items-center gap-2">
          <span className={cx("truncate text-xs", isTool && "pl-3 text-tool")}>{name}</span>
          <span className="relative h-2.5 rounded-sm bg-hover">
            <span
              className={cx(
                "absolute inset-y-0 min-w-0.5 rounded-sm",
                isTool ? "bg-tool" : "bg-accent",
                open && "opacity-60",
              )}
              style={{
                left: `${(100 * from) / Math.max(1, fall.total)}%`,
                width: `${(100 * (to - from)) / Math.max(1, fall.total)}%`,
              }}
            />
          </span>
          <span className="text-right text-xs text-muted">{durationText(to - from)}</span>
        </li>
      ))}
    </ul>
  );
}
