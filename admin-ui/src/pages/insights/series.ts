// From the engine's answers to what is drawn: lines, points, and the calls behind a point.
import type { components } from "../../api/generated.ts";
import { STATS, type Stat } from "./measures.ts";

type Schemas = components["schemas"];
export type Answer = Schemas["SeriesAnswer"];
export type AnswerLine = Schemas["SeriesLine"];

export interface Line {
  /** Unique among the lines, and the same in the next answer. */
  id: string;
  /** Empty for the only line. */
  label: string;
  unit: string;
  values: readonly (number | null)[];
  samples: readonly number[];
  calls: Readonly<Record<string, string>>;
  /** Of waits and durations. */
  stat: Stat | null;
}

const statOf = (line: AnswerLine) => STATS.find((each) => each === line.stat) ?? null;

/** True if the values are percentiles, of which one is chosen when there are several keys. */
export const hasStats = (answer: Answer) => answer.series.some((line) => statOf(line) !== null);

/** The lines of an answer. Of percentiles by key only `stat`; without keys all three. */
export function linesOf(answer: Answer, stat: Stat | undefined): Line[] {
  const byKey = answer.series.some((line) => line.key !== "");
  const wanted = byKey ? (stat ?? "p95") : stat;
  return answer.series.flatMap((line) => {
    const of = statOf(line);
    if (of !== null && wanted !== undefined && of !== wanted) return [];
    const label = [line.key, of !== null && !byKey ? of : ""].filter(Boolean).join(" ");
    const { unit, values, samples, calls } = line;
    return [{ id: line.key || line.stat, label, unit, values, samples, calls, stat: of }];
  });
}

/** The value of a whole period that stands for a measure: p95 of percentiles, else the first line. */
export function headline(answer: Answer): { value: number | null; unit: string } {
  const line = answer.series.find((each) => each.stat === "p95") ?? answer.series[0];
  return { value: line?.values[0] ?? null, unit: line?.unit ?? "" };
}

/** The filters of the call history, by their names in an address, for the calls behind a point. */
export function callsBehind(answer: Answer, line: Line, point: number): Record<string, unknown> {
  const value = line.values[point];
  const over =
    line.stat === null || value === null || value === undefined ? {} : slow(answer, value);
  return { ...line.calls, since: answer.t[point], until: answer.t[point + 1], ...over };
}

/** Calls that waited so long; the history knows the waits, not durations of tools. */
function slow(answer: Answer, value: number): Record<string, number> {
  if (answer.measure === "wait") return { waited_over_ms: Math.floor(value) };
  return answer.measure === "duration" ? { longer_ms: Math.floor(value) } : {};
}

/** The beginning of each point in seconds since 1970; the engine's dates as days of the viewer. */
export function secondsOf(answer: Answer, hours: boolean): number[] {
  return answer.t.slice(0, -1).map((each) => {
    const at = hours ? new Date(each) : new Date(`${each.slice(0, 10)}T00:00:00`);
    return at.getTime() / 1_000;
  });
}

/** The line of the period before that belongs to a line, point by point. */
export function linesBefore(lines: readonly Line[], earlier: readonly Line[]): (Line | null)[] {
  const known = new Map(earlier.map((line) => [line.id, line]));
  return lines.map((line) => known.get(line.id) ?? null);
}

export interface Publish {
  /** Seconds since 1970. */
  at: number;
  version: string;
  /** The version before it; empty for the first one. */
  parent: string;
  who: string;
  why: string;
}

/** The versions that were put into force within a period, the oldest first. */
export function publishesIn(
  versions: readonly Schemas["ConfigVersion"][],
  from: number,
  to: number,
): Publish[] {
  return versions
    .filter((each) => each.result === "applied")
    .map((each) => ({
      at: Date.parse(each.at) / 1_000,
      version: each.digest,
      parent: each.parent,
      who: each.who,
      why: each.why,
    }))
    .filter((each) => each.at >= from && each.at < to)
    .reverse();
}

/** The number of the point that an arrow key leads to; points without any value are skipped. */
export function stepTo(lines: readonly Line[], from: number | null, key: string): number | null {
  const count = lines[0]?.values.length ?? 0;
  const known = [...Array(count).keys()].filter((at) =>
    lines.some((line) => line.values[at] !== null && line.values[at] !== undefined),
  );
  const [first, last] = [known[0], known.at(-1)];
  if (first === undefined || last === undefined) return null;
  if (key === "Home") return first;
  if (key === "End" || from === null) return last;
  if (key === "ArrowLeft") return known.filter((at) => at < from).at(-1) ?? first;
  return known.find((at) => at > from) ?? last;
}
