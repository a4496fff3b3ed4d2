// What happens in one live call, from the lines of its ledger (docs/call-ledger.md) as they come.
import type { components } from "../../api/generated.ts";

export type Line = components["schemas"]["LiveFrame"] extends { events?: (infer L)[] } ? L : never;

export interface ToolUse {
  id: string;
  name: string;
  turn: number;
  from_ms: number;
  to_ms: number | null;
  arguments: Record<string, unknown>;
  /** Empty while it runs. */
  status: string;
  message: string;
  /** Id of the workflow that it is a step of. */
  parent: string;
}

export type Entry =
  | { kind: "caller"; key: string; at_ms: number; turn: number; text: string }
  | {
      kind: "agent";
      key: string;
      at_ms: number;
      turn: number;
      text: string;
      heard: string | null;
      by: string;
    }
  | { kind: "tool"; key: string; at_ms: number; use: ToolUse }
  | { kind: "mark"; key: string; at_ms: number; type: string; text: string; who: string };

/** The wait of the present turn, or of the last one. Times are ms since the offer. */
export interface RunningTurn {
  number: number;
  /** The caller's last sound. */
  since_ms: number;
  decided_ms: number | null;
  understood_ms: number | null;
  /** First sentence of the answer. */
  worded_ms: number | null;
  /** First sound of the answer. */
  sounded_ms: number | null;
  /** The engine's own figures, once the answer has begun. */
  stages: Record<string, number> | null;
}

export interface LiveCallState {
  entries: readonly Entry[];
  uses: ReadonlyMap<string, ToolUse>;
  turn: RunningTurn | null;
  /** True between the beginning of the caller's speech and its words. */
  callerSpeaks: boolean;
  tools: readonly string[];
  ended: { outcome: string; reason: string } | null;
  /** Time of the newest line. */
  last_ms: number;
}

export const NOTHING_YET: LiveCallState = {
  entries: [],
  uses: new Map(),
  turn: null,
  callerSpeaks: false,
  tools: [],
  ended: null,
  last_ms: 0,
};

/** The call after more lines. */
export function take(state: LiveCallState, lines: readonly Line[]): LiveCallState {
  if (lines.length === 0) return state;
  const taking = new Taking(state);
  for (const line of lines) taking.line(line);
  return taking.state();
}

/** The heard and the unheard part of an answer. */
export function cutOf(said: string, heard: string): [heard: string, unheard: string] {
  return [heard, said.startsWith(heard) ? said.slice(heard.length) : ""];
}

const text = (value: unknown): string => (typeof value === "string" ? value : "");
const number = (value: unknown): number => (typeof value === "number" ? value : 0);
const MARKS = new Set([
  "caller.key",
  "call.silence",
  "call.trouble",
  "call.flagged",
  "call.listened",
  "line.transfer",
  "operator.hint",
  "operator.hangup",
  "tool.approval",
  "recording.started",
  "recording.paused",
  "recording.resumed",
  "recording.declined",
  "ledger.gap",
]);

/** One round of lines: changes copies, so that what was shown before stays as it was. */
class Taking {
  #state: LiveCallState;
  readonly #entries: Entry[];
  readonly #uses: Map<string, ToolUse>;

  constructor(before: LiveCallState) {
    this.#state = before;
    this.#entries = [...before.entries];
    this.#uses = new Map(before.uses);
  }

  state(): LiveCallState {
    return { ...this.#state, entries: this.#entries, uses: this.#uses };
  }

  line(line: Line): void {
    const at_ms = number(line.at_ms);
    const type = text(line.type);
    this.#state = { ...this.#state, last_ms: Math.max(this.#state.last_ms, at_ms) };
    if (type.startsWith("tool.")) this.#tool(type, at_ms, line);
    else if (type.startsWith("turn.")) this.#latency(type, line);
    else this.#talk(type, at_ms, line);
    if (MARKS.has(type)) this.#mark(type, at_ms, line);
  }

  #talk(type: string, at_ms: number, line: Line): void {
    const turn = number(line.turn);
    if (type === "call.bound") {
      this.#set({ tools: Array.isArray(line.tools) ? line.tools.map(String) : [] });
    } else if (type === "caller.started") {
      this.#set({ callerSpeaks: true });
    } else if (type === "caller.stopped") {
      this.#set({ turn: begun(turn, number(line.last_speech_ms), at_ms) });
    } else if (type === "caller.text") {
      const said = text(line.understood) || text(line.text);
      this.#set({ callerSpeaks: false });
      this.#step(turn, { understood_ms: at_ms });
      this.#add({ kind: "caller", key: this.#key(at_ms), at_ms, turn, text: said });
    } else if (type === "agent.text") {
      this.#step(turn, { worded_ms: this.#state.turn?.worded_ms ?? at_ms });
      this.#answer(turn, at_ms, text(line.text), text(line.said_by));
    } else if (type === "agent.audio_started") {
      this.#step(turn, { sounded_ms: this.#state.turn?.sounded_ms ?? at_ms });
    } else if (type === "agent.interrupted") {
      this.#cut(turn, text(line.heard));
    } else if (type === "call.ended") {
      this.#set({ ended: { outcome: text(line.outcome), reason: text(line.reason) } });
    }
  }

