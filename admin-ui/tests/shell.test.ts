// The shell's own logic: addresses, shortcuts, the palette, differences, times.
import { describe, expect, it } from "vitest";

import { KeySequence } from "../src/app/keys.ts";
import { asCallId, asNumber, findItems } from "../src/app/palette-items.ts";
import {
  flag,
  oneOf,
  parseSearch,
  stringifySearch,
  text,
  texts,
  whole,
} from "../src/app/search.ts";
import { scopeOf } from "../src/pages/people/scope.ts";
import { keptFor } from "../src/pages/settings/retention.ts";
import { placeOf, sorted } from "../src/parts/sorted.ts";
import { agoText, clockText, durationText, moneyText } from "../src/parts/time.tsx";
import { parseUnified } from "../src/parts/unified.ts";

describe("an amount of money", () => {
  it("has as many digits as it takes to see it, and is never nothing", () => {
    expect(["1.5", "0.012", "0.00002", "0"].map((each) => moneyText(each, "?"))).toEqual([
      "1.50 ?",
      "0.0120 ?",
      "< 0.0001 ?",
      "0.00 ?",
    ]);
  });
});

describe("the address", () => {
  it("comes back as it was written", () => {
    const address = "?outcome=failed&outcome=refused&text=a+%26+b%3D%3F%C3%A6";
    expect(parseSearch(address)).toEqual({ outcome: ["failed", "refused"], text: "a & b=?æ" });
    expect(stringifySearch(parseSearch(address))).toBe(address);
  });

  it("leaves out what is not set", () => {
    const search = { a: undefined, b: null, c: "", d: false, e: [], f: 0, g: true };
    expect(stringifySearch(search)).toBe("?f=0&g=true");
    expect(stringifySearch({})).toBe("");
  });

  it("is nonsense at times, and then counts for nothing", () => {
    expect([text(""), text({}), text(["a", "b"]), text(7)]).toEqual([
      undefined,
      undefined,
      "a",
      "7",
    ]);
    expect([texts("a"), texts(["a", "", "b", "a"]), texts(undefined)]).toEqual([
      ["a"],
      ["a", "b"],
      undefined,
    ]);
    const numbers = ["12", 12, "-1", "1.5", "1e99", "x", ""].map((each) => whole(each));
    expect(numbers).toEqual([12, 12, undefined, undefined, undefined, undefined, undefined]);
    expect([whole("0", 1), whole("1", 1)]).toEqual([undefined, 1]);
    expect([oneOf("b", ["a", "b"]), oneOf("c", ["a", "b"])]).toEqual(["b", undefined]);
    expect([flag("true"), flag("1"), flag(true), flag("false"), flag("x")]).toEqual([
      true,
      true,
      true,
      undefined,
      undefined,
    ]);
  });
});

describe("shortcuts", () => {
  const known = new Set(["j", "g l", "g c", "?"]);

  it("are one key, or two in a row", () => {
    const keys = new KeySequence();
    expect([keys.press("j", known, 0), keys.press("x", known, 1)]).toEqual(["j", ""]);
    expect([keys.press("g", known, 10), keys.press("l", known, 500)]).toEqual(["", "g l"]);
    expect(keys.press("l", known, 600)).toBe("");
  });

  it("forget the first key after a while, or after another one", () => {
    const keys = new KeySequence();
    expect([keys.press("g", known, 0), keys.press("c", known, 5_000)]).toEqual(["", ""]);
    expect([keys.press("g", known, 6_000), keys.press("j", known, 6_100)]).toEqual(["", "j"]);
    expect(keys.press("c", known, 6_200)).toBe("");
  });
});

