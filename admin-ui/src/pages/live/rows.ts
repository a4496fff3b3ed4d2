// Which live calls are shown, and in which order.
import type { components } from "../../api/generated.ts";
import type { Order, Search } from "./search.ts";

export type LiveRow = components["schemas"]["LiveRow"];

/** The calls that pass the filters, in order. */
export function shownRows(rows: readonly LiveRow[], search: Search): LiveRow[] {
  const words = search.text?.trim().toLowerCase();
  const found = rows.filter(
    (row) =>
      chosen(search.context, row.context) &&
      chosen(search.provider, row.provider) &&
      chosen(search.state, row.state) &&
      (!search.troubled || isTroubled(row)) &&
      (!words || textOf(row).includes(words)),
  );
  return found.sort(COMPARED[search.order ?? "oldest"]);
}

/** True if something went wrong in the call. */
export const isTroubled = (row: LiveRow): boolean => row.troubles > 0 || toolsOf(row).failed > 0;

/** The API types the tools of a row as an object of anything. */
export function toolsOf({ tools }: LiveRow): { running: string[]; calls: number; failed: number } {
  const { running, calls, failed } = tools;
  return {
    running: Array.isArray(running) ? running.map(String) : [],
    calls: Number(calls ?? 0),
    failed: Number(failed ?? 0),
  };
}

/** The last words of either side. */
export function lastWords({ last }: LiveRow): { who: string; text: string } | null {
  return last ? { who: String(last.who), text: String(last.text) } : null;
}

/** The values of a field among the calls, for its filter; also chosen ones that no call has now. */
export function valuesOf(
  rows: readonly LiveRow[],
  field: "context" | "provider" | "state",
  chosen: readonly string[] = [],
): string[] {
  return [...new Set([...rows.map((row) => row[field]), ...chosen])].sort();
}

const chosen = (values: readonly string[] | undefined, value: string) =>
  values === undefined || values.includes(value);

function textOf(row: LiveRow): string {
  const { call_id, caller_number, caller_name, called_number } = row;
  const said = lastWords(row)?.text;
  return [call_id, caller_number, caller_name, called_number, said].join("\n").toLowerCase();
}

const begun = (row: LiveRow) => Date.parse(row.started_at);
/** Moment since which the caller has been waiting; of one who does not wait the end of time. */
const waitsSince = (row: LiveRow) =>
  row.waiting_since_ms === null ? Number.POSITIVE_INFINITY : begun(row) + row.waiting_since_ms;
const cost = (row: LiveRow) => Number(row.cost?.amount ?? 0);
const up = (a: number, b: number) => (a === b ? 0 : a - b);

const COMPARED: Record<Order, (a: LiveRow, b: LiveRow) => number> = {
  oldest: (a, b) => up(begun(a), begun(b)),
  newest: (a, b) => up(begun(b), begun(a)),
  waiting: (a, b) => up(waitsSince(a), waitsSince(b)) || up(begun(a), begun(b)),
  cost: (a, b) => up(cost(b), cost(a)) || up(begun(a), begun(b)),
};
