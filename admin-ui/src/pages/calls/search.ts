// The address of the call history: each filter of `GET /api/v1/calls` by its own name, the columns,
// the saved view it began with, and the two calls that are compared.
import { oneOf, type Raw, text, texts, whole } from "../../app/search.ts";
import { COLUMN_NAMES, type Column } from "./columns.ts";

/** Filters with alternatives, in the order of the page; the engine counts the calls of each. */
export const CHOICES = [
  "outcome",
  "context",
  "reason",
  "tool",
  "tool_failed",
  "trouble",
  "interrupted",
  "recorded",
  "review",
  "tag",
  "provider",
  "source",
  "config",
] as const;
const TEXTS = [
  "text",
  "id",
  "number",
  "number_prefix",
  "number_last4",
  "called",
  "since",
  "until",
  "cost_over",
] as const;
const WHOLES = ["waited_over_ms", "longer_ms", "shorter_ms"] as const;
const SIDES = ["caller", "agent"] as const;

export type Choice = (typeof CHOICES)[number];

export type Filters = { [Name in Choice]?: string[] } & {
  [Name in (typeof TEXTS)[number]]?: string;
} & { [Name in (typeof WHOLES)[number]]?: number } & { who?: (typeof SIDES)[number] };

export type Filter = keyof Filters;

export type Search = Filters & {
  columns?: Column[];
  /** Id of the saved view that was opened. */
  view?: string;
  /** Ids of two calls. */
  compare?: [string, string];
};

export function search(raw: Raw): Search {
  const found: Search = { ...filtersOf(raw) };
  const columns = texts(raw["columns"])?.filter(isColumn);
  if (columns?.length) found.columns = columns;
  const view = text(raw["view"]);
  if (view !== undefined) found.view = view;
  const compared = texts(raw["compare"])?.flatMap((each) => each.split(","));
  const [one, other] = compared ?? [];
  if (one && other && one !== other) found.compare = [one, other];
  return found;
}

/** The filters alone; what is no filter, or no value of one, is left out. */
export function filtersOf(raw: Raw): Filters {
  const found: Filters = {};
  for (const name of CHOICES) {
    const chosen = texts(raw[name]);
    if (chosen) found[name] = chosen;
  }
  for (const name of TEXTS) {
    const given = text(raw[name])?.trim();
    if (given) found[name] = given;
  }
  for (const name of WHOLES) {
    const given = whole(raw[name]);
    if (given !== undefined) found[name] = given;
  }
  const who = oneOf(raw["who"], SIDES);
  // Without words there is nothing that a side could have said.
  if (who !== undefined && found.text !== undefined) found.who = who;
  return found;
}

/** As the engine takes them: times with a zone, since a bare day would be one of its own zone. */
export function queryOf(filters: Filters): Filters {
  const query = filtersOf(filters);
  for (const name of ["since", "until"] as const) {
    const at = query[name] === undefined ? undefined : momentOf(query[name]);
    if (at) query[name] = at.toISOString();
  }
  return query;
}

/** The moment that a filter names; a day is its first moment in the viewer's zone. */
export function momentOf(given: string): Date | undefined {
  // JavaScript takes a day alone for one of UTC.
  const at = new Date(/^\d{4}-\d\d-\d\d$/.test(given) ? `${given}T00:00` : given);
  return Number.isNaN(at.getTime()) ? undefined : at;
}

/** Filters as a saved view keeps them. */
export function toView(filters: Filters): Record<string, string[]> {
  return Object.fromEntries(
    Object.entries(filtersOf(filters)).map(([name, value]) => [
      name,
      (Array.isArray(value) ? value : [value]).map(String),
    ]),
  );
}

/** The address of a saved view. */
export function fromView(view: {
  id: string;
  filters: Record<string, string[]>;
  columns: string[];
}): Search {
  return search({ ...view.filters, columns: view.columns, view: view.id });
}

/** True if both find the same calls and show the same columns. */
export function isSameView(one: Search, other: Search): boolean {
  const plain = (each: Search) => [
    Object.entries(toView(each)).sort(([a], [b]) => (a < b ? -1 : 1)),
    each.columns ?? null,
  ];
  return JSON.stringify(plain(one)) === JSON.stringify(plain(other));
}

/** The filters without one value of a choice, or with it. */
export function toggled(filters: Filters, name: Choice, value: string): string[] | undefined {
  const before = filters[name] ?? [];
  const after = before.includes(value)
    ? before.filter((each) => each !== value)
    : [...before, value];
  return after.length > 0 ? after : undefined;
}

/** How many calls match, from the counts of a filter that each call has one value of. */
export function totalOf(counts: Record<string, number> | undefined, chosen?: string[]): number {
  const all = Object.entries(counts ?? {});
  const counted = chosen ? all.filter(([value]) => chosen.includes(value)) : all;
  return counted.reduce((sum, [, count]) => sum + count, 0);
}

function isColumn(name: string): name is Column {
  return COLUMN_NAMES.some((each) => each === name);
}
