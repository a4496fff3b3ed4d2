// How a live call looks in the list.
import type { ReactNode } from "react";

import { Badge, StatusDot, type Tone } from "../../parts/badge.tsx";
import { cx } from "../../parts/cx.ts";
import { Icon, type IconName } from "../../parts/icons.tsx";
import type { Column } from "../../parts/table.tsx";
import { durationText, Money } from "../../parts/time.tsx";
import { words } from "../../words/live.ts";
import { Elapsed } from "./elapsed.tsx";
import { type LiveRow, lastWords, toolsOf } from "./rows.ts";

type ColumnName = keyof typeof words.columns;

const WIDTHS: Record<ColumnName, string> = {
  state: "8.5rem",
  caller: "minmax(8.5rem, 0.8fr)",
  node: "5rem",
  context: "minmax(4.75rem, 0.5fr)",
  words: "minmax(9rem, 4fr)",
  waiting: "5rem",
  answers: "7rem",
  tools: "minmax(6.5rem, 0.8fr)",
  cost: "5.5rem",
  marks: "6rem",
  duration: "4.75rem",
  config: "5.25rem",
};
/** Where only a few columns are shown; the last one has the edge of the list beside it. */
const NARROW: Partial<Record<ColumnName, string>> = {
  caller: "minmax(0, 1fr)",
  words: "minmax(0, 3fr)",
  duration: "5.75rem",
};
const NUMBERS: readonly ColumnName[] = ["waiting", "answers", "cost", "duration"];

/** Beside an open call there is room for these. */
const FEW: readonly ColumnName[] = ["state", "caller", "context", "words", "waiting", "duration"];
const ON_A_PHONE: readonly ColumnName[] = ["state", "caller", "waiting"];

/** The columns; `ahead`: of the engine's clock, in ms; `nodes`: the calls are of several. */
export function liveColumns(
  room: "all" | "few" | "phone",
  ahead: number,
  nodes = false,
): Column<LiveRow>[] {
  const all = (Object.keys(WIDTHS) as ColumnName[]).filter((name) => nodes || name !== "node");
  const names = room === "all" ? all : room === "few" ? FEW : ON_A_PHONE;
  return names.map((name) => ({
    id: name,
    head: words.columns[name],
    cell: (row) => CELLS[name](row, ahead),
    width: (room === "all" ? undefined : NARROW[name]) ?? WIDTHS[name],
    align: NUMBERS.includes(name) ? "end" : "start",
  }));
}

const TONES: Record<string, Tone> = {
  listening: "neutral",
  thinking: "accent",
  tool: "accent",
  speaking: "good",
  greeting: "good",
  held: "warn",
  on_hold: "warn",
  transferring: "warn",
};

export function State({ row }: { row: LiveRow }) {
  if (row.unknown_since) {
    const text = words.unknownSince(new Date(row.unknown_since).toLocaleTimeString());
    return (
      <span className="flex items-center gap-1.5 text-warn" title={text}>
        <StatusDot tone="warn" />
        {words.unknown}
        <span className="sr-only">{text}</span>
      </span>
    );
  }
  const speaks = row.speaking === "caller" && row.state === "listening";
  return (
    <span className="flex items-center gap-1.5">
      <StatusDot tone={TONES[row.state] ?? "neutral"} />
      {speaks ? words.callerSpeaks : (words.states[row.state] ?? row.state)}
    </span>
  );
}

export const callerOf = (row: LiveRow): string =>
  row.caller_name || row.caller_number || words.unknownCaller;

const CELLS: Record<ColumnName, (row: LiveRow, ahead: number) => ReactNode> = {
  state: (row) => <State row={row} />,
  caller: (row) => (
    <>
      {row.caller_number || <span className="text-muted">{words.unknownCaller}</span>}
      {row.caller_name && <span className="text-muted"> {row.caller_name}</span>}
    </>
  ),
  node: (row) => row.node,
  context: (row) => row.context,
  words: (row) => <LastWords row={row} />,
  waiting: (row, ahead) =>
    row.waiting_since_ms !== null && (
      <Elapsed
        since={Date.parse(row.started_at) + row.waiting_since_ms}
        ahead={ahead}
        shape="seconds"
        className="font-medium text-warn"
      />
    ),
  answers: ({ latency }) =>
    latency && (
      <>
        {durationText(latency.last_ms ?? 0)}
        <span className="text-muted">, {durationText(latency.p50_ms ?? 0)}</span>
      </>
    ),
  tools: (row) => <Tools row={row} />,
  cost: ({ cost }) => <Money amount={cost?.amount} currency={cost?.currency ?? ""} />,
  marks: (row) => <Marks row={row} />,
  duration: (row, ahead) => (
    <Elapsed since={Date.parse(row.started_at)} ahead={ahead} shape="clock" />
  ),
  config: (row) => (
    <code className="font-mono text-xs" title={row.config}>
      {row.config.slice(0, 6)}
    </code>
  ),
};

function LastWords({ row }: { row: LiveRow }) {
  const last = lastWords(row);
  if (last === null) return null;
  return (
    <>
      <span className={cx("font-medium", last.who === "caller" ? "text-caller" : "text-agent")}>
        {words.sides[last.who] ?? last.who}
      </span>{" "}
      {last.text || <span className="text-muted">{words.hidden}</span>}
    </>
  );
}

function Tools({ row }: { row: LiveRow }) {
  const { running, calls, failed } = toolsOf(row);
  if (running.length > 0) return <span className="text-tool">{running.join(", ")}</span>;
  if (calls === 0) return null;
  return (
    <span className="text-muted">
      {words.toolCalls(calls)}
      {failed > 0 && <span className="text-bad">, {words.toolsFailed(failed)}</span>}
    </span>
  );
}

/** What else is true of the call: each is an icon with its words, or a badge. */
export function Marks({ row }: { row: LiveRow }) {
  const recording = words.recordings[row.recording];
  return (
    <span className="flex items-center gap-1.5">
      {recording && (
        <Mark
          icon={row.recording === "on" ? "record" : "pause"}
          text={recording}
          className={row.recording === "on" ? "text-bad" : "text-muted"}
        />
      )}
      {row.listened > 0 && (
        <Mark icon="headphones" text={words.marks.listened(row.listened)} className="text-accent" />
      )}
      {row.watched > 0 && (
        <Mark icon="eye" text={words.marks.watched(row.watched)} className="text-muted" />
      )}
      {row.troubles > 0 && (
        <Mark icon="warning" text={words.marks.troubles(row.troubles)} className="text-warn" />
      )}
      {row.direction === "out" && (
        <Mark icon="outbound" text={words.marks.outgoing} className="text-accent" />
      )}
      {row.test && <Badge>{words.marks.test}</Badge>}
    </span>
  );
}

function Mark({ icon, text, className }: { icon: IconName; text: string; className: string }) {
  return (
    <span className={className} title={text}>
      <Icon name={icon} size={14} />
      <span className="sr-only">{text}</span>
    </span>
  );
}
