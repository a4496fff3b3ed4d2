// The values of the chart as a table: each leads to its calls.
import { Link } from "@tanstack/react-router";
import { useState } from "react";

import { Button } from "../../parts/button.tsx";
import { words } from "../../words/insights.ts";
import { search as callsSearch } from "../calls/search.ts";
import { valueText } from "./measures.ts";
import type { Step } from "./period.ts";
import { type Answer, callsBehind, type Line } from "./series.ts";
import { pointText } from "./time-axis.ts";

interface ValuesTableProps {
  title: string;
  answer: Answer;
  seconds: readonly number[];
  step: Step;
  lines: readonly Line[];
  earlier: readonly (Line | null)[];
}

const FIRST_ROWS = 31;

export function ValuesTable({ title, answer, seconds, step, lines, earlier }: ValuesTableProps) {
  const [all, setAll] = useState(false);
  const points = [...seconds.keys()].reverse();
  const shown = all ? points : points.slice(0, FIRST_ROWS);
  return (
    <>
      <section aria-label={title} tabIndex={0} className="overflow-x-auto">
        <table className="w-full border-collapse text-left">
          <caption className="sr-only">{title}</caption>
          <thead>
            <tr className="border-b border-line text-xs text-muted">
              <th scope="col" className="h-8 pr-3 font-medium">
                {words.time}
              </th>
              {lines.map((line) => (
                <th
                  key={line.id}
                  scope="col"
                  className="px-3 text-right font-medium whitespace-nowrap"
                >
                  {line.label || title}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {shown.map((point) => (
              <tr key={point} className="border-b border-line last:border-0 hover:bg-hover">
                <th scope="row" className="py-1 pr-3 font-normal whitespace-nowrap">
                  {pointText(seconds[point] ?? 0, step)}
                </th>
                {lines.map((line, number) => (
                  <td key={line.id} className="px-3 text-right whitespace-nowrap">
                    <Value answer={answer} line={line} point={point} />
                    {earlier[number] && (
                      <span className="ml-2 text-xs text-muted">
                        {words.before} {valueText(earlier[number].values[point], line.unit)}
                      </span>
                    )}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </section>
      {shown.length < points.length && (
        <Button look="quiet" small className="mt-2" onClick={() => setAll(true)}>
          {words.more(points.length - shown.length)}
        </Button>
      )}
    </>
  );
}

function Value({ answer, line, point }: { answer: Answer; line: Line; point: number }) {
  const value = line.values[point];
  const text = valueText(value, line.unit);
  if (value === null || value === undefined || !line.samples[point]) {
    return <span className="text-muted">{text}</span>;
  }
  return (
    <Link
      to="/calls"
      search={callsSearch(callsBehind(answer, line, point))}
      title={words.samples(line.samples[point])}
      className="inline-block min-h-6 leading-6 underline decoration-line underline-offset-4 hover:decoration-current"
    >
      {text}
    </Link>
  );
}
