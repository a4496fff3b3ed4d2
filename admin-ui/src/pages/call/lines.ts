// The lines of a transcript: what was said, with the tools and events between it. Pure.

import { heardParts, type SaidPart } from "../../conversation/heard.ts";
import type { Call, Mark, Tool, Turn } from "./timeline.ts";

interface Line {
  readonly key: string;
  readonly from: number;
  readonly to: number;
  readonly turn: number | null;
}

export interface SaidLine extends Line {
  readonly who: "caller" | "agent";
  readonly parts: readonly SaidPart[];
  /** What the recogniser wrote, if misheard names were corrected. */
  readonly recognised: string;
  /** ms that the caller had waited before it; null for the caller's own lines. */
  readonly waited: number | null;
}

export interface ToolLine extends Line {
  readonly who: "tool";
  readonly tool: Tool;
}

export interface MarkLine extends Line {
  readonly who: "mark";
  readonly mark: Mark;
  /** The same again and again, such as keys. */
  readonly count: number;
}

export type TranscriptLine = SaidLine | ToolLine | MarkLine;

/** Events that stand in the transcript; the others are seen in the picture. */
const SHOWN = ["key", "approval", "transfer", "trouble", "gap", "muted", "flag"];

export function linesOf(call: Call): TranscriptLine[] {
  const lines: TranscriptLine[] = [
    ...call.turns.flatMap(saidIn),
    ...call.tools.map(
      (tool): ToolLine => ({
        key: `tool-${tool.id}`,
        who: "tool",
        from: tool.begin_ms,
        to: tool.end_ms ?? tool.begin_ms,
        turn: tool.turn,
        tool,
      }),
    ),
    ...marksOf(call),
  ];
  return lines.sort((a, b) => a.from - b.from);
}

function saidIn(turn: Turn): SaidLine[] {
  const lines: SaidLine[] = [];
  const { caller, agent, number } = turn;
  if (caller) {
    const text = caller.understood || caller.text;
    lines.push({
      key: `caller-${number}`,
      who: "caller",
      from: caller.begin_ms ?? caller.end_ms,
      to: caller.end_ms,
      turn: number,
      parts: text ? [{ text, heard: true }] : [],
      recognised: caller.understood && caller.understood !== caller.text ? caller.text : "",
      waited: null,
    });
  }
  if (agent) {
    const from = agent.begin_ms ?? agent.end_ms ?? caller?.end_ms ?? 0;
    const waited = turn.answer_ms ?? turn.waited.total ?? null;
    const parts = heardParts(agent.text, agent.heard, agent.cut);
    const to = agent.end_ms ?? from;
    lines.push({
      key: `agent-${number}`,
      who: "agent",
      from,
      to,
      turn: number,
      parts,
      recognised: "",
      waited,
    });
  }
  return lines;
}

function marksOf(call: Call): MarkLine[] {
  const lines: MarkLine[] = [];
  call.marks.forEach((mark, index) => {
    if (!SHOWN.includes(mark.kind)) return;
    const before = lines.at(-1);
    if (mark.kind === "key" && before?.mark.kind === "key" && mark.at_ms - before.to < 5000) {
      const secret = mark.text === "*" && before.mark.text === "*";
      const text = secret ? "*" : before.mark.text + mark.text;
      lines[lines.length - 1] = {
        ...before,
        to: mark.at_ms,
        mark: { ...before.mark, text },
        count: before.count + 1,
      };
      return;
    }
    const to = mark.until_ms ?? mark.at_ms;
    lines.push({
      key: `mark-${index}`,
      who: "mark",
      from: mark.at_ms,
      to,
      turn: null,
      mark,
      count: 1,
    });
  });
  return lines;
}

/** The line that is heard at a time: the last spoken one that has begun; -1 before the first. */
export function lineAt(lines: readonly TranscriptLine[], time: number): number {
  let found = -1;
  lines.forEach((line, index) => {
    if ((line.who === "caller" || line.who === "agent") && line.from <= time) found = index;
  });
  return found;
}
