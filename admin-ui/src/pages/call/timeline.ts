// One call as shapes on a time axis: both voices, the wait of each turn stage by stage, tools, keys,
// the line, people, troubles. The picture, the table and the keys of the page all use it. Pure.

import type { components } from "../../api/generated.ts";
import { heardParts } from "../../conversation/heard.ts";
import { type Axis, foldsBetween, makeAxis, type Span } from "./axis.ts";
import type { Mode } from "./search.ts";

export type Call = components["schemas"]["CallRecord"];
export type Turn = components["schemas"]["TurnRecord"];
export type Tool = components["schemas"]["ToolRecord"];
export type Mark = components["schemas"]["Mark"];

/** Stages of a wait in the order of time. `answer`: from a filler's sound to the answer's. */
export const STAGES = ["vad", "endpoint", "stt", "brain", "tts", "wire", "answer"] as const;
export type Stage = (typeof STAGES)[number];

export const LANES = ["caller", "waited", "agent", "tools", "line", "people", "trouble"] as const;
export type Lane = (typeof LANES)[number];

export type Kind = "spoken" | "heard" | "unheard" | "tool" | "failed" | "mark" | Stage;

export interface Shape extends Span {
  readonly lane: Lane;
  /** Row within the lane: things at the same time are below each other. */
  readonly row: number;
  readonly kind: Kind;
  readonly turn: number | null;
  /** Id of a tool call; empty for other shapes. */
  readonly tool: string;
  /** Kind of a mark; else empty. */
  readonly mark: string;
  readonly text: string;
}

/** One stage of a wait. */
export interface Waited extends Span {
  readonly stage: Stage;
}

/**
 * The wait of a turn, stage by stage. The engine counts `vad` as a part of `endpoint`; here they
 * follow each other, so that all stages add up to the time until the caller heard the answer.
 */
export function waitsOf(turn: Turn): Waited[] {
  if (!turn.caller) return [];
  const first: Record<string, number> = { ...turn.waited };
  if (first.endpoint !== undefined && first.vad !== undefined) {
    first.vad = Math.min(first.vad, first.endpoint);
    first.endpoint -= first.vad;
  }
  const stages: Waited[] = [];
  let at = turn.caller.end_ms;
  for (const stage of STAGES) {
    const ms = first[stage] ?? 0;
    if (ms > 0) stages.push({ stage, from: at, to: at + ms });
    at += ms;
  }
  const answered = turn.answer_ms === null ? at : turn.caller.end_ms + turn.answer_ms;
  if (turn.filler_first && answered > at) stages.push({ stage: "answer", from: at, to: answered });
  return stages;
}

/** ms from the end of the caller's words to the answer; null if there was none. */
export function waitOf(turn: Turn): number | null {
  return turn.answer_ms ?? turn.waited.total ?? null;
}

/** The most that is drawn of what a caller did not hear; its true length is unknown. */
const MOST_UNHEARD = 4000;

/** Length of the part that was not heard, estimated from the pace of the part that was. */
function unheardMs(turn: Turn): number {
  const agent = turn.agent;
  if (!agent?.cut || agent.begin_ms === null || agent.end_ms === null) return 0;
  const parts = heardParts(agent.text, agent.heard, true);
  const letters = (heard: boolean) =>
    parts.reduce((sum, part) => sum + (part.heard === heard ? part.text.length : 0), 0);
  if (!letters(true)) return 0;
  const pace = (agent.end_ms - agent.begin_ms) / letters(true);
  return Math.min(MOST_UNHEARD, Math.round(letters(false) * pace));
}

/** End of a call; while it runs, the last moment that is known. */
export function endOf(call: Call): number {
  const known = [call.row.duration_ms ?? 0, call.connected_ms ?? 0];
  for (const turn of call.turns) known.push(turn.caller?.end_ms ?? 0, turn.agent?.end_ms ?? 0);
  for (const tool of call.tools) known.push(tool.end_ms ?? tool.begin_ms);
  for (const mark of call.marks) known.push(mark.until_ms ?? mark.at_ms);
  const { began_ms, duration_ms } = call.recording;
  if (began_ms !== null && duration_ms !== null) known.push(began_ms + duration_ms);
  return Math.max(1, ...known);
}

const MARK_LANES: Readonly<Record<string, Lane>> = {
  flag: "people",
  listened: "people",
  "operator.say": "people",
  "operator.hint": "people",
  "operator.hangup": "people",
  "operator.takeover": "people",
  "operator.conference": "people",
  "operator.whisper": "people",
  trouble: "trouble",
  adopted: "trouble",
  gap: "trouble",
};

/** All shapes of a call, each lane in the order of time. */
export function shapesOf(call: Call): Shape[] {
  const shapes = call.turns.flatMap((turn, index) => shapesOfTurn(turn, call.turns[index + 1]));
  for (const tool of call.tools) {
    shapes.push({
      ...plain("tools", tool.status === "ok" ? "tool" : "failed", tool.begin_ms),
      to: tool.end_ms ?? tool.begin_ms,
      turn: tool.turn,
      tool: tool.id,
      text: tool.name,
    });
  }
  for (const mark of call.marks) {
    shapes.push({
      ...plain(MARK_LANES[mark.kind] ?? "line", "mark", mark.at_ms),
      to: mark.until_ms ?? mark.at_ms,
      mark: mark.kind,
      text: mark.text,
    });
  }
  shapes.sort((a, b) => a.from - b.from);
  return packed(shapes);
}

