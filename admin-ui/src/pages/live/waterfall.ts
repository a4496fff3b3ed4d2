// The wait of one turn as it goes on: which stage takes how long, and the tools within it.
import type { RunningTurn, ToolUse } from "./transcript.ts";

export const STAGES = ["endpoint", "stt", "brain", "tts", "wire"] as const;
export type Stage = (typeof STAGES)[number];

/** A stretch of the wait; times are ms since the caller's last sound. */
export interface Span {
  stage: Stage;
  from: number;
  to: number;
  /** True while it goes on. */
  open: boolean;
}

export interface ToolSpan {
  use: ToolUse;
  from: number;
  to: number;
  open: boolean;
}

export interface Waterfall {
  spans: Span[];
  tools: ToolSpan[];
  total: number;
  /** True until the caller hears the answer. */
  waits: boolean;
}

/** The wait of a turn at a moment, ms since the offer. */
export function waterfallOf(turn: RunningTurn, uses: Iterable<ToolUse>, now: number): Waterfall {
  const waits = turn.stages === null && turn.sounded_ms === null;
  const spans = turn.stages ? measured(turn.stages) : reached(turn, now);
  const tools = [...uses]
    .filter((use) => use.turn === turn.number && use.from_ms >= turn.since_ms)
    .map((use) => ({
      use,
      from: use.from_ms - turn.since_ms,
      to: Math.max(use.from_ms, use.to_ms ?? now) - turn.since_ms,
      open: use.to_ms === null,
    }));
  const ends = [...spans, ...tools].map((each) => each.to);
  return { spans, tools, total: Math.max(0, ...ends), waits };
}

/** By the engine's own figures. */
function measured(stages: Record<string, number>): Span[] {
  let at = 0;
  return STAGES.flatMap((stage) => {
    const from = at;
    at += stages[stage] ?? 0;
    return at > from ? [{ stage, from, to: at, open: false }] : [];
  });
}

/** By what has happened until now; the stage that goes on is the last one. */
function reached(turn: RunningTurn, now: number): Span[] {
  const steps: [Stage, number | null][] = [
    ["endpoint", turn.decided_ms],
    ["stt", turn.understood_ms],
    ["brain", turn.worded_ms],
    ["tts", turn.sounded_ms],
  ];
  const spans: Span[] = [];
  let at = turn.since_ms;
  for (const [stage, done] of steps) {
    const open = done === null;
    // A stage may be over before the one in front of it, as words that are there before the turn
    // ends; it then took no time of the wait.
    const to = Math.max(at, done ?? now);
    const from = at - turn.since_ms;
    if (to > at || open) spans.push({ stage, from, to: to - turn.since_ms, open });
    if (open) break;
    at = to;
  }
  return spans;
}
