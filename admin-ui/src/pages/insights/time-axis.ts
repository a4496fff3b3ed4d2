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
