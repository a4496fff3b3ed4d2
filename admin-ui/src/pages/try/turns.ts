// The caller's waits in a call, turn by turn, from the lines of its ledger.

import { type Fields, number, text } from "./conversation.ts";

/** The stages of a wait, in their order. */
export const STAGES = ["endpoint", "stt", "brain", "tts", "wire"] as const;
export type Stage = (typeof STAGES)[number];

export interface Turn {
  readonly number: number;
  /** The page's clock (`performance.now`) at the caller's last sound: the wait runs from there. */
  readonly since: number;
  /** Empty until they are understood. */
  readonly words: string;
  readonly tools: readonly string[];
  /** Milliseconds of each stage; null while the caller waits. */
  readonly stages: Readonly<Record<Stage, number>> | null;
  /** Milliseconds from the caller's last sound to the first one of the answer. */
  readonly totalMs: number | null;
  /** True if the first sound was a filler. */
  readonly filler: boolean;
  /** After a filler: milliseconds to the answer itself. */
  readonly answerMs: number | null;
}

/** Add a line of the ledger that came at `now` on the page's clock. */
export function withLine(turns: readonly Turn[], line: Fields, now: number): readonly Turn[] {
  const turn = number(line.turn);
  switch (line.type) {
    case "caller.stopped":
      return [...turns, begun(turn, now - (number(line.at_ms) - number(line.last_speech_ms)))];
    case "caller.text":
      return changed(turns, turn, { words: text(line.understood) || text(line.text) });
    case "tool.asked": {
      const tools = turns.find((each) => each.number === turn)?.tools ?? [];
      return changed(turns, turn, { tools: [...tools, text(line.name)] });
    }
    case "turn.latency": {
      const stages = {
        endpoint: number(line.endpoint_ms),
        stt: number(line.stt_ms),
        brain: number(line.brain_ms),
        tts: number(line.tts_ms),
        wire: number(line.wire_ms),
      };
      const totalMs = number(line.total_ms);
      return changed(turns, turn, { stages, totalMs, filler: line.filler === true });
    }
    case "turn.answered":
      return changed(turns, turn, { answerMs: number(line.answer_ms) });
    default:
      return turns;
  }
}

/** Median of the waits, in ms; null without any. */
export function medianWait(turns: readonly Turn[]): number | null {
  const waits = turns
    .flatMap((turn) => (turn.totalMs === null ? [] : [turn.answerMs ?? turn.totalMs]))
    .sort((a, b) => a - b);
  return waits[Math.floor((waits.length - 1) / 2)] ?? null;
}

function begun(turn: number, since: number): Turn {
  return {
    number: turn,
    since,
    words: "",
    tools: [],
    stages: null,
    totalMs: null,
    filler: false,
    answerMs: null,
  };
}

function changed(turns: readonly Turn[], which: number, change: Partial<Turn>): readonly Turn[] {
  return turns.map((turn) => (turn.number === which ? { ...turn, ...change } : turn));
}
