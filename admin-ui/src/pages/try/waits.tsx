// The caller's waits as they come, one bar for each turn, to one scale. The numbers below a bar say
// the same in words.
import { type ReactNode, useEffect, useState } from "react";

import { cx } from "../../parts/cx.ts";
import { durationText } from "../../parts/time.tsx";
import { words } from "../../words/try.ts";
import { medianWait, STAGES, type Stage, type Turn } from "./turns.ts";

const text = words.calling;
/** The shortest scale: below it, a good answer would look like a long one. */
const LEAST_SCALE_MS = 1_500;
const FRAME_MS = 50;

// Stages differ by pattern, too: not everyone sees the colours.
const PATTERNS: Readonly<Record<Stage, string>> = {
  endpoint:
    "text-strong bg-[repeating-linear-gradient(135deg,currentColor_0_2px,transparent_2px_5px)]",
  stt: "bg-caller",
  brain: "text-agent bg-[repeating-linear-gradient(90deg,currentColor_0_3px,transparent_3px_5px)]",
  tts: "bg-tool",
  wire: "text-strong bg-[repeating-linear-gradient(0deg,currentColor_0_1px,transparent_1px_3px)]",
};

export function Waits({ turns, live }: { turns: readonly Turn[]; live: boolean }) {
  const median = medianWait(turns);
  const longest = Math.max(LEAST_SCALE_MS, ...turns.map((turn) => turn.totalMs ?? 0));
  return (
    <section aria-label={text.waits} className="grid grid-cols-[minmax(0,1fr)] gap-2">
      <div className="flex items-baseline justify-between">
        <h2>{text.waits}</h2>
        {median !== null && (
          <span className="text-muted">
            {text.median} <span className="text-ink">{durationText(median)}</span>
          </span>
        )}
      </div>
      {turns.length === 0 && <p className="text-muted">{text.waitsEmpty}</p>}
      <ol className="grid grid-cols-[minmax(0,1fr)] gap-2.5">
        {turns.map((turn) => (
          <li key={turn.number}>
            <Wait turn={turn} scale={longest} live={live} />
          </li>
        ))}
      </ol>
      {turns.length > 0 && <Legend />}
    </section>
  );
}

function Wait({ turn, scale, live }: { turn: Turn; scale: number; live: boolean }) {
  const { stages, totalMs, filler, answerMs } = turn;
  return (
    <div className="grid grid-cols-[minmax(0,1fr)] gap-1">
      <div className="flex items-baseline justify-between gap-2">
        <span className="min-w-0 truncate">{turn.words || words.turn(turn.number)}</span>
        {totalMs !== null && (
          <span className="font-medium whitespace-nowrap">{durationText(totalMs)}</span>
        )}
      </div>
      {stages === null ? (
        live && <Running since={turn.since} scale={scale} />
      ) : (
        <>
          <Track>
            {STAGES.map((stage) => (
              <span
                key={stage}
                className={cx("h-full", PATTERNS[stage])}
                style={{ width: `${(100 * stages[stage]) / scale}%` }}
              />
            ))}
          </Track>
          <p className="text-xs text-muted">
            {STAGES.filter((stage) => stages[stage] > 0)
              .map((stage) => `${words.stages[stage]} ${stages[stage]}`)
              .join(" · ")}
            {filler && answerMs !== null && ` · ${words.withFiller(durationText(answerMs))}`}
          </p>
        </>
      )}
    </div>
  );
}

function Track({ children }: { children: ReactNode }) {
  return (
    <span aria-hidden="true" className="flex h-3 overflow-hidden rounded-sm bg-hover">
      {children}
    </span>
  );
}

/** A wait that goes on: it grows until the answer's first sound. */
function Running({ since, scale }: { since: number; scale: number }) {
  const [now, setNow] = useState(() => performance.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(performance.now()), FRAME_MS);
    return () => clearInterval(timer);
  }, []);
  const waited = Math.max(0, now - since);
  return (
    <>
      <Track>
        <span
          className="h-full bg-accent"
          style={{ width: `${Math.min(100, (100 * waited) / scale)}%` }}
        />
      </Track>
      <p className="text-xs text-muted">
        {durationText(waited)} {words.waiting}
      </p>
    </>
  );
}

function Legend() {
  return (
    <ul className="flex flex-wrap gap-x-3 gap-y-1 text-xs text-muted">
      {STAGES.map((stage) => (
        <li key={stage} className="flex items-center gap-1">
          <span aria-hidden="true" className={cx("size-2.5 rounded-xs", PATTERNS[stage])} />
          {words.stages[stage]}
        </li>
      ))}
    </ul>
  );
}
