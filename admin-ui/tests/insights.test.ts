// The insights' period, lines and points, without a page.
import { expect, test } from "vitest";

import { changeOf, tickText, valueText } from "../src/pages/insights/measures.ts";
import { before, periodOf, stepOf, stepsFor } from "../src/pages/insights/period.ts";
import { search } from "../src/pages/insights/search.ts";
import {
  type Answer,
  callsBehind,
  headline,
  linesBefore,
  linesOf,
  publishesIn,
  secondsOf,
  stepTo,
} from "../src/pages/insights/series.ts";

const NOW = new Date("2026-11-23T14:30:00");

function answer(more: Partial<Answer>, ...series: Partial<Answer["series"][number]>[]): Answer {
  const line = { key: "", stat: "count", unit: "calls", samples: [], values: [], calls: {} };
  return {
    measure: "calls",
    about: "",
    by: [],
    t: ["2026-11-21T00:00:00+01:00", "2026-11-22T00:00:00+01:00", "2026-11-23T00:00:00+01:00"],
    left_out: 0,
    ...more,
    series: series.map((each) => ({ ...line, ...each })),
  };
}

test("the address keeps what makes sense, and drops the rest", () => {
  const raw = { measure: "wait", range: "7d", from: "soon", stat: "p12", by: "a b", hidden: "x" };
  const { measure, range, from, stat, by, hidden } = search(raw);
  expect({ measure, range, from, stat, by, hidden }).toEqual({
    measure: "wait",
    range: "7d",
    from: undefined,
    stat: undefined,
    by: undefined,
    hidden: ["x"],
  });
  // A beginning counts more than a range; a time without a zone is none.
  expect(search({ range: "7d", from: "2026-11-01" }).range).toBeUndefined();
  expect(search({ from: "2026-11-01T10:00" }).from).toBeUndefined();
  expect(search({ from: "2026-11-01T10:00:00+01:00" }).from).toBe("2026-11-01T10:00:00+01:00");
  expect(search({ to: "2026-11-01" }).to).toBeUndefined();
});

test("a period is asked for with the day after the last one, and has one before it", () => {
  const week = periodOf({ range: "7d" }, NOW);
  expect(week).toEqual({ from: "2026-11-17", to: "2026-11-24", days: 7 });
  expect(before(week)).toEqual({ from: "2026-11-10", to: "2026-11-17", days: 7 });
  // A year's end, and a night in which the clocks change.
  expect(before(periodOf({ from: "2026-01-01", to: "2026-01-03" }, NOW)).from).toBe("2025-12-29");
  expect(periodOf({ from: "2026-03-28", to: "2026-03-29" }, NOW).days).toBe(2);
  expect(periodOf({ from: "2026-11-20", to: "2026-11-01" }, NOW).to).toBe("2026-11-21");
  const hours = periodOf({ range: "24h" }, NOW);
  expect(Date.parse(hours.to) - Date.parse(hours.from)).toBe(24 * 3_600_000);
  expect(Date.parse(hours.to)).toBeGreaterThanOrEqual(NOW.getTime());
  expect(before(hours).to).toBe(hours.from);
});

test("the step fits the period, and never asks for more points than the engine gives", () => {
  const ranges = ["24h", "7d", "30d", "90d", "365d"] as const;
  const steps = ranges.map((range) => stepOf(undefined, periodOf({ range }, NOW)));
  expect(steps).toEqual(["hour", "day", "day", "day", "week"]);
  const years = periodOf({ from: "2020-01-01" }, NOW);
  expect(stepsFor(years)).toEqual(["week", "month"]);
  expect(stepOf("hour", years)).toBe("month");
});

