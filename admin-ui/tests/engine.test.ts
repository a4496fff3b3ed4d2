// The engine's log and facts, and the alarms' rules, without a page.
import { expect, test } from "vitest";

import type { components } from "../src/api/generated.ts";
import { type Alarm, alarmValue, ruleText, untilOf } from "../src/pages/alarms/rule.ts";
import {
  bytesText,
  daysText,
  diskTone,
  sparkPoints,
  uptimeText,
} from "../src/pages/engine/facts.ts";
import {
  found,
  isFollowing,
  MOST_LINES,
  NO_LINES,
  takeLines,
} from "../src/pages/engine/log-lines.ts";
import { verdictOf } from "../src/pages/setup/verdict.ts";

type Frame = components["schemas"]["LiveFrame"];

const frame = (events: string[], more: Partial<Frame> = {}): Frame => ({
  ...{ id: 1, seq: 0, snapshot: null, rows: [], gone: [], events: [], over: false, error: null },
  ...{ restart: false, partial: null, server: "" },
  lines: events.map((event) => ({ event, level: "info", call_id: "a1", port: 80 })),
  ...more,
});

type Call = components["schemas"]["CallRecord"];

/** A call, of turns as the caller and the agent were heard: `?` the caller, `!` the agent. */
function callOf(...turns: string[]): Call {
  const made = turns.map((who, number) => ({
    number,
    caller: who.includes("?") ? { begin_ms: 1, end_ms: 2, text: "", understood: "" } : null,
    agent: who.includes("!") ? { begin_ms: 3, end_ms: 4, text: "", heard: `said ${number}` } : null,
    answer_ms: who === "?!" ? 640 : null,
  }));
  return { row: { outcome: "completed" }, turns: made } as unknown as Call;
}

test.each([
  [callOf("!", "?!"), true, "ok", "answered", "said 1", 640],
  [callOf("!", "?"), true, "bad", "not_heard", "said 0", null],
  [callOf("!"), true, "bad", "not_heard", "said 0", null],
  [callOf("!"), false, "warn", "greeted", "said 0", null],
  [callOf(""), true, "bad", "silent", "", null],
  [callOf("", "?!"), true, "ok", "answered", "said 1", 640],
  [{ ...callOf(), row: { outcome: "refused" } } as Call, true, "bad", "refused", "", null],
])("a test call is judged, %#", (call, spoke, state, what, said, answerMs) => {
  expect(verdictOf(call, spoke)).toEqual({ state, what, said, answerMs });
});

test("lines follow one another, and a restart begins anew", () => {
  const two = takeLines(NO_LINES, frame(["one", "two"]));
  const three = takeLines(two, frame(["three"]));
  expect(three.lines.map(({ id, event }) => `${id} ${event}`)).toEqual([
    "0 one",
    "1 two",
    "2 three",
  ]);
  expect(takeLines(three, frame([]))).toBe(three);
  const again = takeLines(three, frame(["four"], { restart: true }));
  expect([again.lines.length, again.cut, again.lines[0]?.id]).toEqual([1, true, 3]);
  const many = takeLines(
    NO_LINES,
    frame(Array.from({ length: MOST_LINES + 1 }, (_, at) => `${at}`)),
  );
  expect([many.lines.length, many.cut, many.lines[0]?.event]).toEqual([MOST_LINES, true, "1"]);
});

test("a line's control characters are shown, and it is found by any of its words", () => {
  const log = takeLines(NO_LINES, frame(["evil\u001b[31m\u202ename", "plain"]));
  expect(log.lines[0]?.event).toBe("evil\\u001b[31m\\u202ename");
  expect(log.lines[0]?.rest).toBe("port=80");
  expect(found(log.lines, "PORT=80")).toHaveLength(2);
  expect(found(log.lines, " plain ").map((line) => line.event)).toEqual(["plain"]);
  expect(found(log.lines, " ")).toBe(log.lines);
});

test("the newest line is followed until the reader scrolls up, whatever the window's size", () => {
  const box = { scrollTop: 900, scrollHeight: 1_000, clientHeight: 100 };
  const near = 36;
  expect(isFollowing(true, 900, box, near)).toBe(true);
  const smaller = { ...box, clientHeight: 40 };
  expect(isFollowing(true, 900, smaller, near)).toBe(true);
  expect(isFollowing(false, 900, smaller, near)).toBe(false);
  const larger = { ...box, scrollTop: 600, clientHeight: 400 }; // the browser moves it to its end
  expect(isFollowing(true, 900, larger, near)).toBe(true);
  expect(isFollowing(true, 900, { ...box, scrollTop: 700 }, near)).toBe(false);
  expect(isFollowing(false, 700, box, near)).toBe(true);
});

test("sizes, times and disks in words", () => {
  expect([999, 62_797, 59_837_435_904].map(bytesText)).toEqual(["999 B", "62.8 kB", "59.8 GB"]);
  expect([59, 3_700, 1_051_200].map(uptimeText)).toEqual(["59 s", "1 h 1 min", "12 d 4 h"]);
  expect([null, 1.9, 952_870].map(daysText)).toEqual(["not known yet", "1 day", "> 10 years"]);
  expect(diskTone(50, 100, null)).toBe("good");
  expect(diskTone(50, 100, 10)).toBe("warn");
  expect(diskTone(2, 100, null)).toBe("bad");
  expect(sparkPoints([10, 20], 3, { width: 100, height: 40 }, 40)).toBe("50.0,30.0 100.0,20.0");
});

const alarm = (rule: Record<string, unknown>, limit: number | null = null): Alarm => ({
  ...{ id: "a", state: "quiet", text: "", value: null, limit, context: "", since: "" },
  ...{ calls: [], note: "", acknowledged: null },
  rule,
});

test("a rule is told in words", () => {
  const slow = { measure: "wait", above: 1500, over_minutes: 30, at_least: 20, percentile: "p99" };
  expect(ruleText(alarm(slow, 1_500))).toBe(
    "Wait for a sound p99 above 1.5 s over 30 min with at least 20 samples",
  );
  const crm = { measure: "tool_failure_share", of: "crm_find", above: 0.05, today: true };
  expect(ruleText(alarm(crm, 0.05))).toBe("Tool failure share of crm_find above 5% today");
  const few = { measure: "calls", below: 1, over_minutes: 240, hours: { to: "18:00" } };
  expect(ruleText(alarm(few, 1))).toBe("Calls below 1 over 4 h from 09:00 to 18:00");
  expect(ruleText(alarm({ server: "atis", after_minutes: 2 }))).toBe(
    "the MCP server atis is down for 2 min",
  );
  const disk = alarm({ measure: "disk_free", below: 10 }, 10);
  expect([ruleText(disk), alarmValue(disk, 21.4)]).toEqual(["free disk below 10 %", "21.4 %"]);
});

test("an acknowledged alarm is silent until the chosen time", () => {
  const now = new Date("2026-11-23T14:30:00");
  const local = (text: string) => new Date(text).toISOString();
  expect(untilOf("never", "", now)).toBe("");
  expect(untilOf("hours", "", now)).toBe(local("2026-11-23T18:30:00"));
  expect(untilOf("morning", "", now)).toBe(local("2026-11-24T09:00:00"));
  expect(untilOf("time", "2026-12-01T08:00", now)).toBe(local("2026-12-01T08:00:00"));
});
