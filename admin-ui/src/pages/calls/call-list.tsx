// The list of the calls that match, with what finds them.
import { keepPreviousData, useInfiniteQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useCallback, useMemo, useState } from "react";

import { get, keyOf, useGet } from "../../app/api.ts";
import { useNodes } from "../../app/pages.ts";
import { usePhone } from "../../app/phone.ts";
import { useMay } from "../../app/session.ts";
import { useShortcut } from "../../app/shortcuts.tsx";
import { Empty, Loading, Problem } from "../../parts/answer.tsx";
import { Button, IconButton } from "../../parts/button.tsx";
import { CodeBlock } from "../../parts/code.tsx";
import { Dialog } from "../../parts/dialog.tsx";
import { download } from "../../parts/download.ts";
import { Menu } from "../../parts/menu.tsx";
import { Page } from "../../parts/page.tsx";
import { type Column as TableColumn, VirtualRows } from "../../parts/table.tsx";
import { momentText } from "../../parts/time.tsx";
import { words } from "../../words/calls.ts";
import { type CallRow, callerOf, tableColumns } from "./cells.tsx";
import { COLUMN_NAMES, type Column, SHARED_COLUMNS, USUAL_COLUMNS, withColumn } from "./columns.ts";
import { Facets } from "./facets.tsx";
import {
  askedOf,
  exportText,
  type Filters,
  partsOf,
  type Query,
  type Search,
  totalOf,
} from "./search.ts";
import { SearchBar } from "./search-bar.tsx";
import { ViewsMenu } from "./views.tsx";

const PATH = "/api/v1/calls";
const FACETS = `${PATH}/facets` as const;
const PAGE_ROWS = 200;
/** Time between two looks for calls that are newer than the list. */
const LOOK_MS = 15_000;

export interface CallListProps {
  search: Search;
  /** A function gets the search of that moment, which may be newer than the one on the screen. */
  onSearch: (search: Search | ((now: Search) => Search), replace?: boolean) => void;
}

export function CallList({ search, onSearch }: CallListProps) {
  const query = useMemo(() => askedOf(search), [search]);
  const counts = useGet(FACETS, { query }, { keepPrevious: true });
  const facets = counts.data?.facets ?? {};
  const shared = counts.data?.shared ?? false;
  const usual = shared ? SHARED_COLUMNS : USUAL_COLUMNS;
  const [picked, setPicked] = useState<readonly string[]>([]);
  const change = (filters: Filters, typing = false) =>
    onSearch((now) => ({ ...now, ...filters }), typing);
  const phone = usePhone();
  return (
    <Page
      title={words.title}
      fills
      aside={
        counts.data &&
        !counts.data.partial && <Total count={totalOf(facets.outcome, search.outcome)} />
      }
      actions={
        <Actions search={search} query={query} onSearch={onSearch} shared={shared} usual={usual} />
      }
    >
      <SearchBar filters={search} onChange={change}>
        {phone && <FiltersDialog filters={search} counts={facets} onChange={change} />}
      </SearchBar>
      <div className="flex min-h-0 flex-1 border-t border-line">
        {!phone && (
          <aside
            aria-label={words.filter}
            className="w-52 shrink-0 overflow-y-auto border-r border-line px-4 pt-3"
          >
            <Facets filters={search} counts={facets} onChange={change} />
          </aside>
        )}
        <div className="flex min-h-0 min-w-0 flex-1 flex-col">
          <Rows
            shown={search.columns ?? usual}
            search={search}
            query={query}
            picked={picked}
            onPicked={setPicked}
          />
          {picked.length > 0 && (
            <Picked
              picked={picked}
              onCompare={(compare) => onSearch((now) => ({ ...now, compare }))}
              onNone={() => setPicked([])}
            />
          )}
        </div>
      </div>
    </Page>
  );
}

function Total({ count }: { count: number }) {
  return (
    <span role="status" className="text-muted">
      {words.count(count)}
    </span>
  );
}

/** The calls of one node; of all nodes if they share the index, or else of this one. */
function NodeMenu({ search, onSearch, shared }: CallListProps & { shared: boolean }) {
  const nodes = useNodes();
  if (nodes.length < 2) return null;
  const usual = shared ? undefined : nodes.find(({ own }) => own)?.node;
  const choices = [...(shared ? [undefined] : []), ...nodes.map(({ node }) => node)];
  const current = search.node ?? usual;
  return (
    <Menu
      trigger={<Button icon="cluster">{current ? words.node(current) : words.allNodes}</Button>}
      items={choices.map((node) => ({
        label: node ?? words.allNodes,
        checked: node === current,
        onSelect: () => onSearch((now) => ({ ...now, node: node === usual ? undefined : node })),
      }))}
    />
  );
}

