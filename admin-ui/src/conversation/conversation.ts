// A conversation as it grows, for people: what is said and done, and the caller's waits. From the
// ledger of a call (docs/call-ledger.md), or the events of a written one (docs/chat.md). Pure.
import type { LiveFrame } from "../app/live-socket.ts";
import type { Stage, Turn } from "./waits.ts";

interface Placed {
  /** ms since the offer; null in a written conversation. */
  readonly at_ms: number | null;
  readonly turn: number;
}

export interface CallerItem extends Placed {
  readonly kind: "caller";
  /** `human`: someone who was asked to take the call. */
  readonly by: "caller" | "human";
  readonly text: string;
  /** From 0 to 1; 0: unknown. */
  readonly confidence: number;
}

export interface AgentItem extends Placed {
  readonly kind: "agent";
  readonly text: string;
  /** The part that the caller heard, if the answer was cut: interrupted, or the call ended. */
  readonly heard: string | null;
  /** `operator`, or empty: the agent's own words. */
  readonly by: string;
}

export interface ToolItem extends Placed {
  readonly kind: "tool";
  readonly id: string;
  readonly name: string;
  readonly arguments: unknown;
  /** Id of the workflow that it is a step of. */
  readonly parent: string;
  /** `running`, or the status of the answer. */
  readonly status: string;
  readonly message: string;
  /** The data that the agent received; undefined if the event has none. */
  readonly sent: unknown;
  /** Time of the answer. */
  readonly to_ms: number | null;
  readonly took_ms: number | null;
  readonly source: string;
  readonly cut: readonly string[];
}

/** A question for the caller's yes; `answer` is `yes`, `no`, `none`, or empty while it is open. */
export interface ApprovalItem extends Placed {
  readonly kind: "approval";
  readonly question: string;
  readonly answer: string;
}

/** Events that are told with their name and their words. */
export const MARKS = [
  "call.silence",
  "call.trouble",
  "call.flagged",
  "call.listened",
  "line.transfer",
  "message.taken",
  "callback.requested",
  "operator.hint",
  "operator.hangup",
  "operator.takeover",
  "operator.conference",
  "operator.whisper",
  "announcement.heard",
  "announcement.unheard",
  "caller.key_chosen",
  "line.music_began",
  "line.music_ended",
  "line.hold_began",
  "line.hold_ended",
  "recording.started",
  "recording.paused",
  "recording.resumed",
  "recording.declined",
  "ledger.gap",
] as const;

export interface MarkItem extends Placed {
  readonly kind: "mark";
  readonly type: (typeof MARKS)[number];
  readonly text: string;
  readonly who: string;
  readonly failed: boolean;
}

export type Item =
  | CallerItem
  | AgentItem
  | ToolItem
  | ApprovalItem
  | MarkItem
  | (Placed & { readonly kind: "filler"; readonly text: string })
  | (Placed & { readonly kind: "keys"; readonly keys: string });

export interface Conversation {
  /** Only appended to, so the place is what identifies one. */
  readonly items: readonly Item[];
  readonly turns: readonly Turn[];
  /** Beginning of the caller's speech, ms since the offer; null once there are its words. */
  readonly speech_ms: number | null;
  /** The caller's words so far, while they may still change; empty once they are an item. */
  readonly partial: string;
  readonly ended: { readonly outcome: string; readonly reason: string } | null;
  /** Time of the newest line. */
  readonly last_ms: number;
}

export const NOTHING_YET: Conversation = {
  items: [],
  turns: [],
  speech_ms: null,
  partial: "",
  ended: null,
  last_ms: 0,
};

/** An event of the engine: its fields, as they came. */
export type Fields = Readonly<Record<string, unknown>>;

/** The conversation after more lines of the ledger. Unknown ones change nothing. */
export function withLines(before: Conversation, lines: readonly Fields[]): Conversation {
  if (lines.length === 0) return before;
  const growing = new Growing(before);
  for (const line of lines) growing.take(line, " ");
  return growing.conversation();
}

/** The conversation after a frame of the live feed. */
export function withFrame(before: Conversation, frame: Partial<LiveFrame>): Conversation {
  const after = withLines(frame.restart ? NOTHING_YET : before, frame.events ?? []);
  return typeof frame.partial === "string" ? { ...after, partial: frame.partial } : after;
}

const LINE_OF_EVENT: Readonly<Record<string, string>> = {
  token: "agent.text",
  tool_call: "tool.asked",
  tool_result: "tool.answered",
  filler: "tool.filler",
  approval: "tool.approval",
  error: "call.trouble",
};

