// The live calls: order and filters, the sound.
import { describe, expect, it } from "vitest";

import { decodeHeard } from "../src/audio/frames.ts";
import { LEAD, levelOf, MOST_WAITING, Playhead } from "../src/pages/live/listening.ts";
import { type LiveRow, shownRows, valuesOf } from "../src/pages/live/rows.ts";
import { search } from "../src/pages/live/search.ts";

function row(call_id: string, more: Partial<LiveRow> = {}): LiveRow {
  return {
    call_id,
    started_at: "2026-11-23T10:00:00.000+00:00",
    source: "asterisk",
    context: "booking",
    provider: "local",
    direction: "in",
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
    human: "",
    operator: "",
    node: "",
    unknown_since: null,
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

describe("the sound", () => {
  function frame(at_ms: number, ...bytes: number[]): ArrayBuffer {
    const content = new Uint8Array(4 + bytes.length);
    new DataView(content.buffer).setUint32(0, at_ms, true);
    content.set(bytes, 4);
    return content.buffer;
  }

  it("has the caller's samples first, then the agent's", () => {
    const heard = decodeHeard(frame(70_000, 0x00, 0x40, 0x00, 0x80), "slin");
    expect(heard?.at_ms).toBe(70_000);
    expect([...(heard?.caller ?? [])]).toEqual([0.5]);
    expect([...(heard?.agent ?? [])]).toEqual([-1]);
  });

  it("decodes µ-law by G.711's table", () => {
    const heard = decodeHeard(frame(0, 0xff, 0x80, 0x7f, 0x00), "ulaw");
    expect([...(heard?.caller ?? [])].map((each) => each * 32_768)).toEqual([0, 32_124]);
    expect([...(heard?.agent ?? [])].map((each) => each * 32_768)).toEqual([-0, -32_124]);
  });

  it("leaves out what is no frame", () => {
    expect(decodeHeard(frame(0, 1, 2, 3), "slin")).toBeNull();
    expect(decodeHeard(new ArrayBuffer(2), "ulaw")).toBeNull();
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
