import type { ReactNode } from "react";

export interface Column<T> {
  id: string;
  head: ReactNode;
  cell: (row: T) => ReactNode;
  /** Numbers stand at the end. */
  align?: "start" | "end";
  /** A CSS width, such as "8rem"; in `VirtualRows` a track, such as "minmax(8rem, 2fr)". */
  width?: string;
  /** Makes the column sortable. */
  value?: (row: T) => string | number;
  /** Not shown on a phone. */
  wide?: boolean;
}

/** Sorts by a column, `-id` descending; rows without order stay as they are. */
export function sorted<T>(
  rows: readonly T[],
  columns: readonly Column<T>[],
  sort: string | undefined,
): readonly T[] {
  const value = columns.find((each) => each.id === sort?.replace(/^-/, ""))?.value;
  if (value === undefined) return rows;
  const sign = sort?.startsWith("-") ? -1 : 1;
  return [...rows].sort((one, other) => {
    const [a, b] = [value(one), value(other)];
    const order = typeof a === "string" ? a.localeCompare(String(b)) : a - Number(b);
    return sign * order;
  });
}

/** The row that has the focus: its key, and where it was. */
export interface Focused<K> {
  key: K;
  index: number;
}

/** Where the focused row is now: rows come, go and change places. If it is gone, the same place. */
export function placeOf<T, K>(
  rows: readonly T[],
  keyOf: (row: T) => K,
  { key, index }: Focused<K>,
) {
  const there = rows[index];
  if (there !== undefined && keyOf(there) === key) return index;
  const found = rows.findIndex((row) => keyOf(row) === key);
  return found < 0 ? Math.max(0, Math.min(index, rows.length - 1)) : found;
}
