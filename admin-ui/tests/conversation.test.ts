// A conversation as it grows, of a call or a written one, and the waits of its turns.
import { describe, expect, it } from "vitest";

import {
  answered,
  type Conversation,
  type Fields,
  NOTHING_YET,
  withChatEvent,
  withFrame,
  withLines,
} from "../src/conversation/conversation.ts";
import { medianWait, waitOf } from "../src/conversation/waits.ts";

const told = (...lines: Fields[]) => withLines(NOTHING_YET, lines);

const LINES: Fields[] = [
  { at_ms: 0, type: "call.offered" },
  { at_ms: 3, type: "agent.text", turn: 0, text: "Hello.", said_by: "" },
  { at_ms: 4_000, type: "caller.started", speech_ms: 3_900 },
  { at_ms: 7_500, type: "caller.stopped", turn: 1, last_speech_ms: 7_000 },
  { at_ms: 7_600, type: "caller.text", turn: 1, text: "wether", understood: "weather" },
  { at_ms: 7_700, type: "tool.asked", turn: 1, ask_id: "1.1", name: "lookup", arguments: { q: 1 } },
];

/** One line of text for each item. */
function shown({ items }: Conversation): string[] {
  return items.map((item) => {
    switch (item.kind) {
      case "agent":
        return `agent${item.by && ` (${item.by})`}: ${item.text}${item.heard === null ? "" : ` [${item.heard}]`}`;
      case "tool":
        return `tool ${item.name} ${item.status}`;
      case "keys":
        return `keys ${item.keys}`;
      case "approval":
        return `approval: ${item.question} ${item.answer}`;
      case "mark":
        return `${item.failed ? "failed " : ""}${item.type}: ${item.text} ${item.who}`.trim();
      default:
        return `${item.kind}: ${item.text}`;
    }
  });
}

describe("the ledger of a call becomes a conversation", () => {
  it("is the same whether the lines come one by one or all at once", () => {
    const lines: Fields[] = [
      ...LINES,
      { at_ms: 8_000, type: "tool.answered", ask_id: "1.1", status: "ok", message: "Sun." },
      { at_ms: 8_050, type: "agent.text", turn: 1, text: "Sunny.", said_by: "" },
      { at_ms: 8_060, type: "agent.text", turn: 1, text: "All day.", said_by: "" },
      { at_ms: 9_000, type: "agent.interrupted", turn: 1, heard: "Sunny.", heard_ms: 400 },
      { at_ms: 9_100, type: "agent.text", turn: 1, text: "Yes?", said_by: "" },
      { at_ms: 9_200, type: "agent.text", turn: 1, text: "Hold on.", said_by: "operator" },
    ];
    const whole = told(...lines);
    expect(lines.reduce((before, line) => withLines(before, [line]), NOTHING_YET)).toEqual(whole);
    expect(shown(whole)).toEqual([
      "agent: Hello.",
      "caller: weather",
      "tool lookup ok",
      "agent: Sunny. All day. [Sunny.]",
      "agent: Yes?",
      "agent (operator): Hold on.",
    ]);
  });

  it("leaves what was shown before untouched", () => {
    const before = told(...LINES);
    const copy = structuredClone(before);
    withLines(before, [
      { at_ms: 8_000, type: "tool.answered", ask_id: "1.1", status: "error" },
      { at_ms: 8_100, type: "turn.latency", turn: 1, total_ms: 1_100 },
    ]);
    expect(before).toEqual(copy);
  });

  it("knows since when the caller speaks, until there are words", () => {
    expect(told(...LINES.slice(0, 3)).speech_ms).toBe(3_900);
    expect(told(...LINES.slice(0, 5)).speech_ms).toBeNull();
  });

  it("has the caller's words so far until they are final, and forgets all at a restart", () => {
    const before = withFrame(told(...LINES.slice(0, 4)), { partial: "wea" });
    expect(before).toMatchObject({ partial: "wea", speech_ms: 3_900 });
    expect(withFrame(before, { events: LINES.slice(4, 5) })).toMatchObject({ partial: "" });
    const again = withFrame(before, { restart: true, events: LINES.slice(0, 2) });
    expect(again).toEqual(told(...LINES.slice(0, 2)));
  });

  it("shows what was heard of a cut answer, across a tool and after another cut", () => {
    const lines: Fields[] = [
      { type: "agent.text", turn: 1, text: "One moment." },
      { type: "tool.asked", turn: 1, ask_id: "1.1", name: "look" },
      { type: "tool.answered", ask_id: "1.1", status: "ok", took_ms: 11, cut: ["rows"] },
      { type: "agent.text", turn: 1, text: "It rains." },
      { type: "agent.text", turn: 1, text: "Take a coat." },
      { type: "agent.interrupted", turn: 1, heard: "One moment. It rains. Take" },
      { type: "agent.text", turn: 1, text: "Yes? I am here." },
      { type: "agent.interrupted", turn: 1, heard: "Yes?" },
      { type: "agent.text", turn: 2, text: "Goodbye for today." },
      { type: "agent.cut_off", turn: 2, heard: "Goodbye" },
    ];
    const items = told(...lines);
    expect(shown(items)).toEqual([
      "agent: One moment.",
      "tool look ok",
      "agent: It rains. Take a coat. [It rains. Take]",
      "agent: Yes? I am here. [Yes?]",
      "agent: Goodbye for today. [Goodbye]",
    ]);
    expect(items.items[1]).toMatchObject({ took_ms: 11, cut: ["rows"] });
  });

  it("tells keys, silences, troubles and people, and leaves out what it does not know", () => {
    const lines: Fields[] = [
      { type: "agent.text", turn: 2, text: "Well." },
      { type: "agent.interrupted", turn: 2, heard: "" },
      { type: "caller.key", key: "4" },
      { type: "caller.key", key: "*" },
      { type: "something.new", text: "?" },
      { type: "tool.answered", ask_id: "0.9", name: "old", status: "ok", source: "late" },
      { type: "tool.approval", question: "Shall I?", answer: "none" },
      { type: "call.silence", kind: "continuer", text: "Yes?" },
      { type: "call.flagged", who: "anna", text: "friendly" },
      { type: "line.transfer", destination: "sales", ok: false, error: "busy" },
      { type: "call.trouble", where: "agent", message: "gone" },
      { type: "call.ended", outcome: "completed", reason: "caller_hangup" },
    ];
    const conversation = told(...lines);
    expect(shown(conversation)).toEqual([
      "agent: Well. []",
      "keys 4*",
      "tool old ok",
      "approval:  none",
      "call.silence: continuer",
      "call.flagged: friendly anna",
      "failed line.transfer: sales: busy",
      "failed call.trouble: agent: gone",
    ]);
    expect(conversation.ended).toEqual({ outcome: "completed", reason: "caller_hangup" });
  });
});

