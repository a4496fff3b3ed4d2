import { getRouteApi, Link } from "@tanstack/react-router";
import { useMemo } from "react";

import { type Answered, Refused, useGet } from "../../app/api.ts";
import { Answer, Empty, Skeleton } from "../../parts/answer.tsx";
import { CodeBlock } from "../../parts/code.tsx";
import { Select } from "../../parts/field.tsx";
import { Page, Section } from "../../parts/page.tsx";
import { useNow } from "../../parts/time.tsx";
import { words } from "../../words/insights.ts";
import { search as callsSearch } from "../calls/search.ts";
import { Chart } from "./chart.tsx";
import { strokeOf } from "./chart-colours.ts";
import { Filters, LineControls, PeriodControls, shortName } from "./controls.tsx";
import { ChangeText, kept, MeasureList } from "./measure-list.tsx";
import { changeOf, MEASURES, type MeasureName, type Stat, valueText } from "./measures.ts";
import { before, dateText, type Period, periodOf, type Step, stepOf } from "./period.ts";
import type { Search } from "./search.ts";
import {
  callsBehind,
  hasStats,
  type Line,
  linesBefore,
  linesOf,
  type Publish,
  publishesIn,
  secondsOf,
} from "./series.ts";
import { useDark } from "./use-dark.ts";
import { ValuesTable } from "./values-table.tsx";

const route = getRouteApi("/insights");
const FRESH_MS = 60_000;
const OPTIONS = { staleTime: FRESH_MS, keepPrevious: true };

export default function InsightsPage() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const change = (some: Search) => void navigate({ search: (old) => ({ ...old, ...some }) });
  const measure = search.measure ?? "calls";
  const period = usePeriod(search);
  const query = { ...filtersOf(search), from: period.from, to: period.to };
  const totals = useGet("/api/v1/analytics", { query }, OPTIONS);
  const past = before(period);
  const earlier = useGet(
    "/api/v1/analytics",
    { query: { ...query, from: past.from, to: past.to } },
    { ...OPTIONS, enabled: search.compare === true },
  );
  if (totals.error instanceof Refused && totals.error.refusal.code === "no_index") {
    return (
      <Page title={words.title}>
        <Empty title={words.noIndex}>
          <p>{words.noIndexHint}</p>
          <CodeBlock text={words.noIndexFile} />
        </Empty>
      </Page>
    );
  }
  return (
    <Page
      title={words.title}
      actions={<PeriodControls search={search} period={period} onChange={change} />}
    >
      <Filters search={search} onChange={change} />
      <div className="grid grid-cols-[17rem_minmax(0,1fr)] gap-6 phone:grid-cols-1">
        <MeasureList
          search={search}
          current={measure}
          totals={totals.data}
          earlier={search.compare ? earlier.data : undefined}
        />
        <div className="min-w-0">
          <PhoneMeasures current={measure} onChange={change} by={search.by} />
          <Measure
            key={measure}
            measure={measure}
            search={search}
            period={period}
            onChange={change}
          />
        </div>
      </div>
    </Page>
  );
}

/** The period of the address; it moves on with the hour, not with each rendering. */
function usePeriod(search: Search): Period {
  const hour = Math.floor(useNow(60_000) / 3_600_000);
  const { range, from, to } = search;
  return useMemo(() => {
    const now = new Date();
    return periodOf({ range, from, to }, hour > 0 ? now : new Date(0));
  }, [range, from, to, hour]);
}

function PhoneMeasures(props: {
  current: MeasureName;
  by: string | undefined;
  onChange: (change: Search) => void;
}) {
  return (
    <Select
      className="mb-3 hidden phone:block"
      aria-label={words.measure}
      value={props.current}
      onValue={(measure) =>
        props.onChange({ measure, by: kept(props.by), hidden: undefined, stat: undefined })
      }
      options={MEASURES.map((each) => ({ value: each, label: words.measures[each] }))}
    />
  );
}

