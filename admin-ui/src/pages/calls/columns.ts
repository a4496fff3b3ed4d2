// The columns of the call history. Names are those of `CallRow`, which saved views keep.

const TRACKS = {
  started_at: "7.75rem",
  caller_number: "minmax(8.5rem, 1.8fr)",
  called_number: "6rem",
  context: "minmax(5rem, 1fr)",
  outcome: "minmax(10.5rem, 1.8fr)",
  duration_ms: "4.75rem",
  waited_ms: "6rem",
  turns: "3.5rem",
  interruptions: "6.5rem",
  tools: "minmax(7rem, 1.6fr)",
  troubles: "minmax(5.5rem, 1fr)",
  cost: "5.75rem",
  recorded: "5.5rem",
  review: "5.5rem",
  tags: "minmax(6rem, 1fr)",
  provider: "minmax(5rem, 1fr)",
  source: "6.5rem",
  direction: "6.5rem",
  config: "5.5rem",
  node: "minmax(5rem, 1fr)",
} as const;

export type Column = keyof typeof TRACKS;

export const COLUMN_NAMES = Object.keys(TRACKS) as Column[];

export const USUAL_COLUMNS: readonly Column[] = [
  "started_at",
  "caller_number",
  "context",
  "outcome",
  "duration_ms",
  "waited_ms",
  "tools",
  "cost",
];

/** Of a cluster whose nodes share the index. */
export const SHARED_COLUMNS: readonly Column[] = [...USUAL_COLUMNS, "node"];

/** What fits beside each other on a phone. */
const PHONE_TRACKS: Partial<Record<Column, string>> = {
  started_at: "8rem",
  caller_number: "minmax(0, 1fr)",
  outcome: "7.5rem",
};

/** The columns that are shown on a phone: the usual few of the chosen ones, or else all. */
export function phoneColumns(columns: readonly Column[]): readonly Column[] {
  const few = columns.filter((each) => each in PHONE_TRACKS);
  return few.length > 0 ? few : columns;
}

/** The width of a column, as a track of a CSS grid. */
export function trackOf(column: Column, phone: boolean): string {
  return (phone && PHONE_TRACKS[column]) || TRACKS[column];
}

const NUMBERS: readonly Column[] = ["duration_ms", "waited_ms", "turns", "interruptions", "cost"];

/** Numbers stand at the right, one digit under the other. */
export const isNumber = (column: Column): boolean => NUMBERS.includes(column);

/** The columns with one more, at its usual place, or without one. The last one stays. */
export function withColumn(columns: readonly Column[], column: Column): Column[] {
  const after = columns.includes(column)
    ? columns.filter((each) => each !== column)
    : COLUMN_NAMES.filter((each) => each === column || columns.includes(each));
  return after.length > 0 ? after : [...columns];
}
