// How the values of a call look in the list.
import type { ReactNode } from "react";

import type { Schema } from "../../app/api.ts";
import { Badge, StatusDot, type Tone } from "../../parts/badge.tsx";
import { Icon } from "../../parts/icons.tsx";
import type { Column as TableColumn } from "../../parts/table.tsx";
import { Duration, Money } from "../../parts/time.tsx";
import { words } from "../../words/calls.ts";
import { type Column, isNumber, phoneColumns, trackOf } from "./columns.ts";

export type CallRow = Schema<"CallRow">;

/** Digits of a configuration's digest that people compare. */
export const SHORT_DIGEST = 6;

/** The columns of the list, in the page's order. */
export function tableColumns(columns: readonly Column[], phone: boolean): TableColumn<CallRow>[] {
  return (phone ? phoneColumns(columns) : columns).map((name) => ({
    id: name,
    head: words.columns[name],
    cell: CELLS[name],
    width: trackOf(name, phone),
    align: isNumber(name) ? "end" : "start",
  }));
}

const ofToday = new Intl.DateTimeFormat(undefined, { timeStyle: "short" });
const ofThisYear = new Intl.DateTimeFormat(undefined, {
  month: "short",
  day: "numeric",
  hour: "numeric",
  minute: "2-digit",
});
const older = new Intl.DateTimeFormat(undefined, { dateStyle: "medium" });
const full = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "long" });

/** When a call began, as short as it can be told; the tooltip has the second and the zone. */
function Began({ at, now }: { at: Date; now: Date }) {
  const today = at.toDateString() === now.toDateString();
  const shape = today ? ofToday : at.getFullYear() === now.getFullYear() ? ofThisYear : older;
  return (
    <time dateTime={at.toISOString()} title={full.format(at)}>
      {shape.format(at)}
    </time>
  );
}

export const callerOf = (row: CallRow): string =>
  row.caller_name || row.caller_number || words.unknownCaller;

const TONES: Record<string, Tone> = {
  completed: "good",
  transferred: "accent",
  failed: "bad",
  killed: "bad",
  shutdown: "warn",
  refused: "warn",
};

/** Why a call ended, as people read it: `transfer:sales` is "to sales". */
export function reasonText(reason: string): string {
  const [, to] = /^transfer:(.*)/.exec(reason) ?? [];
  return to ? words.transferredTo(to) : reason.replaceAll("_", " ");
}

/** Marks a call that the engine placed. */
function Outgoing() {
  return (
    <span className="ml-1.5 inline-block align-text-bottom text-accent" title={words.outgoing}>
      <Icon name="outbound" size={14} />
      <span className="sr-only">{words.outgoing}</span>
    </span>
  );
}

/** How a call ended, and why. */
export function Outcome({ outcome, reason }: { outcome: string; reason: string }) {
  return (
    <span className="flex items-center gap-1.5 truncate">
      <StatusDot tone={TONES[outcome] ?? "neutral"} />
      <span>{words.outcomes[outcome] ?? outcome}</span>
      {reason && <span className="truncate text-muted phone:hidden">{reasonText(reason)}</span>}
    </span>
  );
}

const yesOrNo = (value: boolean) =>
  value ? words.yes : <span className="text-muted">{words.no}</span>;

const CELLS: Record<Column, (row: CallRow) => ReactNode> = {
  started_at: (row) => (
    // A plain link: the router's own would cost more than the rest of the row while it scrolls.
    <a
      href={`/calls/${encodeURIComponent(row.id)}`}
      tabIndex={-1}
      className="hover:underline"
      onClick={(event) => {
        if (event.ctrlKey || event.metaKey || event.shiftKey) event.stopPropagation();
        else event.preventDefault(); // the row opens it
      }}
    >
      <Began at={new Date(row.started_ms)} now={new Date()} />
    </a>
  ),
  caller_number: (row) => (
    <>
      {row.caller_number || <span className="text-muted">{words.unknownCaller}</span>}
      {row.caller_name && <span className="text-muted"> {row.caller_name}</span>}
      {row.direction === "out" && <Outgoing />}
    </>
  ),
  called_number: (row) => row.called_number,
  context: (row) => row.context,
  outcome: (row) => <Outcome outcome={row.outcome} reason={row.reason} />,
  duration_ms: (row) => <Duration ms={row.duration_ms} clock />,
  waited_ms: (row) => <Duration ms={row.waited_ms} />,
  turns: (row) => row.turns,
  interruptions: (row) => row.interruptions || <span className="text-muted">0</span>,
  tools: (row) => <Tools row={row} />,
  troubles: (row) => (
    <span className="flex gap-1 overflow-hidden">
      {row.troubles.map((each) => (
        <Badge key={each} tone="warn">
          {each}
        </Badge>
      ))}
    </span>
  ),
  cost: (row) => <Money amount={row.cost} currency={row.currency} />,
  recorded: (row) => yesOrNo(row.recorded),
  review: (row) =>
    row.review && (
      <Badge tone={row.review === "good" ? "good" : "bad"}>
        {words.reviews[row.review] ?? row.review}
      </Badge>
    ),
  tags: (row) => row.tags.join(", "),
  provider: (row) => row.provider,
  source: (row) => row.source,
  direction: (row) => words.directions[row.direction ?? ""] ?? row.direction,
  config: (row) => (
    <code className="font-mono text-xs" title={row.config}>
      {row.config.slice(0, SHORT_DIGEST)}
    </code>
  ),
  node: (row) => row.node,
};

/** The tools that were used; those that failed are first, and say so. */
function Tools({ row }: { row: CallRow }) {
  const fine = row.tools.filter((tool) => !row.tools_failed.includes(tool));
  return (
    <>
      {row.tools_failed.map((tool) => (
        <span key={tool} className="mr-1.5 text-bad">
          {tool} {words.toolFailed}
        </span>
      ))}
      {[...new Set(fine)].join(", ")}
    </>
  );
}