/** The conversation after an event of a written one. Unknown ones change nothing. */
export function withChatEvent(before: Conversation, event: string, fields: Fields): Conversation {
  const type = LINE_OF_EVENT[event];
  if (type === undefined) return before;
  const growing = new Growing(before);
  growing.take({ ...fields, type, where: fields.code }, "");
  return growing.conversation();
}

/** The conversation after the answer to the question that is open. */
export function answered(before: Conversation, answer: "yes" | "no"): Conversation {
  const items = before.items.map((item) =>
    item.kind === "approval" && item.answer === "" ? { ...item, answer } : item,
  );
  return { ...before, items };
}

type Rest = Omit<Conversation, "items" | "turns">;

/** One round of lines: changes copies, so that what was shown before stays as it was. */
class Growing {
  readonly #items: Item[];
  readonly #turns: Turn[];
  #rest: Rest;

  constructor({ items, turns, ...rest }: Conversation) {
    this.#items = [...items];
    this.#turns = [...turns];
    this.#rest = rest;
  }

  conversation(): Conversation {
    return { ...this.#rest, items: this.#items, turns: this.#turns };
  }

  /** `between`: what stands between two pieces of one answer. */
  take(line: Fields, between: string): void {
    const placed: Placed = {
      at_ms: typeof line.at_ms === "number" ? line.at_ms : null,
      turn: number(line.turn),
    };
    this.#set({ last_ms: Math.max(this.#rest.last_ms, placed.at_ms ?? 0) });
    if (text(line.type).startsWith("tool.")) this.#tool(placed, line);
    else this.#talk(placed, line, between);
    const type = MARKS.find((each) => each === line.type);
    if (type) this.#items.push({ ...placed, kind: "mark", type, ...toldBy(line) });
  }

  #talk(placed: Placed, line: Fields, between: string): void {
    const { turn } = placed;
    const at_ms = number(line.at_ms);
    switch (line.type) {
      case "caller.started":
        this.#set({ speech_ms: number(line.speech_ms) });
        break;
      case "caller.stopped":
        this.#begin(begun(line));
        break;
      case "caller.text":
        this.#understood(placed, line);
        break;
      case "caller.key":
        this.#key(placed, text(line.key));
        break;
      case "agent.text":
        this.#reach(turn, "brain", at_ms);
        this.#answer({ ...placed, ...answerOf(line) }, between);
        break;
      case "agent.audio_started":
        this.#reach(turn, "tts", at_ms);
        break;
      case "agent.interrupted":
      case "agent.cut_off":
        this.#cut(turn, text(line.heard));
        break;
      case "turn.latency":
      case "turn.answered":
        this.#change(turn, measured(line));
        break;
      case "call.ended": {
        const ended = { outcome: text(line.outcome), reason: text(line.reason) };
        this.#set({ speech_ms: null, partial: "", ended });
      }
    }
  }

