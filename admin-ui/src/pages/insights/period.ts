// The period of the insights: what the address says, what the engine is asked, and the period before
// it. Days are asked for as dates, which the engine counts in its own zone.

export const RANGES = ["24h", "7d", "30d", "90d", "365d"] as const;
export type Range = (typeof RANGES)[number];
export const STEPS = ["hour", "day", "week", "month"] as const;
export type Step = (typeof STEPS)[number];
export const USUAL: Range = "30d";

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
/** Points of one answer at most; the engine refuses more. */
const MOST_POINTS = 1_000;
const DATE = /^\d{4}-\d\d-\d\d$/;

/** As the engine takes it: dates or ISO 8601 times; `to` is the one after the last. */
export interface Period {
  from: string;
  to: string;
  /** Length in days; hours are fractions. */
  days: number;
}

export interface Chosen {
  range?: Range | undefined;
  from?: string | undefined;
  to?: string | undefined;
}

/** True for a date, or an ISO 8601 time with a zone. */
export function isMoment(given: string): boolean {
  const hasZone = /T.*(Z|[+-]\d\d:\d\d)$/.test(given);
  return (DATE.test(given) || hasZone) && !Number.isNaN(Date.parse(given));
}

/** The date of a moment in the viewer's zone, `2026-11-23`. */
export function dateText(at: Date): string {
  const two = (value: number) => String(value).padStart(2, "0");
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
}

/** The date that is some days after another one. */
export function addDays(date: string, days: number): string {
  // Noon, so that no change of the clocks leads to another day.
  const at = new Date(`${date}T12:00:00`);
  at.setDate(at.getDate() + days);
  return dateText(at);
}

const utc = (date: string) => Date.parse(`${date}T00:00:00Z`);

/** The chosen period, up to now if no end is chosen. */
export function periodOf(chosen: Chosen, now: Date): Period {
  const { from, to } = chosen;
  if (from !== undefined) {
    const isDays = DATE.test(from) && (to === undefined || DATE.test(to));
    if (isDays) return daysFrom(from, addDays(to ?? dateText(now), 1));
    return timesFrom(new Date(from), to === undefined ? now : new Date(to));
  }
  const range = chosen.range ?? USUAL;
  if (range === "24h") {
    const end = Math.ceil(now.getTime() / HOUR_MS) * HOUR_MS;
    return timesFrom(new Date(end - DAY_MS), new Date(end));
  }
  const end = addDays(dateText(now), 1);
  return daysFrom(addDays(end, -Number.parseInt(range, 10)), end);
}

function daysFrom(from: string, to: string): Period {
  const end = to > from ? to : addDays(from, 1);
  return { from, to: end, days: Math.round((utc(end) - utc(from)) / DAY_MS) };
}

function timesFrom(from: Date, to: Date): Period {
  const end = Math.max(to.getTime(), from.getTime() + HOUR_MS);
  return {
    from: from.toISOString(),
    to: new Date(end).toISOString(),
    days: (end - from.getTime()) / DAY_MS,
  };
}

/** The period of the same length before. */
export function before({ from, to, days }: Period): Period {
  if (DATE.test(from)) return { from: addDays(from, -days), to: from, days };
  const length = Date.parse(to) - Date.parse(from);
  return { from: new Date(Date.parse(from) - length).toISOString(), to: from, days };
}

/** The steps that the engine allows for a period, the finest first. */
export function stepsFor(period: Period): Step[] {
  const points: Record<Step, number> = {
    hour: period.days * 24,
    day: period.days,
    week: period.days / 7,
    month: period.days / 30,
  };
  return STEPS.filter(
    (step) => points[step] <= MOST_POINTS && (points[step] > 1 || step === "hour"),
  );
}

/** The step: the chosen one if it is allowed, else one that makes 24 to 100 points. */
export function stepOf(chosen: Step | undefined, period: Period): Step {
  const allowed = stepsFor(period);
  if (chosen !== undefined && allowed.includes(chosen)) return chosen;
  if (period.days <= 3) return "hour";
  if (period.days <= 100) return "day";
  return period.days <= 700 ? "week" : "month";
}
