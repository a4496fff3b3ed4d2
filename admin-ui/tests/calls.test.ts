// The address of the call history, its columns, and the comparison of two calls.
import { describe, expect, it } from "vitest";

import { parseSearch, stringifySearch } from "../src/app/search.ts";
import { median } from "../src/conversation/waits.ts";
import { withColumn } from "../src/pages/calls/columns.ts";
import { compared, difference } from "../src/pages/calls/comparison.ts";
import {
  exportText,
  fromView,
  isSameView,
  momentOf,
  NONE,
  partsOf,
  queryOf,
  search,
  toggled,
  totalOf,
  toView,
  without,
} from "../src/pages/calls/search.ts";

describe("the address", () => {
  it("keeps each filter, and drops what is none", () => {
    const address =
      "?text=refund+late*&who=caller&outcome=failed&outcome=refused&tool_failed=lookup&number_last4=3456" +
      "&waited_over_ms=1500&longer_ms=x&nonsense=1&columns=cost&columns=moon&compare=a,b";
    expect(search(parseSearch(address))).toEqual({
      text: "refund late*",
      who: "caller",
      outcome: ["failed", "refused"],
      tool_failed: ["lookup"],
      number_last4: "3456",
      waited_over_ms: 1500,
      columns: ["cost"],
      compare: ["a", "b"],
    });
  });

  it("is the same after it was written and read again", () => {
    const state = search({
      context: ["booking, desk", "ä&b=c"],
      since: "2026-11-01",
      cost_over: "0.05",
      id: "12345678",
      columns: ["started_at"],
      compare: "one,two",
    });
    expect(search(parseSearch(stringifySearch({ ...state })))).toEqual(state);
  });

  it("has no side without words, and compares no call with itself", () => {
    expect(search({ who: "agent", compare: "a,a" })).toEqual({});
  });

  it("names moments with a zone to the engine, a day from the viewer's midnight", () => {
    const query = queryOf({ since: "2026-11-01", until: "2026-11-02T10:00:00+02:00" });
    expect(query.since).toBe(new Date(2026, 10, 1).toISOString());
    expect(query.until).toBe("2026-11-02T08:00:00.000Z");
    expect(queryOf({ since: "yesterday" }).since).toBe("yesterday"); // the engine says what is wrong
    expect(momentOf("yesterday")).toBeUndefined();
  });
});

describe("a saved view", () => {
  const shown = search({ outcome: "failed", waited_over_ms: "900", columns: ["cost"] });
  const view = { id: "slow", filters: toView(shown), columns: ["cost"] };

  it("opens what was saved", () => {
    expect(view.filters).toEqual({ outcome: ["failed"], waited_over_ms: ["900"] });
    expect(fromView(view)).toEqual({ ...shown, view: "slow" });
    expect(isSameView(fromView(view), { ...shown, compare: ["a", "b"] })).toBe(true);
  });

  it("is another one once a filter or a column has changed", () => {
    expect(isSameView(fromView(view), { ...shown, outcome: ["refused"] })).toBe(false);
    expect(isSameView(fromView(view), { ...shown, columns: ["cost", "tags"] })).toBe(false);
  });
});

it("finds calls that have no value, such as no review", () => {
  const shown = search({ review: NONE });
  expect(queryOf(shown).review).toEqual([""]);
  expect(fromView({ id: "v", filters: toView(shown), columns: [] })).toEqual({
    ...shown,
    view: "v",
  });
  expect(totalOf({ "": 4, good: 1 }, [NONE])).toBe(4);
});

it("takes each filter away by itself, and the side together with the words", () => {
  const shown = search({ text: "refund", who: "agent", tag: ["vip", "new"], longer_ms: "1000" });
  expect(partsOf(shown).map(({ name, value }) => `${name}=${value}`)).toEqual([
    "tag=vip",
    "tag=new",
    "text=refund",
    "longer_ms=1000",
    "who=agent",
  ]);
  let left = shown;
  for (const { name, value } of partsOf(shown)) left = { ...left, ...without(left, name, value) };
  expect(search(left)).toEqual({});
  expect(without(shown, "tag", "vip")).toEqual({ tag: ["new"] });
});