  #tool(type: string, at_ms: number, line: Line): void {
    const id = text(line.ask_id);
    if (type === "tool.asked") {
      const given = line.arguments;
      const use: ToolUse = {
        id,
        name: text(line.name),
        turn: number(line.turn),
        from_ms: at_ms,
        to_ms: null,
        arguments: given && typeof given === "object" ? { ...given } : {},
        status: "",
        message: "",
        parent: text(line.parent),
      };
      this.#uses.set(id, use);
      this.#add({ kind: "tool", key: `tool-${id}`, at_ms, use });
      return;
    }
    const before = this.#uses.get(id);
    if (type !== "tool.answered" || before === undefined) return;
    const { status, message } = line;
    const use = { ...before, to_ms: at_ms, status: text(status), message: text(message) };
    this.#uses.set(id, use);
    const place = this.#entries.findIndex((each) => each.kind === "tool" && each.use.id === id);
    const entry = this.#entries[place];
    if (entry?.kind === "tool") this.#entries[place] = { ...entry, use };
  }

  #latency(type: string, line: Line): void {
    if (type !== "turn.latency") return;
    const stages = Object.fromEntries(
      Object.entries(line).flatMap(([name, value]) =>
        name.endsWith("_ms") && name !== "at_ms" && typeof value === "number"
          ? [[name.slice(0, -"_ms".length), value]]
          : [],
      ),
    );
    this.#step(number(line.turn), { stages });
  }

  /** One answer is one entry, however many sentences it comes in. */
  #answer(turn: number, at_ms: number, said: string, by: string): void {
    const last = this.#entries.at(-1);
    if (last?.kind === "agent" && last.turn === turn && last.by === by && last.heard === null) {
      const together = [last.text, said].filter(Boolean).join(" ");
      this.#entries[this.#entries.length - 1] = { ...last, text: together };
    } else {
      const key = this.#key(at_ms);
      this.#add({ kind: "agent", key, at_ms, turn, text: said, heard: null, by });
    }
  }

  #cut(turn: number, heard: string): void {
    const answer = (each: Entry) => each.kind === "agent" && each.turn === turn;
    const place = this.#entries.map(answer).lastIndexOf(true);
    const entry = this.#entries[place];
    if (entry?.kind === "agent") this.#entries[place] = { ...entry, heard };
  }

  #mark(type: string, at_ms: number, line: Line): void {
    const said = [line.key, line.kind, line.where, line.destination, line.question]
      .concat([line.text, line.message, line.reason, line.answer, line.error])
      .map(text)
      .filter(Boolean);
    const key = this.#key(at_ms);
    this.#add({ kind: "mark", key, at_ms, type, text: said.join(": "), who: text(line.who) });
  }

  #step(turn: number, more: Partial<RunningTurn>): void {
    const running = this.#state.turn;
    if (running !== null && running.number === turn) this.#set({ turn: { ...running, ...more } });
  }

  #set(more: Partial<LiveCallState>): void {
    this.#state = { ...this.#state, ...more };
  }

  #add(entry: Entry): void {
    this.#entries.push(entry);
  }

  #key(at_ms: number): string {
    return `${at_ms}-${this.#entries.length}`;
  }
}

function begun(turn: number, since_ms: number, decided_ms: number): RunningTurn {
  return {
    number: turn,
    since_ms,
    decided_ms,
    understood_ms: null,
    worded_ms: null,
    sounded_ms: null,
    stages: null,
  };
}
