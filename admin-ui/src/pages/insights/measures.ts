// The measures of docs/insights-and-alarms.md: their groups, and how their values are written.
import { durationText, moneyText } from "../../parts/time.tsx";

export const GROUPS = {
  volume: ["calls", "concurrency", "duration", "turns", "refused"],
  outcome: ["containment", "abandonment", "transfers", "outcomes"],
  waiting: ["wait", "answer_wait"],
  conversation: ["interruptions", "pauses", "silences"],
  tools: ["tools", "tool_failures", "tool_failure_share", "tool_time"],
  troubles: ["troubles"],
  cost: ["cost", "cost_per_contained"],
} as const;

export type Group = keyof typeof GROUPS;
export type MeasureName = (typeof GROUPS)[Group][number];
export const MEASURES: readonly MeasureName[] = Object.values(GROUPS).flat();
export const STATS = ["p50", "p95", "p99"] as const;
export type Stat = (typeof STATS)[number];

/** Which way is better; a measure that is not here is neither good nor bad. */
const BETTER: Partial<Record<MeasureName, "more" | "less">> = {
  containment: "more",
  abandonment: "less",
  refused: "less",
  wait: "less",
  answer_wait: "less",
  silences: "less",
  tool_failures: "less",
  tool_failure_share: "less",
  tool_time: "less",
  troubles: "less",
  cost_per_contained: "less",
};

const number = new Intl.NumberFormat(undefined, { maximumFractionDigits: 2 });
const LEAST = 0.001;
const small = new Intl.NumberFormat(undefined, { maximumSignificantDigits: 2 });
const percent = new Intl.NumberFormat(undefined, { style: "percent", maximumFractionDigits: 1 });

/** A value in words; the unit is that of the line, a currency for money. */
export function valueText(value: number | null | undefined, unit: string): string {
  if (value === null || value === undefined) return "–";
  if (unit === "share") return percent.format(value);
  if (unit === "ms") return durationText(value);
  if (/^[A-Z]{3}$/.test(unit)) return moneyText(value, unit);
  if (value > 0 && value < LEAST) return `< ${small.format(LEAST)}`;
  return (Math.abs(value) < 1 ? small : number).format(value);
}

/** A value on the axis, where 1.25 s must not become 1.3 s. */
export function tickText(value: number, unit: string): string {
  if (unit !== "ms" || value < 1_000) return valueText(value, unit);
  return value < 60_000 ? `${number.format(value / 1_000)} s` : durationText(value);
}

export interface Change {
  /** Such as "+12 %"; of a share in percentage points. */
  text: string;
  tone: "good" | "bad" | "neutral";
}

/** The change from one value to another; null where there is nothing to compare. */
export function changeOf(
  measure: MeasureName,
  unit: string,
  now: number | null | undefined,
  then: number | null | undefined,
): Change | null {
  if (now === null || now === undefined || then === null || then === undefined) return null;
  const difference = now - then;
  if (unit !== "share" && then === 0) return null;
  const size = unit === "share" ? difference * 100 : (difference / then) * 100;
  const sign = size > 0 ? "+" : size < 0 ? "−" : "±";
  const text = `${sign}${number.format(Math.round(Math.abs(size) * 10) / 10)} ${unit === "share" ? "pp" : "%"}`;
  const better = BETTER[measure];
  if (better === undefined || Math.abs(size) < 0.05) return { text, tone: "neutral" };
  return { text, tone: size > 0 === (better === "more") ? "good" : "bad" };
}
