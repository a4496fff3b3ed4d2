// The calls of this moment: a list that keeps itself up to date, and one call open beside it.
import { getRouteApi } from "@tanstack/react-router";
import { useCallback, useEffect, useMemo, useRef, useState } from "react";

import { useClockAhead } from "../../app/clock.ts";
import { useLiveCalls } from "../../app/live.ts";
import { useNodes } from "../../app/pages.ts";
import { usePhone } from "../../app/phone.ts";
import { Empty, Loading, StaleNote } from "../../parts/answer.tsx";
import { Button, LinkButton } from "../../parts/button.tsx";
import { CodeBlock } from "../../parts/code.tsx";
import { LateInput, Select } from "../../parts/field.tsx";
import { Menu } from "../../parts/menu.tsx";
import { Page } from "../../parts/page.tsx";
import { VirtualRows } from "../../parts/table.tsx";
import { words } from "../../words/live.ts";
import { liveColumns } from "./cells.tsx";
import { DrainButton, DrainNote, useDrain } from "./drain.tsx";
import { OpenCall } from "./open-call.tsx";
import { type LiveRow, shownRows, valuesOf } from "./rows.ts";
import { ORDERS, type Search } from "./search.ts";

const route = getRouteApi("/live");

export default function LivePage() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const { rows, known, state, since } = useLiveCalls();
  const drain = useDrain();
  const ahead = useClockAhead();
  const phone = usePhone();
  const change = useCallback(
    (more: Search, replace = true) =>
      void navigate({ search: (before) => ({ ...before, ...more }), replace }),
    [navigate],
  );
  const shown = useMemo(() => shownRows(rows, search), [rows, search]);
  const close = useCallback(() => change({ call: undefined }), [change]);
  const open = search.call !== undefined && (
    <OpenCall
      key={search.call}
      callId={search.call}
      row={rows.find((row) => row.call_id === search.call)}
      ahead={ahead}
      onClose={close}
    />
  );
  if (phone && open) return <div className="flex h-full flex-col">{open}</div>;
  return (
    <Page
      title={words.title}
      fills
      aside={
        state === "live" && (
          <span className="text-muted">{words.count(shown.length, rows.length)}</span>
        )
      }
      actions={<DrainButton drain={drain} />}
    >
      <NewCalls rows={rows} />
      <DrainNote drain={drain} />
      {state === "stale" && (
        <div className="px-6 phone:px-4">
          <StaleNote since={since}>{known ? undefined : words.unreached}</StaleNote>
        </div>
      )}
      <Filters rows={rows} search={search} onChange={change} />
      <div className="flex min-h-0 flex-1 border-t border-line">
        <List
          rows={shown}
          none={rows.length === 0}
          connecting={state === "connecting"}
          unknown={state === "stale" && !known}
          ahead={ahead}
          open={search.call}
          onOpen={(call) => change({ call }, search.call !== undefined)}
        />
        {open}
      </div>
    </Page>
  );
}

/** Tells a screen reader of new calls, and of nothing else. */
function NewCalls({ rows }: { rows: readonly LiveRow[] }) {
  const known = useRef<Set<string>>(undefined);
  const [told, setTold] = useState("");
  useEffect(() => {
    const before = known.current;
    const fresh = before && rows.filter((row) => !before.has(row.call_id)).at(-1);
    if (rows.length > 0 || before) known.current = new Set(rows.map((row) => row.call_id));
    if (fresh) setTold(words.newCall(fresh.context));
  }, [rows]);
  return (
    <p role="status" className="sr-only">
      {told}
    </p>
  );
}

interface FiltersProps {
  rows: readonly LiveRow[];
  search: Search;
  onChange: (more: Search) => void;
}

const FIELDS = ["context", "state", "provider"] as const;