/** The filters that the engine takes. */
function filtersOf({ context, provider, version, tests }: Search) {
  return {
    context: context?.join(",") ?? "",
    provider: provider?.join(",") ?? "",
    version: version?.join(",") ?? "",
    kind: tests ? "call,chat,test" : "",
  };
}

interface MeasureProps {
  measure: MeasureName;
  search: Search;
  period: Period;
  onChange: (change: Search) => void;
}

function Measure({ measure, search, period, onChange }: MeasureProps) {
  const step = stepOf(search.step, period);
  const filters = { ...filtersOf(search), by: search.by ?? "" };
  const asked = (of: Period, by: Step | "whole") => ({
    path: { measure },
    query: { ...filters, from: of.from, to: of.to, step: by },
  });
  const PATH = "/api/v1/analytics/{measure}";
  const past = before(period);
  const comparing = { ...OPTIONS, enabled: search.compare === true };
  const series = useGet(PATH, asked(period, step), OPTIONS);
  const whole = useGet(PATH, asked(period, "whole"), OPTIONS);
  const pastSeries = useGet(PATH, asked(past, step), comparing);
  const pastWhole = useGet(PATH, asked(past, "whole"), comparing);
  const compared = search.compare === true;
  return (
    <Answer query={series} skeleton={<Skeleton lines={12} />}>
      {(answer) => (
        <Shown
          {...{ measure, search, period, onChange, step, answer }}
          whole={whole.data}
          pastAnswer={compared ? pastSeries.data : undefined}
          pastWhole={compared ? pastWhole.data : undefined}
        />
      )}
    </Answer>
  );
}

type SeriesAnswer = Answered<"/api/v1/analytics/{measure}">;

interface ShownProps extends MeasureProps {
  step: Step;
  answer: SeriesAnswer;
  whole: SeriesAnswer | undefined;
  pastAnswer: SeriesAnswer | undefined;
  pastWhole: SeriesAnswer | undefined;
}

function Shown(props: ShownProps) {
  const { measure, search, period, step, answer, pastAnswer, onChange } = props;
  const navigate = route.useNavigate();
  const all = useMemo(() => named(linesOf(answer, search.stat), search.by), [answer, search]);
  const seconds = useMemo(() => secondsOf(answer, step === "hour"), [answer, step]);
  const end = Date.parse(answer.t.at(-1) ?? "") / 1_000;
  const publishes = usePublishes(seconds[0] ?? 0, end);
  const { lines, places, earlier } = useMemo(() => {
    const kept = [...all.keys()].filter((at) => !search.hidden?.includes(all[at]?.id ?? ""));
    const lines = kept.flatMap((at) => all[at] ?? []);
    const past = pastAnswer ? linesBefore(lines, linesOf(pastAnswer, search.stat)) : [];
    return { lines, places: kept, earlier: past };
  }, [all, search, pastAnswer]);
  const title = words.titleOf(measure);
  const empty = !all.some((line) => line.samples.some(Boolean));
  return (
    <Section
      title={title}
      actions={
        <LineControls
          {...{ search, period, step, onChange }}
          bys={answer.by}
          stats={hasStats(answer)}
        />
      }
    >
      <p className="mb-3 max-w-prose text-muted">{answer.about}</p>
      {empty ? (
        <Empty icon="insights" title={words.empty}>
          {words.emptyHint}
        </Empty>
      ) : (
        <>
          <Legend {...props} lines={all} />
          <Chart
            {...{ title, seconds, end, step, lines, earlier, places, publishes }}
            bars={all.length === 1 && all[0]?.stat === null && lines[0]?.unit !== "share"}
            onOpen={(line, point) =>
              void navigate({ to: "/calls", search: callsSearch(callsBehind(answer, line, point)) })
            }
            onZoom={(from, to) => onChange(zoomed(from, to, step))}
          />
          <p className="mt-1 mb-4 text-xs text-muted phone:hidden">{words.keys}</p>
          {answer.left_out > 0 && <p className="mb-2 text-warn">{words.fewer(answer.left_out)}</p>}
          <Publishes publishes={publishes} />
          <h3 className="mb-1">{words.table}</h3>
          <ValuesTable {...{ title, answer, seconds, step, lines, earlier }} />
        </>
      )}
    </Section>
  );
}

