// The live calls: order and filters, the transcript as it grows, the running turn, the sound.
import { describe, expect, it } from "vitest";

import { type LiveRow, shownRows, valuesOf } from "../src/pages/live/rows.ts";
import { search } from "../src/pages/live/search.ts";
import { decodeFrame, LEAD, levelOf, MOST_WAITING, Playhead } from "../src/pages/live/sound.ts";
import { cutOf, type Line, NOTHING_YET, take } from "../src/pages/live/transcript.ts";
import { waterfallOf } from "../src/pages/live/waterfall.ts";

function row(call_id: string, more: Partial<LiveRow> = {}): LiveRow {
  return {
    call_id,
    started_at: "2026-11-23T10:00:00.000+00:00",
    source: "asterisk",
    context: "booking",
    provider: "local",
    config: "c7",
    caller_number: "+4930123456",
    caller_name: "",
    called_number: "100",
    state: "listening",
    speaking: "nobody",
    turn: 1,
    last: null,
    waiting_since_ms: null,
    latency: null,
    tools: { running: [], calls: 0, failed: 0 },
    cost: null,
    recording: "off",
    troubles: 0,
    transport: "audiosocket",
    test: false,
    queued_ms: 0,
    watched: 0,
    listened: 0,
    ...more,
  };
}

const ids = (rows: readonly LiveRow[]) => rows.map((each) => each.call_id).join(" ");

describe("the list", () => {
  const rows = [
    row("b", { started_at: "2026-11-23T10:05:00.000+00:00", waiting_since_ms: 1_000 }),
    row("a", { context: "sales", cost: { amount: "0.3", currency: "EUR" } }),
    row("c", {
      started_at: "2026-11-23T10:01:00.000+00:00",
      waiting_since_ms: 2_000,
      tools: { running: [], calls: 2, failed: 1 },
      last: { who: "caller", text: "The REFUND please", at_ms: 1 },
    }),
  ];

  it("is in the chosen order; who waits longest is first", () => {
    expect(ids(shownRows(rows, {}))).toBe("a c b");
    expect(ids(shownRows(rows, { order: "newest" }))).toBe("b c a");
    expect(ids(shownRows(rows, { order: "waiting" }))).toBe("c b a");
    expect(ids(shownRows(rows, { order: "cost" }))).toBe("a c b");
    expect(ids(rows)).toBe("b a c"); // the rows of the feed stay as they are
  });

  it("has what passes all filters", () => {
    expect(ids(shownRows(rows, search({ context: "sales" })))).toBe("a");
    expect(ids(shownRows(rows, search({ troubled: "true" })))).toBe("c");
    expect(ids(shownRows(rows, search({ text: " refund " })))).toBe("c");
    expect(ids(shownRows(rows, search({ text: "refund", context: "sales" })))).toBe("");
  });

  it("offers a chosen value although no call has it now", () => {
    expect(valuesOf(rows, "context", ["gone"])).toEqual(["booking", "gone", "sales"]);
  });
});

const LINES: Line[] = [
  { at_ms: 0, type: "call.offered" },
  { at_ms: 3, type: "agent.text", turn: 0, text: "Hello.", said_by: "" },
  { at_ms: 4_000, type: "caller.started", speech_ms: 3_900 },
  { at_ms: 7_500, type: "caller.stopped", turn: 1, last_speech_ms: 7_000 },
  { at_ms: 7_600, type: "caller.text", turn: 1, text: "wether", understood: "weather" },
  { at_ms: 7_700, type: "tool.asked", turn: 1, ask_id: "1.1", name: "lookup", arguments: { q: 1 } },
];

describe("the transcript", () => {
  it("is the same whether the lines come one by one or all at once", () => {
    const more: Line[] = [
      ...LINES,
      {
        at_ms: 8_000,
        type: "tool.answered",
        ask_id: "1.1",
        name: "lookup",
        status: "ok",
        message: "Sun.",
      },
      { at_ms: 8_050, type: "agent.text", turn: 1, text: "Sunny.", said_by: "" },
      { at_ms: 8_060, type: "agent.text", turn: 1, text: "All day.", said_by: "" },
      { at_ms: 9_000, type: "agent.interrupted", turn: 1, heard: "Sunny.", heard_ms: 400 },
      { at_ms: 9_100, type: "agent.text", turn: 1, text: "Yes?", said_by: "" },
      { at_ms: 9_200, type: "agent.text", turn: 1, text: "Hold on.", said_by: "operator" },
    ];
    const whole = take(NOTHING_YET, more);
    const single = more.reduce((state, line) => take(state, [line]), NOTHING_YET);
    expect(single).toEqual(whole);
    const shown = whole.entries.map((entry) =>
      entry.kind === "tool"
        ? `tool ${entry.use.name} ${entry.use.status}`
        : entry.kind === "agent"
          ? `agent${entry.by && ` (${entry.by})`}: ${entry.text}${entry.heard === null ? "" : ` [${entry.heard}]`}`
          : `${entry.kind}: ${entry.text}`,
    );
    expect(shown).toEqual([
      "agent: Hello.",
      "caller: weather",
      "tool lookup ok",
      "agent: Sunny. All day. [Sunny.]",
      "agent: Yes?",
      "agent (operator): Hold on.",
    ]);
  });

  it("leaves what was shown before untouched", () => {
    const before = take(NOTHING_YET, LINES);
    const entries = [...before.entries];
    take(before, [{ at_ms: 8_000, type: "tool.answered", ask_id: "1.1", status: "error" }]);
    expect(before.entries).toEqual(entries);
    expect(before.uses.get("1.1")?.status).toBe("");
  });

  it("knows that the caller speaks until there are words", () => {
    expect(take(NOTHING_YET, LINES.slice(0, 3)).callerSpeaks).toBe(true);
    expect(take(NOTHING_YET, LINES.slice(0, 5)).callerSpeaks).toBe(false);
  });

  it("tells what of a cut answer was heard, to the word", () => {
    expect(cutOf("Sunny. All day.", "Sunny.")).toEqual(["Sunny.", " All day."]);
    expect(cutOf("It is sunny.", "it's  sun")).toEqual(["it's  sun", ""]);
    expect(cutOf("", "")).toEqual(["", ""]);
  });
});