function Filters({ rows, search, onChange }: FiltersProps) {
  const any = FIELDS.some((field) => search[field]) || search.text || search.troubled;
  return (
    <div role="search" className="flex flex-wrap items-center gap-2 px-6 pb-2 phone:px-4">
      <LateInput
        type="search"
        aria-label={words.filter}
        placeholder={words.filter}
        className="max-w-64"
        value={search.text ?? ""}
        onValue={(text) => onChange({ text: text || undefined })}
      />
      {FIELDS.map((field) => (
        <FieldFilter key={field} field={field} rows={rows} search={search} onChange={onChange} />
      ))}
      <Button
        look={search.troubled ? "primary" : "plain"}
        aria-pressed={search.troubled ?? false}
        onClick={() => onChange({ troubled: search.troubled ? undefined : true })}
      >
        {words.troubled}
      </Button>
      <Select
        aria-label={words.order}
        className="w-44"
        value={search.order ?? "oldest"}
        options={ORDERS.map((value) => ({ value, label: words.orders[value] }))}
        onValue={(order) => onChange({ order: order === "oldest" ? undefined : order })}
      />
      {any && (
        <Button
          look="quiet"
          onClick={() =>
            onChange({
              text: undefined,
              troubled: undefined,
              context: undefined,
              state: undefined,
              provider: undefined,
            })
          }
        >
          {words.clear}
        </Button>
      )}
    </div>
  );
}

interface FieldFilterProps extends FiltersProps {
  field: (typeof FIELDS)[number];
}

function FieldFilter({ field, rows, search, onChange }: FieldFilterProps) {
  const chosen = search[field] ?? [];
  const name = words.filters[field];
  const toggle = (value: string) => {
    const after = chosen.includes(value)
      ? chosen.filter((each) => each !== value)
      : [...chosen, value];
    onChange({ [field]: after.length > 0 ? after : undefined });
  };
  return (
    <Menu
      align="start"
      trigger={
        <Button icon="filter">
          {chosen.length > 0 ? words.chosen(name, chosen.length) : name}
        </Button>
      }
      items={valuesOf(rows, field, chosen).map((value) => ({
        label: field === "state" ? (words.states[value] ?? value) : value,
        checked: chosen.includes(value),
        onSelect: () => toggle(value),
      }))}
    />
  );
}

interface ListProps {
  rows: readonly LiveRow[];
  /** True if there is no call at all, also none that the filters hide. */
  none: boolean;
  connecting: boolean;
  /** True if it is not known whether there are calls. */
  unknown: boolean;
  ahead: number;
  open: string | undefined;
  onOpen: (call: string) => void;
}

function List({ rows, none, connecting, unknown, ahead, open, onOpen }: ListProps) {
  const phone = usePhone();
  const room = phone ? "phone" : open === undefined ? "all" : "few";
  const nodes = useNodes().length > 1 || rows.some(({ node }) => node !== rows[0]?.node);
  const columns = useMemo(() => liveColumns(room, ahead, nodes), [room, ahead, nodes]);
  // The same function between renders: else each frame of the feed would render each row.
  const latest = useRef(onOpen);
  latest.current = onOpen;
  const openRow = useCallback((row: LiveRow) => latest.current(row.call_id), []);
  if (rows.length === 0) {
    return (
      <div className="flex-1 overflow-y-auto px-6">
        {connecting ? (
          <Loading />
        ) : unknown ? null : none ? (
          <NoCalls />
        ) : (
          <Empty icon="search" title={words.noMatch} />
        )}
      </div>
    );
  }
  return (
    <div className="flex min-h-0 min-w-0 flex-1 flex-col">
      <VirtualRows
        label={words.list}
        rows={rows}
        columns={columns}
        rowKey={keyOfRow}
        selected={open}
        onOpen={openRow}
      />
    </div>
  );
}

const keyOfRow = (row: LiveRow) => row.call_id;

function NoCalls() {
  return (
    <Empty icon="live" title={words.none}>
      <p>{words.noneHint}</p>
      <CodeBlock text="cordboard call --target 127.0.0.1:8090" />
      <LinkButton to="/calls" icon="calls">
        {words.history}
      </LinkButton>
    </Empty>
  );
}
