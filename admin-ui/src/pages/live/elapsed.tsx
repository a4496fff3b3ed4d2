// Times that run, such as how long a caller has been waiting. They are written straight into their
// elements: a hundred clocks must not make the page render four times a second.
import { useEffect, useRef } from "react";

import { clockText } from "../../parts/time.tsx";

const TICK_MS = 250;
const ticking = new Set<() => void>();
let timer: ReturnType<typeof setInterval> | undefined;

/** Calls `tick` four times a second, until the returned function is called. */
function everyTick(tick: () => void): () => void {
  ticking.add(tick);
  timer ??= setInterval(() => {
    for (const each of ticking) each();
  }, TICK_MS);
  return () => {
    ticking.delete(tick);
    if (ticking.size > 0) return;
    clearInterval(timer);
    timer = undefined;
  };
}

const SHAPES = {
  /** "1:07" */
  clock: clockText,
  /** "2.4 s" */
  seconds: (ms: number) =>
    ms < 60_000 ? `${(Math.max(0, ms) / 1_000).toFixed(1)} s` : clockText(ms),
};

export interface ElapsedProps {
  /** ms since 1970, of the engine's clock. */
  since: number;
  /** What this browser's clock is ahead of the engine's, in ms. */
  ahead: number;
  shape: keyof typeof SHAPES;
  className?: string;
}

/** The time since a moment, as it runs. */
export function Elapsed({ since, ahead, shape, className }: ElapsedProps) {
  const element = useRef<HTMLSpanElement>(null);
  useEffect(() => {
    const tick = () => {
      const shown = SHAPES[shape](Date.now() - ahead - since);
      if (element.current && element.current.textContent !== shown) {
        element.current.textContent = shown;
      }
    };
    tick();
    return everyTick(tick);
  }, [since, ahead, shape]);
  return <span ref={element} className={className} />;
}