describe("the palette", () => {
  const item = (label: string, kind: string, also = "") => ({
    id: label,
    label,
    kind,
    also,
    run: () => {},
  });
  const items = [item("Try booking", "command"), item("booking", "context", "4711")];

  it("puts what begins with the text first", () => {
    expect(findItems(items, "book").map(({ label }) => label)).toEqual(["booking", "Try booking"]);
    expect(findItems(items, "command book").map(({ label }) => label)).toEqual(["Try booking"]);
    expect(findItems(items, "4711").map(({ label }) => label)).toEqual(["booking"]);
    expect(findItems(items, "nothing")).toEqual([]);
  });

  it("knows numbers and ids of calls", () => {
    expect([asNumber("+45 33 11-22 33"), asNumber("12"), asNumber("call 123")]).toEqual([
      "+4533112233",
      "",
      "",
    ]);
    expect([asCallId(" 01fb-77.2 "), asCallId("booking"), asCallId("a b 1234")]).toEqual([
      "01fb-77.2",
      "",
      "",
    ]);
  });
});

it("a unified diff has the numbers of both texts", () => {
  const lines = parseUnified([
    "--- a",
    "+++ b",
    "@@ -3,2 +3,3 @@",
    " same",
    "--- a dash and more",
    "+new",
    "+newer",
    "@@ -20 +21 @@",
    " far",
    "\\ No newline at end of file",
  ]);
  expect(lines.map(({ kind, old, new: now, text }) => [kind, old, now, text])).toEqual([
    ["same", 3, 3, "same"],
    ["removed", 4, null, "-- a dash and more"],
    ["added", null, 4, "new"],
    ["added", null, 5, "newer"],
    ["gap", null, null, ""],
    ["same", 20, 21, "far"],
  ]);
});

it("durations read well at each size", () => {
  expect([420, 3_240, 59_960, 247_000, 3_753_000].map(durationText)).toEqual([
    "420 ms",
    "3.2 s",
    "1:00",
    "4:07",
    "1:02:33",
  ]);
  expect([-5, 7_900, 750_000].map(clockText)).toEqual(["0:00", "0:07", "12:30"]);
  expect([5_000, 840_000, 7_300_000, 3 * 86_400_000].map(agoText)).toEqual([
    "just now",
    "14 min ago",
    "2 h ago",
    "3 days ago",
  ]);
});

it("tables sort by a column, and leave equal rows as they are", () => {
  const columns = [{ id: "n", head: "", cell: () => "", value: (row: { n: number }) => row.n }];
  const rows = [
    { n: 10, name: "a" },
    { n: 9, name: "b" },
    { n: 10, name: "c" },
  ];
  const names = (sort?: string) => sorted(rows, columns, sort).map(({ name }) => name);
  expect([names("n"), names("-n"), names("other")]).toEqual([
    ["b", "a", "c"],
    ["a", "c", "b"],
    ["a", "b", "c"],
  ]);
});

it("contexts are typed with commas or spaces, and none means all", () => {
  expect([scopeOf("booking, sales-*  booking"), scopeOf(" , ")]).toEqual([
    ["booking", "sales-*"],
    ["*"],
  ]);
});

it("retention is read from the file, whatever stands in it", () => {
  const tree = {
    calls: { keep_days: 30 },
    admin: { ui: { audit_months: "twelve" } },
    contexts: { desk: { recording: { keep_days: 7 } }, bar: { recording: [] }, off: null },
  };
  expect(keptFor(tree).map(({ key, count }) => [key, count])).toEqual([
    ["calls.keep_days", 30],
    ["admin.ui.audit_months", 0],
    ["contexts.desk.recording.keep_days", 7],
  ]);
  expect(keptFor({ contexts: [] }).map(({ count }) => count)).toEqual([0, 0]);
});

describe("the focus in a list", () => {
  const at = (rows: string[], index: number) => placeOf(rows, (row) => row, { key: "b", index });

  it("stays on its row when rows change places", () => {
    expect(at(["a", "b", "c"], 1)).toBe(1);
    expect(at(["c", "a", "b"], 1)).toBe(2);
    expect(at(["b", "c", "a"], 1)).toBe(0);
  });

  it("stays in its place when the row is gone, within the list", () => {
    expect(at(["a", "c", "d"], 1)).toBe(1);
    expect(at(["a"], 5)).toBe(0);
    expect(at([], 5)).toBe(0);
  });
});
