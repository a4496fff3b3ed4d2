// An alarm's rule in words, and times until which it stays silent.
import type { components } from "../../api/generated.ts";
import { words } from "../../words/alarms.ts";
import { words as insights } from "../../words/insights.ts";
import { MEASURES, type MeasureName, valueText } from "../insights/measures.ts";

export type Alarm = components["schemas"]["AlarmState"];

const PERCENTILES: readonly MeasureName[] = ["wait", "answer_wait", "tool_time", "duration"];
const SHARES: readonly MeasureName[] = ["containment", "abandonment", "tool_failure_share"];
const USUAL_MINUTES = 15;

/** The measure of calls that a rule watches; undefined for states and disks. */
export function measureOf({ rule }: Alarm): MeasureName | undefined {
  return MEASURES.find((each) => each === rule.measure);
}

/** The unit in which the values of an alarm are written. */
export function unitOf(alarm: Alarm): string {
  const measure = measureOf(alarm);
  if (measure === undefined) return "";
  if (PERCENTILES.includes(measure)) return "ms";
  return SHARES.includes(measure) ? "share" : "";
}

/** A value of an alarm; `disk_free` is in percent. */
export function alarmValue(alarm: Alarm, value: number | null): string {
  const text = valueText(value, unitOf(alarm));
  return alarm.rule.measure === "disk_free" && value !== null ? `${text} %` : text;
}

/** The condition of a rule: "Wait for a sound, p95 above 1.5 s over 15 min, with at least 20 samples". */
export function ruleText(alarm: Alarm): string {
  const { rule } = alarm;
  const said = words.stages;
  const after = numberOf(rule.after_minutes);
  const held = after ? [said.after(said.minutes(after))] : [];
  if (typeof rule.component === "string") return [said.notReady(rule.component), ...held].join(" ");
  if (typeof rule.server === "string") return [said.down(rule.server), ...held].join(" ");
  const way = rule.above !== undefined ? said.above : said.below;
  const parts = [...subject(alarm), way, alarmValue(alarm, alarm.limit)];
  if (measureOf(alarm) !== undefined) {
    const minutes = numberOf(rule.over_minutes) ?? USUAL_MINUTES;
    parts.push(rule.today === true ? said.today : said.over(said.minutes(minutes)));
    const least = numberOf(rule.at_least) ?? 1;
    if (least > 1) parts.push(said.atLeast(least));
  }
  return [...parts, ...held, ...hours(rule.hours)].join(" ");
}

function subject(alarm: Alarm): string[] {
  const measure = measureOf(alarm);
  const { of, percentile } = alarm.rule;
  if (measure === undefined) return [words.stages.diskFree];
  const stat = PERCENTILES.includes(measure) ? [String(percentile ?? "p95")] : [];
  const key = typeof of === "string" && of ? [words.stages.of(of)] : [];
  return [insights.titleOf(measure), ...stat, ...key];
}

function hours(given: unknown): string[] {
  if (typeof given !== "object" || given === null) return [];
  const { from = "09:00", to = "17:00" } = given as Record<string, unknown>; // any JSON object
  return [words.stages.hours(String(from), String(to))];
}

const numberOf = (value: unknown) => (typeof value === "number" ? value : undefined);

export const UNTIL = ["never", "hour", "hours", "morning", "time"] as const;
export type Until = (typeof UNTIL)[number];

/** The end of the silence in ISO 8601; empty for as long as the alarm fires. */
export function untilOf(choice: Until, time: string, now: Date): string {
  const at = new Date(now);
  if (choice === "never") return "";
  if (choice === "hour") at.setHours(at.getHours() + 1);
  else if (choice === "hours") at.setHours(at.getHours() + 4);
  else if (choice === "morning") {
    at.setDate(at.getDate() + 1);
    at.setHours(9, 0, 0, 0);
  } else return new Date(time).toISOString();
  return at.toISOString();
}

const RED = ["firing", "falling"];

/** True while an alarm fires, and until its end is certain. */
export const isRed = (alarm: Alarm) => RED.includes(alarm.state);
