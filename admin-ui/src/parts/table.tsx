// Tables: `DataTable` for dozens of rows, `VirtualRows` for any number. Both take the same columns.
import { useVirtualizer } from "@tanstack/react-virtual";
import {
  type KeyboardEvent,
  memo,
  type ReactNode,
  useCallback,
  useEffect,
  useEffectEvent,
  useMemo,
  useRef,
  useState,
} from "react";

import { usePhone } from "../app/phone.ts";
import { cx } from "./cx.ts";
import { Icon } from "./icons.tsx";
import { type Column, type Focused, placeOf, sorted } from "./sorted.ts";

export type { Column };

export interface DataTableProps<T> {
  /** Says what the table lists; for screen readers. */
  label: string;
  rows: readonly T[];
  columns: readonly Column<T>[];
  rowKey: (row: T) => string;
  /** The id of a column, with "-" before it for descending; kept by the page, in the address. */
  sort?: string | undefined;
  onSort?: (sort: string) => void;
  /** A click on a row. There must be a link or button in the row that does the same. */
  onOpen?: (row: T) => void;
  /** In place of the rows if there are none. */
  empty?: ReactNode;
}

export function DataTable<T>(props: DataTableProps<T>) {
  const { label, rows, columns, rowKey, sort, onSort, onOpen, empty } = props;
  if (rows.length === 0 && empty) return empty;
  return (
    <section aria-label={label} tabIndex={0} className="relative overflow-x-auto -outline-offset-2">
      <table className="w-full border-collapse text-left">
        <caption className="sr-only">{label}</caption>
        <thead>
          <tr className="border-b border-line">
            {columns.map((column) => (
              <Head key={column.id} column={column} sort={sort} onSort={onSort} />
            ))}
          </tr>
        </thead>
        <tbody>
          {sorted(rows, columns, sort).map((row) => (
            <tr
              key={rowKey(row)}
              onClick={onOpen && (() => onOpen(row))}
              className={cx(
                "border-b border-line last:border-0 hover:bg-hover",
                onOpen && "cursor-pointer",
              )}
            >
              {columns.map((column) => (
                <td
                  key={column.id}
                  className={cx(
                    "px-3 py-1.5 align-baseline first:pl-4 last:pr-4",
                    column.align === "end" && "text-right",
                    column.wide && "phone:hidden",
                  )}
                >
                  {column.cell(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

interface HeadProps<T> {
  column: Column<T>;
  sort: string | undefined;
  onSort: ((sort: string) => void) | undefined;
}

function Head<T>({ column, sort, onSort }: HeadProps<T>) {
  const up = sort === column.id;
  const down = sort === `-${column.id}`;
  const sortable = onSort !== undefined && column.value !== undefined;
  return (
    <th
      scope="col"
      style={{ width: column.width }}
      aria-sort={sortable ? (up ? "ascending" : down ? "descending" : "none") : undefined}
      className={cx(
        "h-8 px-3 text-xs font-medium whitespace-nowrap text-muted first:pl-4 last:pr-4",
        column.align === "end" && "text-right",
        column.wide && "phone:hidden",
      )}
    >
      {sortable ? (
        <button
          type="button"
          className="inline-flex h-6 items-center gap-1 hover:text-ink"
          onClick={() => onSort(up ? `-${column.id}` : column.id)}
        >
          {column.head}
          {(up || down) && <Icon name={up ? "up" : "down"} size={12} />}
        </button>
      ) : (
        column.head
      )}
    </th>
  );
}

export interface VirtualRowsProps<T> {
  label: string;
  rows: readonly T[];
  /** Keep it the same array between renders: rows that did not change are not rendered again. */
  columns: readonly Column<T>[];
  /** The same function between renders, too. */
  rowKey: (row: T) => string;
  /** Pixels of a row. */
  height?: number;
  /** The key of the row that is marked, such as the one whose details are open. */
  selected?: string | undefined;
  /** Enter, or a click. */
  onOpen?: (row: T) => void;
  /** The end is near: the page loads more. */
  onEnd?: () => void;
  /** Below the last row, such as "loading". */
  foot?: ReactNode;
}

/** A list of any length that takes the height of its flex parent. j, k, arrows, Home, End, Enter. */
export function VirtualRows<T>(props: VirtualRowsProps<T>) {
  const { label, rows, rowKey, height = 36, selected, onOpen, onEnd, foot } = props;
  const phone = usePhone();
  const columns = useMemo(
    () => props.columns.filter((each) => !(phone && each.wide)),
    [props.columns, phone],
  );
  const scroller = useRef<HTMLDivElement>(null);
  const [focused, setFocused] = useState<Focused<string>>({ key: "", index: 0 });
  const current = useMemo(() => placeOf(rows, rowKey, focused), [rows, rowKey, focused]);
  // With another function in each render the virtualizer would go through all rows each time.
  const getItemKey = useCallback((index: number) => rowKey(rows[index] as T), [rows, rowKey]);
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => height,
    overscan: 8,
    getItemKey,
  });
  const tracks = useMemo(
    () => columns.map((each) => each.width ?? "minmax(4rem, 1fr)").join(" "),
    [columns],
  );
  const items = virtual.getVirtualItems();
  const last = items.at(-1)?.index ?? -1;
  const nearEnd = useEffectEvent(() => onEnd?.());
  useEffect(() => {
    if (last >= rows.length - 10) nearEnd();
  }, [last, rows.length]);
  // A row far away has to be rendered before it can have the focus.
  const wanted = useRef<number>(undefined);
  useEffect(() => {
    if (wanted.current === undefined) return;
    const row = scroller.current?.querySelector<HTMLElement>(`[data-index="${wanted.current}"]`);
    if (!row) return;
    wanted.current = undefined;
    row.focus();
  });
  const go = (index: number) => {
    const to = Math.max(0, Math.min(index, rows.length - 1));
    const row = rows[to];
    if (row === undefined) return;
    setFocused({ key: rowKey(row), index: to });
    virtual.scrollToIndex(to);
    wanted.current = to;
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    if (!(event.target as HTMLElement).matches("[data-index]")) return; // a button in a row
    const page = Math.floor((scroller.current?.clientHeight ?? 0) / height) - 1;
    const steps: Record<string, number> = {
      j: current + 1,
      ArrowDown: current + 1,
      k: current - 1,
      ArrowUp: current - 1,
      PageDown: current + page,
      PageUp: current - page,
      Home: 0,
      End: rows.length - 1,
    };
    const to = steps[event.key];
    const row = rows[current];
    if (to !== undefined) go(to);
    else if (event.key === "Enter" && row !== undefined) onOpen?.(row);
    else return;
    event.preventDefault();
  };
  return (
    <div
      ref={scroller}
      role="grid"
      aria-label={label}
      aria-rowcount={rows.length + 1}
      data-list=""
      onKeyDown={onKeyDown}
      className="min-h-0 flex-1 overflow-auto"
      style={{ "--tracks": tracks } as React.CSSProperties}
    >
      <div
        role="row"
        aria-rowindex={1}
        className={cx(
          ROW,
          "sticky top-0 z-10 h-8 border-b border-line bg-surface text-xs font-medium text-muted",
        )}
      >
        {columns.map((column) => (
          <div key={column.id} role="columnheader" className={cellClass(column)}>
            {column.head}
          </div>
        ))}
      </div>
      <div role="rowgroup" className="relative" style={{ height: virtual.getTotalSize() }}>
        {items.map(({ index, key, start }) => (
          <Row
            key={key}
            rowKey={String(key)}
            row={rows[index] as T}
            index={index}
            columns={columns}
            start={start}
            height={height}
            focusable={index === current}
            selected={selected !== undefined && key === selected}
            onFocus={setFocused}
            onOpen={onOpen}
          />
        ))}
      </div>
      {foot}
    </div>
  );
}

const ROW = "grid grid-cols-[var(--tracks)] items-center";

const cellClass = <T,>(column: Column<T>) =>
  cx(
    "min-w-0 truncate px-2 first:pl-6 last:pr-6 phone:first:pl-4 phone:last:pr-4",
    column.align === "end" && "text-right",
  );

interface RowProps<T> {
  row: T;
  rowKey: string;
  index: number;
  columns: readonly Column<T>[];
  start: number;
  height: number;
  focusable: boolean;
  selected: boolean;
  onFocus: (focused: Focused<string>) => void;
  onOpen: ((row: T) => void) | undefined;
}

function PlainRow<T>(props: RowProps<T>) {
  const { row, rowKey, index, columns, start, height, focusable, selected } = props;
  const { onFocus, onOpen } = props;
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: the grid around has the keys of all rows
    <div
      role="row"
      aria-rowindex={index + 2}
      aria-selected={selected}
      data-index={index}
      tabIndex={focusable ? 0 : -1}
      onFocus={() => onFocus({ key: rowKey, index })}
      onClick={onOpen && (() => onOpen(row))}
      className={cx(
        ROW,
        "absolute inset-x-0 top-0 border-b border-line -outline-offset-2 contain-strict",
        selected ? "bg-selected" : "hover:bg-hover",
        onOpen && "cursor-pointer",
      )}
      style={{ height, transform: `translateY(${start}px)` }}
    >
      {columns.map((column) => (
        <div key={column.id} role="gridcell" className={cellClass(column)}>
          {column.cell(row)}
        </div>
      ))}
    </div>
  );
}

// `memo` loses the type parameter.
const Row = memo(PlainRow) as typeof PlainRow;