const named = (lines: Line[], by: string | undefined) =>
  lines.map((line) => ({ ...line, label: shortName(by, line.label) }));

const DAY_S = 86_400;

/** The period that was marked: hours while it is short, else whole days. */
function zoomed(from: number, to: number, step: Step): Search {
  const hours = step === "hour" || to - from < 2 * DAY_S;
  const text = (at: number) => {
    const moment = new Date(at * 1_000);
    return hours ? moment.toISOString() : dateText(moment);
  };
  return { range: undefined, from: text(from), to: text(to), step: undefined };
}

/** The versions of the configuration that came into force meanwhile, for those who may read it. */
function usePublishes(from: number, end: number): readonly Publish[] {
  const versions = useGet("/api/v1/config/versions", { query: { limit: 100 } }, OPTIONS);
  const known = versions.data?.versions;
  return useMemo(() => publishesIn(known ?? [], from, end), [known, from, end]);
}

function Publishes({ publishes }: { publishes: readonly Publish[] }) {
  if (publishes.length === 0) return null;
  return (
    <div className="mb-4">
      <h3 className="mb-1">{words.publish}</h3>
      <ul className="text-muted">
        {publishes.map((each) => (
          <li key={each.at}>
            <time dateTime={new Date(each.at * 1_000).toISOString()}>
              {new Date(each.at * 1_000).toLocaleString()}
            </time>{" "}
            <Link
              to="/contexts"
              search={{
                tab: "versions",
                ...(each.parent ? { from: each.parent, to: each.version } : { from: each.version }),
              }}
              className="inline-block min-h-6 leading-6 text-accent hover:underline"
            >
              {words.publishOf(each.version, each.who, each.why)}
            </Link>
          </li>
        ))}
      </ul>
    </div>
  );
}

const wholeValues = (answer: SeriesAnswer | undefined, stat: Stat | undefined) =>
  new Map((answer ? linesOf(answer, stat) : []).map((line) => [line.id, line.values[0]]));

/** The lines with their value of the whole period; a click hides one. */
function Legend(props: ShownProps & { lines: readonly Line[] }) {
  const { measure, search, lines, whole, pastWhole, onChange } = props;
  const dark = useDark();
  const values = wholeValues(whole, search.stat);
  const past = wholeValues(pastWhole, search.stat);
  const hidden = search.hidden ?? [];
  const toggle = (id: string) => {
    const next = hidden.includes(id) ? hidden.filter((each) => each !== id) : [...hidden, id];
    onChange({ hidden: next.length > 0 ? next : undefined });
  };
  return (
    <ul aria-label={words.lines} className="mb-2 flex flex-wrap gap-x-5 gap-y-1">
      {lines.map((line, number) => {
        const { colour, dash } = strokeOf(number, dark);
        const [now, then] = [values.get(line.id), past.get(line.id)];
        const change = changeOf(measure, line.unit, now, then);
        const off = hidden.includes(line.id);
        const label = line.label || words.everything;
        const inside = (
          <>
            <svg width={18} height={4} aria-hidden="true">
              <line
                x1={0}
                x2={18}
                y1={2}
                y2={2}
                stroke={colour}
                strokeWidth={3}
                strokeDasharray={dash.join(" ")}
              />
            </svg>
            <span className={off ? "line-through" : undefined}>{label}</span>
            <span className="font-semibold">{valueText(now, line.unit)}</span>
            {change && <ChangeText change={change} />}
          </>
        );
        return (
          <li key={line.id}>
            {lines.length === 1 ? (
              <span className="inline-flex min-h-6 items-center gap-2">{inside}</span>
            ) : (
              <button
                type="button"
                aria-pressed={!off}
                title={off ? words.show(label) : words.hide(label)}
                onClick={() => toggle(line.id)}
                className="inline-flex min-h-6 items-center gap-2 rounded hover:bg-hover"
              >
                {inside}
              </button>
            )}
          </li>
        );
      })}
    </ul>
  );
}
