// A conversation as it grows, for people: from the events of a written one (docs/chat.md), or from
// the ledger of a call (docs/call-ledger.md).

export interface ToolItem {
  readonly kind: "tool";
  readonly id: string;
  readonly name: string;
  readonly arguments: unknown;
  /** `running`, or the status of the answer. */
  readonly status: string;
  readonly message: string;
  /** The data that the agent received; undefined if the event has none. */
  readonly sent: unknown;
  readonly tookMs: number | null;
  readonly source: string;
  readonly cut: readonly string[];
}

export interface AgentItem {
  readonly kind: "agent";
  readonly turn: number;
  readonly text: string;
  /** The part that the caller heard, if the answer was interrupted. */
  readonly heard: string | null;
}

export type Item =
  | { readonly kind: "caller"; readonly text: string; readonly confidence: number | null }
  | AgentItem
  | ToolItem
  | { readonly kind: "filler"; readonly text: string }
  /** A question for the caller's yes; `answer` is `yes`, `no`, `none`, or empty while it is open. */
  | { readonly kind: "approval"; readonly question: string; readonly answer: string }
  | { readonly kind: "keys"; readonly keys: string }
  | { readonly kind: "transfer"; readonly destination: string; readonly error: string }
  | { readonly kind: "trouble"; readonly where: string; readonly text: string };

/** An event of the engine: its fields, as they came. */
export type Fields = Readonly<Record<string, unknown>>;

/** Add an event of a written conversation. Unknown ones change nothing. */
export function withChatEvent(items: readonly Item[], event: string, fields: Fields): Item[] {
  switch (event) {
    case "token":
      return withAgent(items, number(fields.turn), text(fields.text), "");
    case "tool_call":
      return [...items, asked(fields)];
    case "tool_result":
      return withAnswer(items, fields);
    case "filler":
      return [...items, { kind: "filler", text: text(fields.text) }];
    case "approval":
      return [...items, { kind: "approval", question: text(fields.question), answer: "" }];
    case "error":
      return [...items, { kind: "trouble", where: text(fields.code), text: text(fields.message) }];
    default:
      return [...items];
  }
}

/** Add a line of a call's ledger. Lines that are of no interest here change nothing. */
export function withLedgerLine(items: readonly Item[], line: Fields): Item[] {
  switch (line.type) {
    case "caller.text": {
      const words = text(line.understood) || text(line.text);
      return [...items, { kind: "caller", text: words, confidence: number(line.confidence) }];
    }
    case "agent.text":
      return withAgent(items, number(line.turn), text(line.text), " ");
    case "agent.interrupted":
      return interrupted(items, number(line.turn), text(line.heard));
    case "caller.key":
      return withKey(items, text(line.key));
    case "tool.asked":
      return [...items, asked(line)];
    case "tool.answered":
      return withAnswer(items, line);
    case "tool.filler":
      return [...items, { kind: "filler", text: text(line.text) }];
    case "tool.approval": // its question was an `agent.text`
      return [...items, { kind: "approval", question: "", answer: text(line.answer) }];
    case "line.transfer": {
      const destination = text(line.destination);
      return [...items, { kind: "transfer", destination, error: text(line.error) }];
    }
    case "call.trouble":
      return [...items, { kind: "trouble", where: text(line.where), text: text(line.message) }];
    default:
      return [...items];
  }
}

/** Note the answer to the question that is open. */
export function answered(items: readonly Item[], answer: "yes" | "no"): Item[] {
  return items.map((item) =>
    item.kind === "approval" && item.answer === "" ? { ...item, answer } : item,
  );
}

function withAgent(items: readonly Item[], turn: number, more: string, between: string): Item[] {
  const last = items.at(-1);
  if (last?.kind !== "agent" || last.turn !== turn || last.heard !== null) {
    return [...items, { kind: "agent", turn, text: more, heard: null }];
  }
  return [...items.slice(0, -1), { ...last, text: last.text + between + more }];
}

/**
 * Mark what was not heard of an answer. A tool or a key may stand between its parts: the heard words
 * are counted off from the first part on.
 */
function interrupted(items: readonly Item[], turn: number, heard: string): Item[] {
  let left = heard;
  return items.map((item) => {
    if (item.kind !== "agent" || item.turn !== turn) return item;
    if (left.startsWith(item.text)) {
      left = left.slice(item.text.length).trimStart();
      return item;
    }
    const own = left;
    left = "";
    return { ...item, heard: own };
  });
}

function withKey(items: readonly Item[], key: string): Item[] {
  const last = items.at(-1);
  if (last?.kind !== "keys") return [...items, { kind: "keys", keys: key }];
  return [...items.slice(0, -1), { kind: "keys", keys: last.keys + key }];
}

function asked(fields: Fields): ToolItem {
  return {
    kind: "tool",
    id: text(fields.ask_id),
    name: text(fields.name),
    arguments: fields.arguments,
    status: "running",
    message: "",
    sent: undefined,
    tookMs: null,
    source: "",
    cut: [],
  };
}

/** The answer of a tool call; a late one may come without its question. */
function withAnswer(items: readonly Item[], fields: Fields): Item[] {
  const id = text(fields.ask_id);
  const answer = {
    status: text(fields.status),
    message: text(fields.message),
    sent: fields.sent,
    tookMs: number(fields.took_ms),
    source: text(fields.source),
    cut: Array.isArray(fields.cut) ? fields.cut.map(text) : [],
  };
  const question = items.find((item) => item.kind === "tool" && item.id === id);
  if (question?.kind !== "tool") return [...items, { ...asked(fields), ...answer }];
  return items.map((item) => (item === question ? { ...question, ...answer } : item));
}

export function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}

export function number(value: unknown): number {
  return typeof value === "number" ? value : 0;
}
