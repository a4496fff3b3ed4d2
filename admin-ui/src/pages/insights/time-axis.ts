// Names of points in the viewer's language.
import type { Step } from "./period.ts";

const formats: Record<Step, Intl.DateTimeFormat> = {
  hour: new Intl.DateTimeFormat(undefined, {
    weekday: "short",
    day: "numeric",
    month: "short",
    hour: "2-digit",
    minute: "2-digit",
  }),
  day: new Intl.DateTimeFormat(undefined, {
    weekday: "short",
    day: "numeric",
    month: "short",
    year: "numeric",
  }),
  week: new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", year: "numeric" }),
  month: new Intl.DateTimeFormat(undefined, { month: "long", year: "numeric" }),
};

/** The name of a point that begins then: "Sat, 21 Nov 2026", "16–22 Nov 2026" for a week. */
export function pointText(seconds: number, step: Step): string {
  const begin = new Date(seconds * 1_000);
  if (step !== "week") return formats[step].format(begin);
  const end = new Date(begin);
  end.setDate(end.getDate() + 6);
  return formats.week.formatRange(begin, end);
}

const DAY_S = 86_400;
const axis = {
  time: new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" }),
  day: new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" }),
  month: new Intl.DateTimeFormat(undefined, { month: "short", year: "numeric" }),
};

/** A mark on the time axis, where the marks are so many seconds apart. */
export function axisText(seconds: number, apart: number): string {
  const at = new Date(seconds * 1_000);
  if (apart >= 28 * DAY_S) return axis.month.format(at);
  const isMidnight = at.getHours() === 0 && at.getMinutes() === 0;
  return (apart < DAY_S && !isMidnight ? axis.time : axis.day).format(at);
}
