// The columns of the call history. Names are those of `CallRow`, which saved views keep.

const TRACKS = {
  started_at: "10.5rem",
  caller_number: "minmax(8rem, 1.4fr)",
  called_number: "6rem",
  context: "minmax(5rem, 1fr)",
  outcome: "minmax(9rem, 1.6fr)",
  duration_ms: "5rem",
  waited_ms: "6rem",
  turns: "4rem",
  interruptions: "6.5rem",
  tools: "minmax(7rem, 1.6fr)",
  troubles: "minmax(5.5rem, 1fr)",
  cost: "5.5rem",
  recorded: "5.5rem",
  review: "5.5rem",
  tags: "minmax(6rem, 1fr)",
  provider: "minmax(5rem, 1fr)",
  source: "6.5rem",
  config: "5.5rem",
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
  "turns",
  "tools",
  "cost",
];

/** The width of a column, as a track of a CSS grid. */
export const trackOf = (column: Column): string => TRACKS[column];

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
