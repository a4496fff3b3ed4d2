import { expect, test } from "vitest";

import { greetingOf } from "../src/pages/providers/greeting.ts";
import { barsOf, latencies, meanCosts, newest } from "../src/pages/providers/latency.ts";

const line = (key: string, stat: string, values: (number | null)[]) => ({
  ...{ key, stat, unit: "ms", values, calls: {} },
  samples: values.map((each) => (each === null ? 0 : 3)),
});

test("the waits of a provider are those of its lines, and days without calls stay empty", () => {
  const found = latencies({
    ...{ measure: "answer_wait", about: "", by: [], t: [], left_out: 0 },
    series: [
      line("local", "p50", [400, null, 500]),
      line("local", "p95", [900, null, 1200]),
      line("local", "p99", [999, null, 1999]),
      line("cloud", "p95", [null, 700, null]),
    ],
  });
  expect([...found.keys()]).toEqual(["local", "cloud"]);
  expect(found.get("local")).toEqual({ p50: [400, null, 500], p95: [900, null, 1200], turns: 6 });
  expect(newest(found.get("cloud")?.p95 ?? [])).toBe(700);
  expect(newest([null])).toBeNull();
  expect(barsOf([900, null, 1200], 1200)).toEqual([
    { day: 0, share: 0.75 },
    { day: 2, share: 1 },
  ]);
  expect(barsOf([null, 0], 0)).toEqual([]);
  expect(latencies(undefined).size).toBe(0);
});

test("the mean cost of a call is that of all days, in the currency of the prices", () => {
  const of = (...series: ReturnType<typeof line>[]) => ({
    ...{ measure: "", about: "", by: [], t: [], left_out: 0 },
    series,
  });
  const costs = of(
    line("EUR desk", "count", [0.6, null, 1.2]),
    line("EUR night", "count", [0.5]),
    line("USD desk", "count", [9]),
  );
  const calls = of(line("booking", "count", [7]), line("desk", "count", [2, 0, 4]));
  expect([...meanCosts(costs, calls, "EUR")]).toEqual([["desk", expect.closeTo(0.3)]]);
  expect(meanCosts(undefined, calls, "EUR").size).toBe(0);
});

test("a sample begins with the greeting of the first context that has one", () => {
  const tree = { contexts: { desk: {}, booking: { greeting: "Booking desk." } } };
  expect(greetingOf(tree, ["desk", "booking"])).toBe("Booking desk.");
  expect(greetingOf(tree, ["constructor"])).toBeUndefined();
  expect(greetingOf(null, ["desk"])).toBeUndefined();
});
