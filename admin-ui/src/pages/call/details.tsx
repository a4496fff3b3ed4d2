// The pane beside the transcript: the chosen turn, tools, events, costs, configuration, notes, ledger.
import { memo } from "react";

import { useMay } from "../../app/session.ts";
import { Empty } from "../../parts/answer.tsx";
import { Badge } from "../../parts/badge.tsx";
import { type Column, DataTable } from "../../parts/table.tsx";
import { Tabs } from "../../parts/tabs.tsx";
import { Money } from "../../parts/time.tsx";
import { words } from "../../words/call.ts";
import type { Span } from "./axis.ts";
import { ConfigTab } from "./config-tab.tsx";
import { rulerText } from "./draw.ts";
import { LedgerTab } from "./ledger-tab.tsx";
import { NotesTab } from "./notes-tab.tsx";
import { TABS, type Tab } from "./search.ts";
import type { Shown } from "./shown.ts";
import type { Call, Mark } from "./timeline.ts";
import { ToolsTab } from "./tools-tab.tsx";
import { TurnTab } from "./turn-tab.tsx";

export interface DetailsProps {
  shown: Shown;
  onView: (view: Span) => void;
}

/** Not rendered again while the picture is zoomed. */
export const Details = memo(function Details({ shown, onView }: DetailsProps) {
  const { call, search, go } = shown;
  const personal = useMay("personal");
  const counts: Partial<Record<Tab, number>> = {
    tools: call.tools.length,
    events: call.marks.length,
    notes: call.notes.notes.length,
  };
  const tabs = TABS.filter((id) => id !== "ledger" || personal).map((id) => ({
    id,
    label: words.tabs[id],
    ...(counts[id] ? { aside: counts[id] } : {}),
  }));
  const current = search.tab ?? "turn";
  return (
    <Tabs
      label={words.tabs.label}
      tabs={tabs}
      current={current}
      onChange={(tab) => go({ tab: tab === "turn" ? undefined : tab })}
    >
      {current === "turn" && <TurnTab shown={shown} onView={onView} />}
      {current === "tools" && <ToolsTab shown={shown} />}
      {current === "events" && <EventsTab shown={shown} />}
      {current === "cost" && <CostTab call={call} />}
      {current === "config" && <ConfigTab call={call} />}
      {/* Not taken away: what is being written there outlives a look at another tab. */}
      <div hidden={current !== "notes"}>
        <NotesTab shown={shown} />
      </div>
      {current === "ledger" && <LedgerTab shown={shown} />}
    </Tabs>
  );
});

function EventsTab({ shown: { call, player } }: { shown: Shown }) {
  const columns: Column<Mark>[] = [
    {
      id: "time",
      head: words.events.time,
      width: "4rem",
      cell: (mark) => (
        <button
          type="button"
          aria-label={words.transcript.jump(rulerText(mark.at_ms, false))}
          className="min-h-6 rounded font-mono text-xs text-accent hover:underline"
          onClick={() => player.seek(mark.at_ms)}
        >
          {rulerText(mark.at_ms, false)}
        </button>
      ),
    },
    {
      id: "kind",
      head: words.events.kind,
      cell: (mark) =>
        mark.kind === "trouble" || mark.kind === "gap" ? (
          <Badge tone="bad">{words.marks[mark.kind]}</Badge>
        ) : (
          (words.marks[mark.kind] ?? mark.kind)
        ),
    },
    { id: "text", head: words.events.text, cell: (mark) => mark.text },
  ];
  return (
    <>
      <DataTable
        label={words.events.label}
        rows={call.marks}
        columns={columns}
        rowKey={(mark) => `${mark.kind}/${mark.at_ms}/${mark.until_ms}`}
        empty={<Empty title={words.events.none} />}
      />
      {call.troubles.length > 0 && (
        <>
          <h2 className="mt-4 mb-1 px-4">{words.events.troubles}</h2>
          <ul className="grid gap-1 px-4">
            {call.troubles.map((trouble, index) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: two problems may have the same words
              <li key={index} className="break-words text-bad">
                {trouble}
              </li>
            ))}
          </ul>
        </>
      )}
    </>
  );
}

type Used = Call["used"][number];

const number = new Intl.NumberFormat();

const COSTS: readonly Column<Used>[] = [
  {
    id: "part",
    head: words.cost.part,
    cell: ({ provider, model }) => (
      <>
        {provider}
        {model && <span className="block text-xs text-muted">{model}</span>}
      </>
    ),
  },
  {
    id: "amounts",
    head: words.cost.amounts,
    cell: ({ amounts }) =>
      Object.entries(amounts).map(([unit, amount]) => (
        <span key={unit} className="block">
          {number.format(amount)} <span className="text-muted">{unit.replaceAll("_", " ")}</span>
        </span>
      )),
  },
  {
    id: "cost",
    head: words.cost.cost,
    align: "end",
    cell: ({ cost, currency }) =>
      cost === null ? (
        <span className="text-muted">{words.cost.unknown}</span>
      ) : (
        <Money amount={cost} currency={currency} />
      ),
  },
];

function CostTab({ call: { used, row } }: { call: Call }) {
  return (
    <>
      <DataTable
        label={words.cost.label}
        rows={used}
        columns={COSTS}
        rowKey={({ provider, model, currency }) => `${provider}/${model}/${currency}`}
        empty={<Empty title={words.cost.none} />}
      />
      {row.cost !== null && row.cost !== undefined && (
        <p className="mt-2 flex justify-between px-4 font-medium">
          {words.cost.total} <Money amount={row.cost} currency={row.currency ?? ""} />
        </p>
      )}
    </>
  );
}
