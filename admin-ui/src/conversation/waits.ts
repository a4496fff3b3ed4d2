// The caller's wait of a turn, stage by stage, while it goes on and after it. Pure.
import type { ToolItem } from "./conversation.ts";

/** The stages of a wait, in their order. */
export const STAGES = ["endpoint", "stt", "brain", "tts", "wire"] as const;
export type Stage = (typeof STAGES)[number];

/** A turn of the caller. Times are ms since the offer. */
export interface Turn {
  readonly number: number;
  /** The caller's last sound: the wait runs from there. */
  readonly since_ms: number;
  /** Empty until they are understood. */
  readonly words: string;
  /** When a stage was over, of those that are. */
  readonly done: Readonly<Partial<Record<Stage, number>>>;
  /** The engine's own figures: ms of each stage, once the answer has begun. */
  readonly stages: Readonly<Record<Stage, number>> | null;
  /** ms from the caller's last sound to the first one of the answer, or of a filler. */
  readonly total_ms: number | null;
  /** After a filler: ms to the answer itself. */
  readonly answer_ms: number | null;
}

/** A stretch of a wait; times are ms since the caller's last sound. */
interface Stretch {
  readonly from: number;
  readonly to: number;
  /** True while it goes on. */
  readonly open: boolean;
}

export interface Wait {
  readonly spans: readonly (Stretch & { stage: Stage })[];
  readonly tools: readonly (Stretch & { tool: ToolItem })[];
  /** The wait until now, or all of it. */
  readonly total: number;
  /** True until the caller hears the answer. */
  readonly open: boolean;
}

/** The wait of a turn at a moment, ms since the offer. `tools`: of any turn. */
export function waitOf(turn: Turn, tools: readonly ToolItem[], now: number): Wait {
  const spans = turn.stages ? measured(turn.stages) : reached(turn, now);
  const used = tools.flatMap((tool) => {
    if (tool.turn !== turn.number || tool.at_ms === null || tool.at_ms < turn.since_ms) return [];
    const to = Math.max(tool.at_ms, tool.to_ms ?? now) - turn.since_ms;
    return [{ tool, from: tool.at_ms - turn.since_ms, to, open: tool.to_ms === null }];
  });
  const total = turn.total_ms ?? Math.max(0, ...[...spans, ...used].map((each) => each.to));
  return { spans, tools: used, total, open: isOpen(turn) };
}

/** True until the caller hears the answer. */
export function isOpen(turn: Turn): boolean {
  return turn.stages === null && turn.done.tts === undefined;
}

/** By the engine's own figures. */
function measured(stages: Readonly<Record<Stage, number>>): Wait["spans"] {
  let at = 0;
  return STAGES.flatMap((stage) => {
    const from = at;
    at += stages[stage];
    return at > from ? [{ stage, from, to: at, open: false }] : [];
  });
}

/** By what has happened until now; the stage that goes on is the last one. */
function reached(turn: Turn, now: number): Wait["spans"] {
  const spans: (Stretch & { stage: Stage })[] = [];
  let at = turn.since_ms;
  for (const stage of ["endpoint", "stt", "brain", "tts"] as const) {
    const done = turn.done[stage];
    // A stage may be over before the one in front of it, as words that are there before the turn
    // ends; it then took no time of the wait.
    const to = Math.max(at, done ?? now);
    const open = done === undefined;
    if (to > at || open) {
      spans.push({ stage, from: at - turn.since_ms, to: to - turn.since_ms, open });
    }
    if (open) break;
    at = to;
  }
  return spans;
}

/** Median of the waits for an answer, in ms; null without any. */
export function medianWait(turns: readonly Turn[]): number | null {
  return median(turns.flatMap((turn) => turn.answer_ms ?? turn.total_ms ?? []));
}

/** The middle value; of an even number of values the lower of the two, as the engine counts. */
export function median(values: readonly number[]): number | null {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.ceil(sorted.length / 2) - 1] ?? null;
}
