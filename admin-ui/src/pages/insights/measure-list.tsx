// All measures with their value of the whole period; one of them is shown in the chart.
import { Link } from "@tanstack/react-router";

import type { Answered } from "../../app/api.ts";
import { cx } from "../../parts/cx.ts";
import { words } from "../../words/insights.ts";
import {
  type Change,
  changeOf,
  GROUPS,
  type Group,
  type MeasureName,
  valueText,
} from "./measures.ts";
import type { Search } from "./search.ts";
import { headline } from "./series.ts";

export type Totals = Answered<"/api/v1/analytics">;

interface MeasureListProps {
  search: Search;
  current: MeasureName;
  totals: Totals | undefined;
  /** Of the period before, if it is compared. */
  earlier: Totals | undefined;
}

const GROUP_NAMES = Object.keys(GROUPS) as Group[]; // the keys are those of the type

export function MeasureList({ search, current, totals, earlier }: MeasureListProps) {
  const [now, then] = [byName(totals), byName(earlier)];
  return (
    <nav aria-label={words.measureList} className="grid min-w-0 content-start gap-3 phone:hidden">
      {GROUP_NAMES.map((group) => (
        <div key={group} className="min-w-0">
          <h2 className="px-2 pb-0.5 text-xs font-medium text-muted">{words.groups[group]}</h2>
          {GROUPS[group].map((measure) => {
            const value = now.get(measure);
            const change =
              value && changeOf(measure, value.unit, value.value, then.get(measure)?.value);
            return (
              <Link
                key={measure}
                to="/insights"
                search={{
                  ...search,
                  measure,
                  by: kept(search.by) ?? KEYED[measure],
                  hidden: undefined,
                  stat: undefined,
                }}
                aria-current={measure === current ? "true" : undefined}
                className={cx(
                  "flex min-h-7 items-baseline gap-2 rounded-md px-2 py-0.5",
                  measure === current ? "bg-selected font-medium" : "hover:bg-hover",
                )}
              >
                <span className="min-w-0 truncate">{words.measures[measure]}</span>
                <span className="ml-auto whitespace-nowrap">
                  {value ? valueText(value.value, value.unit) : ""}
                </span>
                {earlier && (
                  <span className="w-14 shrink-0 text-right">
                    {change && <ChangeText change={change} />}
                  </span>
                )}
              </Link>
            );
          })}
        </div>
      ))}
    </nav>
  );
}

/** Measures whose sum says little: they begin with a line for each key. */
const KEYED: Partial<Record<MeasureName, string>> = {
  outcomes: "outcome",
  refused: "reason",
  transfers: "destination",
  pauses: "cause",
  silences: "of",
  troubles: "part",
};

const SHARED = ["context", "provider", "version", "kind"];

/** What every measure can be separated by stays; keys such as tools do not. */
export const kept = (by: string | undefined) =>
  by !== undefined && SHARED.includes(by) ? by : undefined;

const TONES: Record<Change["tone"], string> = {
  good: "text-good",
  bad: "text-bad",
  neutral: "text-muted",
};

export function ChangeText({ change }: { change: Change }) {
  return <span className={cx("text-xs whitespace-nowrap", TONES[change.tone])}>{change.text}</span>;
}

function byName(totals: Totals | undefined) {
  return new Map(totals?.measures.map((each) => [each.measure as MeasureName, headline(each)]));
}
