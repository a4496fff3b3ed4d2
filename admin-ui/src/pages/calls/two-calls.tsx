// Two calls side by side, by their numbers.
import { Link } from "@tanstack/react-router";

import { type Schema, useGet } from "../../app/api.ts";
import { Answer } from "../../parts/answer.tsx";
import { Button } from "../../parts/button.tsx";
import { Page } from "../../parts/page.tsx";
import { durationText, moneyText, Time } from "../../parts/time.tsx";
import { words } from "../../words/calls.ts";
import { callerOf, SHORT_DIGEST } from "./cells.tsx";
import { type Compared, compared, difference } from "./comparison.ts";

export interface TwoCallsProps {
  ids: [string, string];
  onSwap: () => void;
  onBack: () => void;
}

const useCall = (call_id: string) => useGet("/api/v1/calls/{call_id}", { path: { call_id } });

export function TwoCalls({ ids, onSwap, onBack }: TwoCallsProps) {
  const one = useCall(ids[0]);
  const other = useCall(ids[1]);
  return (
    <Page
      title={words.comparison.title}
      actions={
        <>
          <Button onClick={onSwap} icon="transfer">
            {words.comparison.swap}
          </Button>
          <Button onClick={onBack} icon="left">
            {words.comparison.back}
          </Button>
        </>
      }
    >
      <Answer query={one}>
        {(first) => (
          <Answer query={other}>
            {(second) => <Numbers one={first.call} other={second.call} />}
          </Answer>
        )}
      </Answer>
    </Page>
  );
}

type CallRecord = Schema<"CallRecord">;

function Numbers({ one, other }: { one: CallRecord; other: CallRecord }) {
  const currencies = [one.row.currency, other.row.currency] as const;
  // Two currencies have no difference.
  const currency = currencies[0] === currencies[1] ? currencies[0] : undefined;
  return (
    <section
      aria-label={words.comparison.title}
      tabIndex={0}
      className="max-w-5xl overflow-x-auto rounded-lg border border-line bg-raised"
    >
      <table className="w-full border-collapse">
        <thead>
          <tr className="border-b border-line align-top">
            <th scope="col" className="px-4 py-2 text-left font-medium text-muted">
              {words.comparison.measure}
            </th>
            <Head title={words.comparison.first} row={one.row} />
            <Head title={words.comparison.second} row={other.row} />
            <th scope="col" className="px-4 py-2 text-right font-medium text-muted">
              {words.comparison.difference}
            </th>
          </tr>
        </thead>
        <tbody>
          {compared(one, other).map((row) => (
            <tr key={row.measure} className="border-b border-line last:border-0 hover:bg-hover">
              <th scope="row" className="px-4 py-1.5 text-left font-normal text-muted">
                {words.measures[row.measure]}
              </th>
              <td className="px-4 py-1.5 text-right">{shown(row, row.one, currencies[0])}</td>
              <td className="px-4 py-1.5 text-right">{shown(row, row.other, currencies[1])}</td>
              <td className="px-4 py-1.5 text-right">{differenceText(row, currency)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

function Head({ title, row }: { title: string; row: CallRecord["row"] }) {
  return (
    <th scope="col" className="px-4 py-2 text-right font-normal">
      <span className="block text-xs text-muted">{title}</span>
      <Link
        to="/calls/$callId"
        params={{ callId: row.id }}
        className="font-medium text-accent hover:underline"
      >
        {callerOf(row)}
      </Link>
      <span className="block text-muted">
        <Time at={row.started_at} />
      </span>
    </th>
  );
}

function shown(row: Compared, value: string | number | null, currency: string): string {
  if (value === null || value === "") return words.comparison.none;
  if (row.measure === "config") return String(value).slice(0, SHORT_DIGEST);
  if (row.kind === "ms") return durationText(Number(value));
  if (row.kind === "money") return moneyText(value, currency);
  return String(value).replaceAll("_", " ");
}

function differenceText(row: Compared, currency: string | undefined): string {
  const more = difference(row);
  if (more === null || more === 0) return "";
  if (currency === undefined && row.kind === "money") return "";
  const sign = more > 0 ? "+" : "−";
  return sign + shown(row, Math.abs(more), currency ?? "");
}