interface ActionsProps extends CallListProps {
  query: Query;
  shared: boolean;
  usual: readonly Column[];
}

function Actions({ search, query, onSearch, shared, usual }: ActionsProps) {
  const queries = useQueryClient();
  const shown = search.columns ?? usual;
  const choose = (columns: Column[] | undefined) => onSearch((now) => ({ ...now, columns }), true);
  return (
    <>
      <NodeMenu search={search} onSearch={onSearch} shared={shared} />
      <ViewsMenu search={search} onOpen={onSearch} />
      <Menu
        trigger={<Button icon="table">{words.columnsMenu}</Button>}
        items={[
          ...COLUMN_NAMES.map((name) => ({
            label: words.columns[name],
            checked: shown.includes(name),
            onSelect: () => choose(withColumn(shown, name)),
          })),
          { heading: "" },
          { label: words.usualColumns, onSelect: () => choose(undefined) },
        ]}
      />
      {useMay("calls.export") && (
        <Menu
          trigger={<Button icon="download">{words.exportMenu}</Button>}
          items={(["csv", "jsonl"] as const).map((format) => ({
            label: words.exports[format],
            onSelect: () => download(`${PATH}/export?${exportText(query, format)}`),
          }))}
        />
      )}
      <IconButton
        label={words.refresh}
        icon="refresh"
        onClick={() => {
          void queries.resetQueries({ queryKey: keyOf(PATH) });
          void queries.invalidateQueries({ queryKey: keyOf(FACETS) });
        }}
      />
    </>
  );
}

interface FiltersDialogProps {
  filters: Filters;
  counts: Record<string, Record<string, number>>;
  onChange: (filters: Filters) => void;
}

function FiltersDialog({ filters, counts, onChange }: FiltersDialogProps) {
  const [open, setOpen] = useState(false);
  const chosen = partsOf(filters).length;
  return (
    <>
      <Button icon="filter" onClick={() => setOpen(true)}>
        {words.showFilters}
        {chosen > 0 && <span className="text-muted">{chosen}</span>}
      </Button>
      {open && (
        <Dialog title={words.filter} onClose={() => setOpen(false)}>
          <Facets filters={filters} counts={counts} onChange={onChange} />
          <Button look="primary" className="w-full" onClick={() => setOpen(false)}>
            {words.close}
          </Button>
        </Dialog>
      )}
    </>
  );
}

/** All pages of the list that were loaded, and whether newer calls have come. */
function useRows(query: Query) {
  const key = useMemo(() => [...keyOf(PATH, { query }), "pages"], [query]);
  const pages = useInfiniteQuery({
    queryKey: key,
    queryFn: ({ pageParam, signal }) =>
      get(PATH, { query: { ...query, limit: PAGE_ROWS, cursor: pageParam } }, signal),
    initialPageParam: "",
    getNextPageParam: (page) => page.next || undefined,
    placeholderData: keepPreviousData,
    // New calls must not move the rows under the reader's eyes: the page says that there are some.
    staleTime: Number.POSITIVE_INFINITY,
  });
  const rows = useMemo(() => pages.data?.pages.flatMap((page) => page.rows) ?? [], [pages.data]);
  const last = pages.data?.pages.at(-1);
  // Encrypted calls are opened for each look.
  const opens = last?.searched_to_ms != null;
  const newest = useGet(
    PATH,
    { query: { ...query, limit: 1 } },
    { refetchInterval: opens ? false : LOOK_MS },
  );
  const first = newest.data?.rows[0];
  const hasNewer = first !== undefined && pages.data !== undefined && isNewer(first, rows[0]);
  return { pages, rows, hasNewer, key, last };
}

/** A dialplan may give two calls of a day one id, and then their ledgers differ. */
const keyOfRow = (row: CallRow) => `${row.node}/${row.file}/${row.id}`;

const isNewer = (row: CallRow, than: CallRow | undefined) =>
  than === undefined || row.started_ms > than.started_ms;

interface RowsProps {
  shown: readonly Column[];
  search: Search;
  query: Query;
  picked: readonly string[];
  onPicked: (picked: readonly string[]) => void;
}