function shapesOfTurn(turn: Turn, following: Turn | undefined): Shape[] {
  const shapes: Shape[] = [];
  const of = { turn: turn.number };
  if (turn.caller) {
    const { begin_ms, end_ms, understood, text } = turn.caller;
    const from = begin_ms ?? end_ms;
    shapes.push({
      ...plain("caller", "spoken", from),
      ...of,
      to: end_ms,
      text: understood || text,
    });
  }
  for (const { stage, from, to } of waitsOf(turn)) {
    shapes.push({ ...plain("waited", stage, from), ...of, to });
  }
  const { begin_ms: from, end_ms } = turn.agent ?? { begin_ms: null, end_ms: null };
  if (turn.agent && from !== null) {
    const to = end_ms ?? from;
    shapes.push({ ...plain("agent", "heard", from), ...of, to, text: turn.agent.heard });
    const next = following?.agent?.begin_ms ?? Number.POSITIVE_INFINITY;
    const until = Math.min(to + unheardMs(turn), next);
    if (until > to) shapes.push({ ...plain("agent", "unheard", to), ...of, to: until });
  }
  return shapes;
}

function plain(lane: Lane, kind: Kind, from: number): Shape {
  return { lane, kind, from, to: from, row: 0, turn: null, tool: "", mark: "", text: "" };
}

/** Rows of a lane that are drawn; what has no room is in the last one. */
const MOST_ROWS = 3;

/** Put what happens at the same time in rows of its lane; voices and waits have one row. */
function packed(shapes: readonly Shape[]): Shape[] {
  const ends = new Map<Lane, number[]>();
  return shapes.map((shape) => {
    if (shape.lane === "caller" || shape.lane === "waited" || shape.lane === "agent") return shape;
    const rows = ends.get(shape.lane) ?? [];
    ends.set(shape.lane, rows);
    const free = rows.findIndex((end) => end < shape.from);
    const row = Math.min(free < 0 ? rows.length : free, MOST_ROWS - 1);
    rows[row] = Math.max(rows[row] ?? 0, shape.to);
    return { ...shape, row };
  });
}

/** What went wrong, in the order of time: troubles, missing lines, failed tools. */
export function troublesOf(shapes: readonly Shape[]): Shape[] {
  return shapes.filter((shape) => shape.lane === "trouble" || shape.kind === "failed");
}

const PAUSE = { margin: 400, least: 3000 };
const WAITS = { margin: 150, least: 700 };
const TROUBLES = { margin: 2500, least: 1500 };

/** The axis of a mode: what the mode is about stays, the rest is folded. */
export function axisOf(
  shapes: readonly Shape[],
  end: number,
  mode: Mode | undefined,
  fold: boolean,
): Axis {
  if (mode === "waits") {
    const waits = shapes.filter((shape) => shape.lane === "waited");
    return makeAxis(end, foldsBetween(waits, end, WAITS.margin, WAITS.least));
  }
  if (mode === "troubles") {
    const troubles = troublesOf(shapes);
    return makeAxis(end, foldsBetween(troubles, end, TROUBLES.margin, TROUBLES.least));
  }
  if (!fold) return makeAxis(end);
  const busy = shapes.filter((shape) => shape.kind !== "mark" || shape.to === shape.from);
  return makeAxis(end, foldsBetween(busy, end, PAUSE.margin, PAUSE.least));
}

/** The shapes that a view shows. */
export function visible(shapes: readonly Shape[], view: Span): Shape[] {
  return shapes.filter((shape) => shape.to >= view.from && shape.from <= view.to);
}

/** The turn that is spoken or waited for at a time: the last one that has begun. */
export function turnAt(call: Call, time: number): Turn | undefined {
  let found: Turn | undefined;
  for (const turn of call.turns) if (beginOf(turn) <= time) found = turn;
  return found;
}

/** First moment of a turn. */
export function beginOf(turn: Turn): number {
  const caller = turn.caller ? (turn.caller.begin_ms ?? turn.caller.end_ms) : null;
  return caller ?? turn.agent?.begin_ms ?? turn.agent?.end_ms ?? 0;
}

/** A time this close before the position is the one that was jumped to: going back passes it. */
const JUST_NOW = 400;

/** The next time after the position, or the last one before it. `times` are in order. */
export function neighbour(times: readonly number[], at: number, step: 1 | -1): number | undefined {
  if (step > 0) return times.find((time) => time > at + 1);
  return times.filter((time) => time < at - JUST_NOW).at(-1);
}

/** The share of a wait that a tool call took. */
export function shareOf(tool: Tool, wait: Span): number {
  const to = Math.min(wait.to, tool.end_ms ?? tool.begin_ms);
  return Math.max(0, to - Math.max(wait.from, tool.begin_ms));
}

/** The caller's approvals that were asked for while a tool call waited. */
export function approvalsOf(tool: Tool, marks: readonly Mark[]): Mark[] {
  const end = tool.end_ms ?? Number.POSITIVE_INFINITY;
  return marks.filter(
    (mark) => mark.kind === "approval" && mark.at_ms >= tool.begin_ms && mark.at_ms <= end,
  );
}
