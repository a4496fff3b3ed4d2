// How long callers wait for answers of each provider, day by day; what calls cost. Pure.
import type { components } from "../../api/generated.ts";

type Series = components["schemas"]["SeriesAnswer"];

export interface Latency {
  /** By day, ms; null for a day without turns. */
  p50: readonly (number | null)[];
  p95: readonly (number | null)[];
  /** Turns behind all of it. */
  turns: number;
}

/** The waits by provider, of `answer_wait` by `provider`. */
export function latencies(series: Series | undefined): Map<string, Latency> {
  const found = new Map<string, Latency>();
  for (const { key, stat, values, samples } of series?.series ?? []) {
    if (stat !== "p50" && stat !== "p95") continue;
    const before = found.get(key) ?? { p50: [], p95: [], turns: 0 };
    const turns = samples.reduce((sum, each) => sum + each, 0);
    found.set(key, { ...before, [stat]: values, turns: Math.max(before.turns, turns) });
  }
  return found;
}

/** The newest value that there is. */
export function newest(values: readonly (number | null)[]): number | null {
  return values.filter((each) => each !== null).at(-1) ?? null;
}

/** Mean cost of a call by context, of `cost` and `calls` by `context`, in one currency. */
export function meanCosts(
  costs: Series | undefined,
  calls: Series | undefined,
  currency: string,
): Map<string, number> {
  const found = new Map<string, number>();
  const spent = sums(costs);
  for (const [context, count] of sums(calls)) {
    const cost = spent.get(`${currency} ${context}`);
    if (cost !== undefined && count > 0) found.set(context, cost / count);
  }
  return found;
}

function sums(series: Series | undefined): Map<string, number> {
  const total = (values: readonly (number | null)[]) =>
    values.reduce<number>((sum, each) => sum + (each ?? 0), 0);
  return new Map((series?.series ?? []).map(({ key, values }) => [key, total(values)]));
}

/** A bar for each day that has a value: its day, and its height as a share of `most`. */
export function barsOf(
  values: readonly (number | null)[],
  most: number,
): { day: number; share: number }[] {
  return values.flatMap((value, day) =>
    value === null || most <= 0 ? [] : [{ day, share: Math.min(1, value / most) }],
  );
}