function Rows({ shown, search, query, picked, onPicked }: RowsProps) {
  const navigate = useNavigate();
  const queries = useQueryClient();
  const phone = usePhone();
  const { pages, rows, hasNewer, key, last } = useRows(query);
  const columns = useMemo(
    () => [pickColumn(picked, onPicked), ...tableColumns(shown, phone)],
    [shown, picked, onPicked, phone],
  );
  const open = useCallback(
    (row: CallRow) => void navigate({ to: "/calls/$callId", params: { callId: row.id } }),
    [navigate],
  );
  useShortcut("/", words.search, () => document.getElementById("search")?.focus());
  if (pages.data === undefined) {
    return pages.error ? (
      <Problem error={pages.error} onRetry={() => void pages.refetch()} />
    ) : (
      <div className="px-6">
        <Loading />
      </div>
    );
  }
  const further = last?.searched_to_ms != null && (
    <Further
      at={last.searched_to_ms}
      busy={pages.isFetchingNextPage}
      onFurther={() => void pages.fetchNextPage()}
    />
  );
  if (rows.length === 0 && !hasNewer) {
    return further || <NoCalls filtered={partsOf(search).length > 0} />;
  }
  return (
    <>
      {hasNewer && (
        <Button
          look="quiet"
          icon="up"
          className="w-full rounded-none border-b-line text-accent"
          onClick={() => {
            void queries.resetQueries({ queryKey: key });
            void queries.invalidateQueries({ queryKey: keyOf(FACETS) });
          }}
        >
          {words.newCalls}
        </Button>
      )}
      <VirtualRows
        label={words.list}
        rows={rows}
        columns={columns}
        rowKey={keyOfRow}
        onOpen={open}
        onEnd={() => {
          if (pages.hasNextPage && !pages.isFetching) void pages.fetchNextPage();
        }}
        foot={<Foot loading={pages.isFetchingNextPage} more={pages.hasNextPage} />}
      />
      {pages.data.pages.some((page) => !page.up_to_date) && (
        <p role="status" className="border-t border-line px-6 py-1 text-xs text-warn">
          {words.notUpToDate}
        </p>
      )}
      {last !== undefined && last.unreadable > 0 && (
        <p role="status" className="border-t border-line px-6 py-1 text-xs text-warn">
          {words.unreadable(last.unreadable)}
        </p>
      )}
      {further}
    </>
  );
}

/** How far encrypted calls were searched, and the way on. */
function Further(props: { at: number; busy: boolean; onFurther: () => void }) {
  const at = momentText(new Date(props.at), new Date());
  return (
    <div role="status" className="flex items-center gap-3 border-t border-line px-6 py-1 text-xs">
      <span>{words.searchedTo(at)}</span>
      <Button small busy={props.busy} onClick={props.onFurther}>
        {words.searchFurther}
      </Button>
    </div>
  );
}

/** The first column: two calls can be chosen to compare them; a third takes the place of the first. */
function pickColumn(
  picked: readonly string[],
  onPicked: (picked: readonly string[]) => void,
): TableColumn<CallRow> {
  const toggle = (id: string) =>
    onPicked(
      picked.includes(id) ? picked.filter((each) => each !== id) : [...picked, id].slice(-2),
    );
  return {
    id: "pick",
    head: <span className="sr-only">{words.compare}</span>,
    width: "3.25rem",
    wide: true,
    cell: (row) => (
      <input
        type="checkbox"
        aria-label={words.pick(callerOf(row))}
        className="block size-4 accent-accent"
        checked={picked.includes(row.id)}
        onChange={() => toggle(row.id)}
        // The row around it would open the call.
        onClick={(event) => event.stopPropagation()}
      />
    ),
  };
}

function Foot({ loading, more }: { loading: boolean; more: boolean }) {
  if (!loading && more) return null;
  return <p className="px-6 py-3 text-muted">{loading ? words.loadingMore : words.end}</p>;
}

interface PickedProps {
  picked: readonly string[];
  onCompare: (ids: [string, string]) => void;
  onNone: () => void;
}

function Picked({ picked, onCompare, onNone }: PickedProps) {
  const [one, other] = picked;
  return (
    <div className="flex items-center gap-2 border-t border-line bg-raised px-6 py-2">
      <span role="status">{words.picked(picked.length)}</span>
      <Button
        look="primary"
        className="ml-auto"
        disabled={!other}
        onClick={() => one && other && onCompare([one, other])}
      >
        {words.compare}
      </Button>
      <Button onClick={onNone}>{words.unpick}</Button>
    </div>
  );
}

function NoCalls({ filtered }: { filtered: boolean }) {
  if (filtered) return <Empty icon="search" title={words.noMatch} />;
  return (
    <Empty icon="calls" title={words.noCalls}>
      <p>{words.noCallsHint}</p>
      <CodeBlock text="cordboard call --target 127.0.0.1:8090" />
    </Empty>
  );
}
