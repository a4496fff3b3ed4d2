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
  "direction",
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

/** In the address, where a value cannot be empty: calls that have none, such as no review. */
export const NONE = "(none)";

/** As the engine takes them. */
export type Query = { [Name in Choice]?: string[] } & {
  [Name in (typeof TEXTS)[number]]?: string;
} & {
  [Name in (typeof WHOLES)[number]]?: number;
} & { who?: (typeof SIDES)[number] };

export type Filter = keyof Query;

/** As pages change them: undefined takes a filter away. */
export type Filters = { [Name in Filter]?: Query[Name] | undefined };

export type Search = Filters & {
  columns?: Column[] | undefined;
  /** Whose history it is; left out: of all nodes if they share the index, or of this one. */
  node?: string | undefined;
  /** Id of the saved view that was opened. */
  view?: string | undefined;
  /** Ids of two calls. */
  compare?: [string, string] | undefined;
};

export function search(raw: Raw): Search {
  const found: Search = { ...filtersOf(raw) };
  const columns = texts(raw.columns)?.filter(isColumn);
  if (columns?.length) found.columns = columns;
  const node = text(raw.node);
  if (node !== undefined) found.node = node;
  const view = text(raw.view);
  if (view !== undefined) found.view = view;
  const compared = texts(raw.compare)?.flatMap((each) => each.split(","));
  const [one, other] = compared ?? [];
  if (one && other && one !== other) found.compare = [one, other];
  return found;
}

/** The filters alone; what is no filter, or no value of one, is left out. */
export function filtersOf(raw: Raw): Query {
  const found: Query = {};
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
  const who = oneOf(raw.who, SIDES);
  // Without words there is nothing that a side could have said.
  if (who !== undefined && found.text !== undefined) found.who = who;
  return found;
}

/** As the engine is asked: the filters, and the node. */
export const askedOf = (search: Search): Query & { node?: string } => ({
  ...queryOf(search),
  ...(search.node && { node: search.node }),
});

/** As the engine takes them: times with a zone, since a bare day would be one of its own zone. */
export function queryOf(filters: Filters): Query {
  const query = filtersOf(filters);
  for (const name of CHOICES) {
    if (query[name]) query[name] = query[name].map((each) => (each === NONE ? "" : each));
  }
  for (const name of ["since", "until"] as const) {
    const at = query[name] === undefined ? undefined : momentOf(query[name]);
    if (at) query[name] = at.toISOString();
  }
  return query;
}

/** What the engine's export is asked; an empty value, for calls without one, is kept. */
export function exportText(query: Query, format: "csv" | "jsonl"): string {
  const written = new URLSearchParams();
  for (const [name, values] of Object.entries(query)) {
    for (const each of Array.isArray(values) ? values : [values])
      written.append(name, String(each));
  }
  written.append("format", format);
  return written.toString();
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
      (Array.isArray(value) ? value : [value]).map((each) => (each === NONE ? "" : String(each))),
    ]),
  );
}

/** The address of a saved view. */
export function fromView(view: {
  id: string;
  filters: Record<string, string[]>;
  columns: string[];
}): Search {
  const filters = Object.entries(view.filters).map(([name, values]) => [
    name,
    values.map((each) => each || NONE),
  ]);
  return search({ ...Object.fromEntries(filters), columns: view.columns, view: view.id });
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

/** The filters one by one, each with one value, for people to see and to take away. */
export function partsOf(filters: Filters): { name: Filter; value: string }[] {
  return Object.entries(filtersOf(filters)).flatMap(([name, values]) =>
    (Array.isArray(values) ? values : [values]).map((value) => ({
      name: name as Filter,
      value: String(value),
    })),
  );
}

/** The change that takes one of them away. */
export function without(filters: Filters, name: Filter, value: string): Filters {
  const choice = CHOICES.find((each) => each === name);
  if (choice) return { [choice]: toggled(filters, choice, value) };
  return name === "text" ? { text: undefined, who: undefined } : { [name]: undefined };
}

/** A day some days ago, in the viewer's zone, as filters name it. */
export function dayAgo(days: number, now = new Date()): string {
  const day = new Date(now.getFullYear(), now.getMonth(), now.getDate() - days);
  const two = (value: number) => String(value).padStart(2, "0");
  return `${day.getFullYear()}-${two(day.getMonth() + 1)}-${two(day.getDate())}`;
}

/** How many calls match, from the counts of a filter that each call has one value of. */
export function totalOf(counts: Record<string, number> | undefined, chosen?: string[]): number {
  const all = Object.entries(counts ?? {});
  const counted = chosen ? all.filter(([value]) => chosen.includes(value || NONE)) : all;
  return counted.reduce((sum, [, count]) => sum + count, 0);
}

function isColumn(name: string): name is Column {
  return COLUMN_NAMES.some((each) => each === name);
}