describe("the events of a written conversation become one", () => {
  it("pieces of an answer follow each other without a gap", () => {
    const events: [string, Fields][] = [
      ["token", { turn: 1, text: "It is" }],
      ["token", { turn: 1, text: " sunny." }],
      ["tool_call", { turn: 1, ask_id: "1", name: "pay", arguments: {} }],
      ["filler", { text: "One moment." }],
      ["tool_result", { turn: 1, ask_id: "1", status: "ok" }],
      ["error", { code: "turn_timeout", message: "too slow" }],
      ["unknown", { text: "?" }],
    ];
    const whole = events.reduce((before, each) => withChatEvent(before, ...each), NOTHING_YET);
    expect(shown(whole)).toEqual([
      "agent: It is sunny.",
      "tool pay ok",
      "filler: One moment.",
      "failed call.trouble: turn_timeout: too slow",
    ]);
  });

  it("only the open question is answered", () => {
    const first = withChatEvent(NOTHING_YET, "approval", { question: "One?" });
    const both = withChatEvent(answered(first, "no"), "approval", { question: "Two?" });
    expect(shown(answered(both, "yes"))).toEqual(["approval: One? no", "approval: Two? yes"]);
  });
});

describe("the wait of a turn", () => {
  function waitAt(now: number, ...more: Fields[]) {
    const { turns, items } = told(...LINES, ...more);
    const [turn] = turns;
    if (!turn) throw new Error("there is a turn");
    const tools = items.filter((item) => item.kind === "tool");
    return waitOf(turn, tools, now);
  }

  it("grows with the stage that goes on, and shows the tool within it", () => {
    const { spans, tools, total, open } = waitAt(9_000);
    expect(spans).toEqual([
      { stage: "endpoint", from: 0, to: 500, open: false },
      { stage: "stt", from: 500, to: 600, open: false },
      { stage: "brain", from: 600, to: 2_000, open: true },
    ]);
    expect(tools).toMatchObject([{ from: 700, to: 2_000, open: true }]);
    expect([total, open]).toEqual([2_000, true]);
  });

  it("is the engine's own figures once it is over", () => {
    const figures = { endpoint_ms: 480, stt_ms: 0, brain_ms: 520, tts_ms: 150, wire_ms: 50 };
    const { spans, total, open } = waitAt(
      99_000,
      { at_ms: 8_200, type: "agent.audio_started", turn: 1 },
      { at_ms: 8_200, type: "turn.latency", turn: 1, ...figures, total_ms: 1_200, vad_ms: 120 },
    );
    expect(spans.map((span) => [span.stage, span.to])).toEqual([
      ["endpoint", 480],
      ["brain", 1_000],
      ["tts", 1_150],
      ["wire", 1_200],
    ]);
    expect([total, open]).toEqual([1_200, false]);
  });

  it("of the same turn, ended again, begins anew; a filler does not hide the answer", () => {
    const { turns } = told(
      ...LINES,
      { at_ms: 9_000, type: "caller.stopped", turn: 1, last_speech_ms: 8_500 },
      { at_ms: 9_400, type: "turn.latency", turn: 1, total_ms: 900, filler: true },
      { at_ms: 9_900, type: "turn.answered", turn: 1, answer_ms: 2_000 },
      { at_ms: 9_900, type: "caller.stopped", turn: 2, last_speech_ms: 9_500 },
    );
    expect(turns).toMatchObject([
      { number: 1, since_ms: 8_500, total_ms: 900, answer_ms: 2_000 },
      { number: 2, since_ms: 9_500, stages: null, total_ms: null },
    ]);
    expect(medianWait(turns)).toBe(2_000);
    expect(medianWait([])).toBeNull();
  });
});