test("percentiles are three lines, or one for each key", () => {
  const waits = ["p50", "p95", "p99"].map((stat) => ({ stat, unit: "ms", values: [1, 2] }));
  const plain = answer({ measure: "wait" }, ...waits);
  expect(linesOf(plain, undefined).map((line) => line.label)).toEqual(["p50", "p95", "p99"]);
  expect(linesOf(plain, "p99").map((line) => line.label)).toEqual(["p99"]);
  const keyed = answer({ measure: "wait" }, ...waits.map((each) => ({ ...each, key: "stt" })));
  expect(linesOf(keyed, undefined).map((line) => line.id)).toEqual(["stt"]);
  expect(headline(plain)).toEqual({ value: 1, unit: "ms" });
  const others = linesBefore(linesOf(plain, undefined), linesOf(keyed, undefined));
  expect(others).toEqual([null, null, null]);
});

test("a point leads to its calls: those of its time that waited so long", () => {
  const calls = { context: "booking" };
  const of = answer({ measure: "wait" }, { stat: "p95", unit: "ms", values: [null, 812.4], calls });
  const [line] = linesOf(of, "p95");
  if (line === undefined) throw new Error("there is a line");
  expect(callsBehind(of, line, 1)).toMatchObject({
    context: "booking",
    since: "2026-11-22T00:00:00+01:00",
    until: "2026-11-23T00:00:00+01:00",
    waited_over_ms: 812,
  });
  expect(callsBehind(of, line, 0)).not.toHaveProperty("waited_over_ms");
});

test("days of the engine are the same days on the screen; arrows skip empty points", () => {
  const of = answer({}, { values: [3, 4] });
  expect(secondsOf(of, false)).toEqual([
    new Date("2026-11-21T00:00:00").getTime() / 1_000,
    new Date("2026-11-22T00:00:00").getTime() / 1_000,
  ]);
  expect(secondsOf(of, true)[0]).toBe(Date.parse("2026-11-20T23:00:00Z") / 1_000);
  const [line] = linesOf(answer({}, { values: [1, null, 3, null] }), undefined);
  const lines = line ? [line] : [];
  expect(stepTo(lines, null, "ArrowLeft")).toBe(2);
  expect(stepTo(lines, 2, "ArrowLeft")).toBe(0);
  expect(stepTo(lines, 0, "ArrowRight")).toBe(2);
  expect(stepTo(lines, 2, "ArrowRight")).toBe(2);
  expect(stepTo([], null, "End")).toBeNull();
});

test("a change is good or bad by what the measure is about", () => {
  expect(changeOf("wait", "ms", 900, 1_000)).toEqual({ text: "−10 %", tone: "good" });
  expect(changeOf("containment", "share", 0.8, 0.85)).toEqual({ text: "−5 pp", tone: "bad" });
  expect(changeOf("calls", "calls", 12, 10)?.tone).toBe("neutral");
  expect(changeOf("calls", "calls", 12, 0)).toBeNull();
  expect(changeOf("wait", "ms", 900, null)).toBeNull();
  expect([tickText(1_250, "ms"), valueText(0.0044, "calls"), valueText(2e-5, "calls")]).toEqual([
    "1.25 s",
    "0.0044",
    "< 0.001",
  ]);
});

test("publishes are the versions that came into force in the period, the oldest first", () => {
  const version = (at: string, result: string) => ({
    ...{ at, result, digest: at, who: "anna", why: "", source: "page" as const },
    ...{ parent: "", generation: 1, in_file: false, in_force: false },
  });
  const known = [
    version("2026-11-22T10:00:00Z", "applied"),
    version("2026-11-22T09:00:00Z", "refused"),
    version("2026-11-21T10:00:00Z", "applied"),
    version("2026-11-01T10:00:00Z", "applied"),
  ];
  const [from, to] = ["2026-11-20", "2026-11-23"].map((day) => Date.parse(day) / 1_000);
  const found = publishesIn(known, from ?? 0, to ?? 0);
  expect(found.map((each) => each.version)).toEqual([
    "2026-11-21T10:00:00Z",
    "2026-11-22T10:00:00Z",
  ]);
});