  #tool(placed: Placed, line: Fields): void {
    switch (line.type) {
      case "tool.asked":
        this.#items.push(asked(placed, line));
        break;
      case "tool.answered":
        this.#toolAnswered(placed, line);
        break;
      case "tool.filler":
        this.#items.push({ ...placed, kind: "filler", text: text(line.text) });
        break;
      case "tool.approval":
        this.#items.push({ ...placed, ...approvalOf(line) });
    }
  }

  #understood(placed: Placed, line: Fields): void {
    const words = text(line.understood) || text(line.text);
    const by = line.said_by === "human" ? "human" : "caller";
    this.#set({ speech_ms: null, partial: "" });
    if (by === "caller") {
      this.#reach(placed.turn, "stt", placed.at_ms ?? 0);
      this.#change(placed.turn, { words });
    } else {
      const place = this.#turns.findIndex((turn) => turn.number === placed.turn);
      if (place >= 0) this.#turns.splice(place, 1);
    }
    const confidence = number(line.confidence);
    this.#items.push({ ...placed, kind: "caller", by, text: words, confidence });
  }

  #key(placed: Placed, key: string): void {
    const last = this.#items.at(-1);
    if (last?.kind !== "keys") this.#items.push({ ...placed, kind: "keys", keys: key });
    else this.#items[this.#items.length - 1] = { ...last, keys: last.keys + key };
  }

  /** One answer is one item, however many sentences it comes in. */
  #answer(more: AgentItem, between: string): void {
    const last = this.#items.at(-1);
    const isAnswer = last?.kind === "agent" && last.heard === null;
    if (isAnswer && last.turn === more.turn && last.by === more.by) {
      const together = [last.text, more.text].filter(Boolean).join(between);
      this.#items[this.#items.length - 1] = { ...last, text: together };
    } else this.#items.push(more);
  }

  /**
   * Mark what was not heard of an answer, since it was cut before. A tool or a key may stand between
   * its parts: the heard words are counted off from the first part on.
   */
  #cut(turn: number, heard: string): void {
    let parts: [place: number, item: AgentItem][] = [];
    this.#items.forEach((item, place) => {
      if (item.kind !== "agent" || item.turn !== turn) return;
      if (item.heard === null) parts.push([place, item]);
      else parts = [];
    });
    let left = heard;
    for (const [place, item] of parts) {
      const whole = left.startsWith(item.text);
      if (!whole || place === parts.at(-1)?.[0]) this.#items[place] = { ...item, heard: left };
      left = whole ? left.slice(item.text.length).trimStart() : "";
    }
  }

  /** Add the answer of a tool call; a late one may come without its question. */
  #toolAnswered(placed: Placed, line: Fields): void {
    const answer = {
      status: text(line.status),
      message: text(line.message),
      sent: line.sent,
      to_ms: placed.at_ms,
      took_ms: number(line.took_ms),
      source: text(line.source),
      cut: Array.isArray(line.cut) ? line.cut.map(text) : [],
    };
    const id = text(line.ask_id);
    const place = this.#items.findIndex((item) => item.kind === "tool" && item.id === id);
    const question = this.#items[place];
    if (question?.kind === "tool") this.#items[place] = { ...question, ...answer };
    else this.#items.push({ ...asked(placed, line), ...answer });
  }

  /** A caller who goes on speaking ends the same turn again. */
  #begin(turn: Turn): void {
    if (this.#turns.at(-1)?.number === turn.number) this.#turns.pop();
    this.#turns.push(turn);
  }

  #reach(which: number, stage: Stage, at_ms: number): void {
    const done = this.#turns.find((turn) => turn.number === which)?.done;
    if (done && done[stage] === undefined)
      this.#change(which, { done: { ...done, [stage]: at_ms } });
  }

  #change(which: number, change: Partial<Turn>): void {
    const place = this.#turns.findIndex((turn) => turn.number === which);
    const turn = this.#turns[place];
    if (turn) this.#turns[place] = { ...turn, ...change };
  }

  #set(change: Partial<Rest>): void {
    this.#rest = { ...this.#rest, ...change };
  }
}

function answerOf(line: Fields): Omit<AgentItem, keyof Placed> {
  return { kind: "agent", text: text(line.text), heard: null, by: text(line.said_by) };
}

/** A question that has its answer was said before, as words of the agent. */
function approvalOf(line: Fields): Omit<ApprovalItem, keyof Placed> {
  const answer = text(line.answer);
  return { kind: "approval", question: answer ? "" : text(line.question), answer };
}

function asked(placed: Placed, line: Fields): ToolItem {
  return {
    ...placed,
    kind: "tool",
    id: text(line.ask_id),
    name: text(line.name),
    arguments: line.arguments,
    parent: text(line.parent),
    status: "running",
    message: "",
    sent: undefined,
    to_ms: null,
    took_ms: null,
    source: "",
    cut: [],
  };
}

/** The words of a mark. Those of a silence are the agent's, and follow by themselves. */
function toldBy(line: Fields): Pick<MarkItem, "text" | "who" | "failed"> {
  const said = line.type === "call.silence" ? "" : line.text;
  const parts = [line.kind, line.where, line.destination, said, line.message, line.reason];
  const error = text(line.error);
  const failed = line.type === "call.trouble" || line.type === "ledger.gap" || error !== "";
  return {
    text: [...parts.map(text), error].filter(Boolean).join(": "),
    who: text(line.who),
    failed,
  };
}

function begun(line: Fields): Turn {
  return {
    number: number(line.turn),
    since_ms: number(line.last_speech_ms),
    words: "",
    done: { endpoint: number(line.at_ms) },
    stages: null,
    total_ms: null,
    answer_ms: null,
  };
}

/** The engine's figures of a turn: of its wait, or of the answer after a filler. */
function measured(line: Fields): Partial<Turn> {
  if (line.type === "turn.answered") return { answer_ms: number(line.answer_ms) };
  const stages = {
    endpoint: number(line.endpoint_ms),
    stt: number(line.stt_ms),
    brain: number(line.brain_ms),
    tts: number(line.tts_ms),
    wire: number(line.wire_ms),
  };
  return { stages, total_ms: number(line.total_ms) };
}

export function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function number(value: unknown): number {
  return typeof value === "number" ? value : 0;
}