it("adds and removes one value of a filter", () => {
  expect(toggled({}, "tag", "vip")).toEqual(["vip"]);
  expect(toggled({ tag: ["vip", "new"] }, "tag", "vip")).toEqual(["new"]);
  expect(toggled({ tag: ["vip"] }, "tag", "vip")).toBeUndefined();
});

it("counts the calls of the chosen outcomes only, since a filter's own counts ignore it", () => {
  const counts = { completed: 7, failed: 2, refused: 1 };
  expect(totalOf(counts)).toBe(10);
  expect(totalOf(counts, ["failed", "refused"])).toBe(3);
  expect(totalOf(undefined)).toBe(0);
});

it("puts a column at its usual place, and keeps the last one", () => {
  expect(withColumn(["started_at", "cost"], "context")).toEqual(["started_at", "context", "cost"]);
  expect(withColumn(["cost"], "cost")).toEqual(["cost"]);
});

describe("two calls", () => {
  const turn = (number: number, total: number, brain: number, answer: number | null = null) => ({
    number,
    caller: null,
    waited: { endpoint: 200, stt: 50, brain, tts: 80, wire: 20, total },
    filler_first: answer !== null,
    answer_ms: answer,
    agent: null,
    tools: [],
    held: false,
  });
  const call = (cost: number | null, ...turns: ReturnType<typeof turn>[]) =>
    ({
      row: {
        context: "booking",
        provider: "local",
        config: "c7",
        outcome: "completed",
        reason: "",
        duration_ms: 60_000,
        turns: turns.length,
        interruptions: 0,
        cost,
      },
      turns: [{ ...turn(0, 0, 0), waited: {} }, ...turns],
      tools: [
        { begin_ms: 100, end_ms: 900, status: "timeout" },
        { begin_ms: 5, end_ms: null, status: "" },
      ],
      marks: [{ at_ms: 1, until_ms: 2, kind: "silence", text: "" }],
      troubles: [],
    }) as unknown as Parameters<typeof compared>[0];

  it("have the middle and the longest wait of the answers, not of the fillers", () => {
    const rows = compared(
      call(null, turn(1, 500, 100), turn(2, 700, 300), turn(3, 600, 200, 4_000)),
      call(0.02, turn(1, 900, 500)),
    );
    const of = (measure: string) => rows.find((row) => row.measure === measure);
    expect(of("wait_median")).toMatchObject({ one: 700, other: 900 });
    expect(of("wait_longest")).toMatchObject({ one: 4_000, other: 900 });
    expect(of("brain")).toMatchObject({ one: 200, other: 500 });
    expect(of("tool_longest")).toMatchObject({ one: 800, other: 800 });
    expect(of("tools_failed")).toMatchObject({ one: 1, other: 1 });
    expect(difference(of("turns") ?? { measure: "turns", kind: "count", one: 0, other: 0 })).toBe(
      -2,
    );
    expect(
      difference(of("cost") ?? { measure: "cost", kind: "money", one: 1, other: 1 }),
    ).toBeNull();
  });

  it("take the lower of two middle values, as the engine does", () => {
    expect(median([4, 1, 3, 2])).toBe(2);
    expect(median([])).toBeNull();
  });
});

describe("the export", () => {
  it("asks for calls without a value, too", () => {
    const asked = exportText(queryOf({ review: [NONE], context: ["desk", "bar"] }), "csv");
    expect(new URLSearchParams(asked).getAll("review")).toEqual([""]);
    expect(new URLSearchParams(asked).getAll("context")).toEqual(["desk", "bar"]);
    expect(new URLSearchParams(asked).get("format")).toBe("csv");
  });
});
