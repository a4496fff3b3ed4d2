// The picture as tables: every number of it, for screen readers and for those who like tables.
import { memo } from "react";

import { heardParts } from "../../conversation/heard.ts";
import { words } from "../../words/call.ts";
import { labelOf, rulerText } from "./draw.ts";
import type { Shown } from "./shown.ts";
import { type Shape, STAGES, type Turn, waitOf, waitsOf } from "./timeline.ts";

const CELL = "px-2 py-1 text-right align-top whitespace-nowrap first:pl-6";
const TEXT = "min-w-48 px-2 py-1 text-left align-top";
const LABEL = "px-2 py-1 align-bottom text-xs font-medium text-muted first:pl-6";
const HEAD = `${LABEL} text-right`;
const TEXT_HEAD = `${LABEL} text-left`;

/** Takes little of `Shown`, so that it is not rendered again as the address changes. */
export const CallTable = memo(function CallTable({ call, shapes }: Pick<Shown, "call" | "shapes">) {
  const events = shapes.filter(
    ({ lane }) => lane !== "caller" && lane !== "waited" && lane !== "agent",
  );
  return (
    <div>
      <table className="w-full border-collapse">
        <caption className="sr-only">{words.table.label}</caption>
        <thead>
          <tr className="border-b border-line">
            <th scope="col" className={HEAD}>
              {words.table.turn}
            </th>
            <Ends of={words.lanes.caller} />
            {STAGES.map((stage) => (
              <th key={stage} scope="col" className={HEAD}>
                {words.stages[stage]}
              </th>
            ))}
            <th scope="col" className={HEAD}>
              {words.table.total}
            </th>
            <Ends of={words.lanes.agent} />
            <th scope="col" className={TEXT_HEAD}>
              {words.turn.caller}
            </th>
            <th scope="col" className={TEXT_HEAD}>
              {words.table.heard}
            </th>
            <th scope="col" className={TEXT_HEAD}>
              {words.table.cut}
            </th>
          </tr>
        </thead>
        <tbody>
          {call.turns.map((turn) => (
            <TurnRow key={turn.number} turn={turn} />
          ))}
        </tbody>
      </table>
      {events.length > 0 && <Events events={events} />}
    </div>
  );
});

function Ends({ of }: { of: string }) {
  return (
    <>
      <th scope="col" className={HEAD}>
        {of} {words.table.from}
      </th>
      <th scope="col" className={HEAD}>
        {words.table.to}
      </th>
    </>
  );
}

function TurnRow({ turn }: { turn: Turn }) {
  const { caller, agent } = turn;
  const waits = new Map(waitsOf(turn).map((wait) => [wait.stage, wait.to - wait.from]));
  const parts = agent ? heardParts(agent.text, agent.heard, agent.cut) : [];
  const text = (heard: boolean) =>
    parts
      .filter((part) => part.heard === heard)
      .map((part) => part.text)
      .join(" … ");
  return (
    <tr className="border-b border-line last:border-0">
      <th scope="row" className={`${CELL} font-normal`}>
        {turn.number}
      </th>
      <td className={CELL}>{moment(caller?.begin_ms)}</td>
      <td className={CELL}>{moment(caller?.end_ms)}</td>
      {STAGES.map((stage) => (
        <td key={stage} className={CELL}>
          {waits.get(stage)}
        </td>
      ))}
      <td className={CELL}>{waitOf(turn)}</td>
      <td className={CELL}>{moment(agent?.begin_ms)}</td>
      <td className={CELL}>{moment(agent?.end_ms)}</td>
      <td className={TEXT}>{caller?.understood || caller?.text}</td>
      <td className={TEXT}>{text(true)}</td>
      <td className={TEXT}>{text(false)}</td>
    </tr>
  );
}

function moment(ms: number | null | undefined): string {
  return ms === null || ms === undefined ? "" : rulerText(ms, true);
}

function Events({ events }: { events: readonly Shape[] }) {
  return (
    <table className="mt-4 w-full border-collapse">
      <caption className="sr-only">{words.table.events}</caption>
      <thead>
        <tr className="border-b border-line">
          <th scope="col" className={HEAD}>
            {words.table.from}
          </th>
          <th scope="col" className={HEAD}>
            {words.table.to}
          </th>
          <th scope="col" className={TEXT_HEAD}>
            {words.table.lane}
          </th>
          <th scope="col" className={TEXT_HEAD}>
            {words.table.what}
          </th>
        </tr>
      </thead>
      <tbody>
        {events.map((shape, index) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: two events may be the same
          <tr key={index} className="border-b border-line last:border-0">
            <td className={CELL}>{moment(shape.from)}</td>
            <td className={CELL}>{moment(shape.to)}</td>
            <td className={TEXT}>{words.lanes[shape.lane]}</td>
            <td className={TEXT}>
              {labelOf(shape)}
              {shape.kind === "failed" && ` (${words.statuses.error})`}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
