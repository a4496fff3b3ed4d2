// The outbound page: progress, lists, days, and the engine's words beside their fields.
import { describe, expect, it, test } from "vitest";

import { Refused } from "../src/api/client.ts";
import { blockRest, MOST_AT_ONCE, type Taken } from "../src/pages/outbound/block-many.ts";
import { faultsOf } from "../src/pages/outbound/faults.ts";
import {
  type Day,
  daysText,
  listOf,
  MOST_CSV,
  numbersIn,
  stepsOf,
} from "../src/pages/outbound/lists.ts";
import { progressOf, stateOf } from "../src/pages/outbound/progress.ts";
import { search } from "../src/pages/outbound/search.ts";

const bytes = (text: string) => new TextEncoder().encode(text);

describe("the progress of a campaign", () => {
  const people = { pending: 3, answered: 4, no_answer: 1, dialling: 1, refused: 1, busy: 0 };

  it("counts who is done, and has the outcomes in the page's order", () => {
    const { total, done, waiting, parts } = progressOf(people);
    expect([total, done, waiting]).toEqual([10, 6, 3]);
    expect(parts.map(({ what, kind }) => `${what} ${kind}`)).toEqual([
      "answered good",
      "no_answer missed",
      "refused bad",
      "dialling live",
      "pending open",
    ]);
    expect(progressOf({ pending: 1, voiced: 2 }).parts.map(({ what }) => what)).toEqual([
      "voiced",
      "pending",
    ]);
  });

  it("is finished when nobody waits any more, unless it is cancelled", () => {
    const [some, all] = [progressOf(people), progressOf({ answered: 2 })];
    expect(stateOf({ state: "running" }, some)).toBe("running");
    expect(stateOf({ state: "running" }, all)).toBe("finished");
    expect(stateOf({ state: "cancelled" }, all)).toBe("cancelled");
    expect(stateOf({ state: "paused" }, progressOf({}))).toBe("paused");
  });
});

describe("a list", () => {
  it("is read as it is, and its lines are counted below the head", () => {
    const text = "number,name\r\n+4722000001,Kåre\r\n\r\n+4722000002,\r\n";
    expect(listOf("a.csv", bytes(text))).toEqual({ name: "a.csv", text, lines: 2 });
    expect(listOf("a.csv", bytes(""))).toEqual({ name: "a.csv", text: "", lines: 0 });
  });

  it("is refused where it is no UTF-8, with the line, or too long", () => {
    const latin = new Uint8Array([...bytes("number,name\n1,Ida\n2,K"), 0xe5, ...bytes("re\n3,x")]);
    expect(listOf("a.csv", latin)).toEqual({ notText: 3 });
    expect(listOf("a.csv", bytes("1".repeat(MOST_CSV + 1)))).toEqual({ tooLong: true });
  });

  it("of numbers is the first column, without its head", () => {
    const text = '\uFEFFnumber;since\n"+47 22 00 00 01";2026\n\n 22000002 \r\n+4722000003\tx';
    expect(numbersIn(text)).toEqual(["+47 22 00 00 01", "22000002", "+4722000003"]);
    expect(numbersIn("112\n113")).toEqual(["112", "113"]);
    expect(numbersIn(" \n")).toEqual([]);
  });
});

describe("a long list of numbers to block", () => {
  const refusal = (status: number, retryAfter = 0) =>
    new Refused(status, { code: "x", message: "x", at: [], request: "r" }, retryAfter);
  const numbers = Array.from({ length: 2 * MOST_AT_ONCE + 1 }, (_, at) => `+47220${at}`);

  /** Answers of the engine, one for each part; what happened. */
  function engine(...answers: (number | Refused)[]) {
    const happened: string[] = [];
    return {
      happened,
      send: async (part: string[]) => {
        happened.push(`send ${part.length} from ${part[0]}`);
        const answer = answers.shift() ?? 0;
        if (answer instanceof Refused) throw answer;
        return answer;
      },
      onPart: () => {},
      pause: async (seconds: number) => void happened.push(`wait ${seconds}`),
    };
  }

  it("waits as long as the engine asks for, and goes on with the same part", async () => {
    const taken: Taken = { numbers: new Set(), added: 0 };
    const ways = engine(1_000, refusal(429, 7), 900, 1);
    await blockRest(numbers, taken, ways);
    expect(ways.happened).toEqual([
      "send 1000 from +472200",
      "send 1000 from +472201000",
      "wait 7",
      "send 1000 from +472201000",
      "send 1 from +472202000",
    ]);
    expect([taken.numbers.size, taken.added]).toEqual([2_001, 1_901]);
  });

  it("goes on after what was taken, when it is mended and sent again", async () => {
    const taken: Taken = { numbers: new Set(), added: 0 };
    const wrong = [...numbers.slice(0, MOST_AT_ONCE), "Kari", ...numbers.slice(MOST_AT_ONCE)];
    const refused = refusal(422);
    await expect(blockRest(wrong, taken, engine(1_000, refused))).rejects.toBe(refused);
    expect(taken.numbers.size).toBe(MOST_AT_ONCE);
    const ways = engine(1_000, 1);
    await blockRest(numbers, taken, ways);
    expect(ways.happened).toEqual(["send 1000 from +472201000", "send 1 from +472202000"]);
    expect(taken.added).toBe(2_001);
  });

  it("is given up at a refusal without a time, also of the pace", async () => {
    const taken: Taken = { numbers: new Set(), added: 0 };
    const refused = refusal(429);
    await expect(blockRest(numbers, taken, engine(refused))).rejects.toBe(refused);
  });
});

test("days are written as short as the engine reads them", () => {
  const text = (...days: Day[]) => daysText(new Set(days));
  expect(text("fri", "mon", "tue", "wed", "thu")).toBe("mon-fri");
  expect(text("mon", "tue", "sun")).toBe("mon,tue,sun");
  expect(text("sat", "sun", "mon", "wed", "thu", "fri")).toBe("mon,wed-sun");
  expect(text()).toBe("");
});

test("keys are typed as steps", () => {
  expect([stepsOf(" 1 w2,#"), stepsOf("")]).toEqual([["1", "w2", "#"], []]);
});

test("what the engine refuses stands beside its field", () => {
  const refused = (at: object[]) =>
    new Refused(422, { code: "invalid", message: "all of it", at, request: "r" } as never);
  const fields = ["hours", "keys"] as const;
  const keys = refused([{ key: "keys.0", message: "too long" }]);
  expect(faultsOf(keys, fields)).toEqual({ of: { keys: "too long" }, rest: null });
  const other = refused([{ key: "other", message: "wrong" }]);
  expect(faultsOf(other, fields)).toEqual({ of: {}, rest: other });
  expect(faultsOf(null, fields)).toEqual({ of: {}, rest: null });
});

test("the address takes what the page knows", () => {
  expect(search({ tab: "call", campaign: "spring", what: "busy", context: "demo" })).toEqual({
    ...{ tab: "call", campaign: "spring", what: "busy", context: "demo" },
  });
  expect(search({ tab: "x", what: "x" })).toEqual({
    ...{ tab: undefined, campaign: undefined, what: undefined, context: undefined },
  });
});