describe("the running turn", () => {
  it("grows with the stage that goes on, and shows the tool within it", () => {
    const state = take(NOTHING_YET, LINES);
    if (state.turn === null) throw new Error("there is a turn");
    const { spans, tools, total, waits } = waterfallOf(state.turn, state.uses.values(), 9_000);
    expect(spans).toEqual([
      { stage: "endpoint", from: 0, to: 500, open: false },
      { stage: "stt", from: 500, to: 600, open: false },
      { stage: "brain", from: 600, to: 2_000, open: true },
    ]);
    expect(tools).toMatchObject([{ from: 700, to: 2_000, open: true }]);
    expect([total, waits]).toEqual([2_000, true]);
  });

  it("is the engine's own figures once it is over", () => {
    const { turn, uses } = take(NOTHING_YET, [
      ...LINES,
      { at_ms: 8_200, type: "agent.audio_started", turn: 1 },
      {
        at_ms: 8_200,
        type: "turn.latency",
        turn: 1,
        endpoint_ms: 480,
        stt_ms: 0,
        brain_ms: 520,
        tts_ms: 150,
        wire_ms: 50,
        total_ms: 1_200,
        vad_ms: 120,
        filler: false,
      },
    ]);
    if (turn === null) throw new Error("there is a turn");
    const { spans, waits } = waterfallOf(turn, uses.values(), 99_000);
    expect(spans.map((span) => [span.stage, span.to])).toEqual([
      ["endpoint", 480],
      ["brain", 1_000],
      ["tts", 1_150],
      ["wire", 1_200],
    ]);
    expect(waits).toBe(false);
  });
});

describe("the sound", () => {
  function frame(at_ms: number, ...bytes: number[]): ArrayBuffer {
    const content = new Uint8Array(4 + bytes.length);
    new DataView(content.buffer).setUint32(0, at_ms, true);
    content.set(bytes, 4);
    return content.buffer;
  }

  it("has the caller's samples first, then the agent's", () => {
    const heard = decodeFrame(frame(70_000, 0x00, 0x40, 0x00, 0x80), "slin");
    expect(heard?.at_ms).toBe(70_000);
    expect([...(heard?.caller ?? [])]).toEqual([0.5]);
    expect([...(heard?.agent ?? [])]).toEqual([-1]);
  });

  it("decodes µ-law by G.711's table", () => {
    const heard = decodeFrame(frame(0, 0xff, 0x80, 0x7f, 0x00), "ulaw");
    expect([...(heard?.caller ?? [])].map((each) => each * 32_768)).toEqual([0, 32_124]);
    expect([...(heard?.agent ?? [])].map((each) => each * 32_768)).toEqual([-0, -32_124]);
  });

  it("leaves out what is no frame", () => {
    expect(decodeFrame(frame(0, 1, 2, 3), "slin")).toBeNull();
    expect(decodeFrame(new ArrayBuffer(2), "ulaw")).toBeNull();
  });

  it("plays frames one after the other, begins anew after a gap, and never falls behind", () => {
    const head = new Playhead();
    expect(head.place(10, 0.1)).toBeCloseTo(10 + LEAD);
    expect(head.place(10.05, 0.1)).toBeCloseTo(10 + LEAD + 0.1);
    expect(head.place(20, 0.1)).toBeCloseTo(20 + LEAD);
    const placed = Array.from({ length: 50 }, () => head.place(20, 0.1)).filter(
      (at) => at !== null,
    );
    expect(placed.length).toBeLessThan(MOST_WAITING / 0.1 + 2);
    expect(head.waiting(20)).toBeLessThanOrEqual(MOST_WAITING + 0.1);
  });

  it("shows loudness between silence and full", () => {
    expect(levelOf(new Float32Array(80))).toBe(0);
    expect(levelOf(new Float32Array(80).fill(1))).toBe(1);
  });
});
