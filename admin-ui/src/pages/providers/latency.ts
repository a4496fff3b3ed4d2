// How long callers wait for answers of each provider, day by day. Pure.
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

/** The points of a line in a box of this size, in the form of an SVG path; gaps are left open. */
export function linePath(
  values: readonly (number | null)[],
  width: number,
  height: number,
): string {
  const most = Math.max(1, ...values.map((each) => each ?? 0));
  const step = values.length > 1 ? width / (values.length - 1) : 0;
  let path = "";
  let drawing = false;
  values.forEach((value, index) => {
    if (value === null) {
      drawing = false;
      return;
    }
    const x = (index * step).toFixed(1);
    const y = (height - (value / most) * height).toFixed(1);
    // A point alone is drawn as a dot: a line of no length with round ends.
    path += drawing ? `L${x} ${y}` : `M${x} ${y}l0 0`;
    drawing = true;
  });
  return path;
}
