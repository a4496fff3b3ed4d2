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
