// Period, step, lines and filters. Everything that is chosen goes into the address.
import { useGet } from "../../app/api.ts";
import { Button } from "../../parts/button.tsx";
import { cx } from "../../parts/cx.ts";
import { Field, LateInput, Select, Switch } from "../../parts/field.tsx";
import { words } from "../../words/insights.ts";
import { STATS, type Stat } from "./measures.ts";
import { addDays, dateText, type Period, RANGES, type Step, stepsFor, USUAL } from "./period.ts";
import type { Search } from "./search.ts";

export interface ControlsProps {
  search: Search;
  period: Period;
  onChange: (change: Search) => void;
}

/** The choice of the period, for the page's head. */
export function PeriodControls({ search, period, onChange }: ControlsProps) {
  const current = search.from === undefined ? (search.range ?? USUAL) : null;
  // The last day, where the engine takes the one after it.
  const [from, to] = [dayOf(period.from), lastDay(period)];
  const choose = (change: { from?: string; to?: string }) =>
    onChange({ from, to, ...change, range: undefined, step: undefined });
  return (
    <div className="flex flex-wrap items-center gap-2" role="group" aria-label={words.period}>
      <div className="flex rounded-md border border-line bg-raised p-0.5">
        {RANGES.map((range) => (
          <button
            key={range}
            type="button"
            aria-pressed={range === current}
            onClick={() => onChange({ range, from: undefined, to: undefined, step: undefined })}
            className={cx(
              "h-7 rounded px-2 whitespace-nowrap",
              range === current ? "bg-selected font-medium" : "text-muted hover:text-ink",
            )}
          >
            {words.ranges[range]}
          </button>
        ))}
      </div>
      <div className="flex items-center gap-1">
        <LateInput
          type="date"
          aria-label={words.from}
          className="w-34"
          value={from}
          max={to}
          onValue={(day) => day && choose({ from: day })}
        />
        <span className="text-muted">–</span>
        <LateInput
          type="date"
          aria-label={words.to}
          className="w-34"
          value={to}
          min={from}
          onValue={(day) => day && choose({ to: day })}
        />
      </div>
    </div>
  );
}

const isTime = (moment: string) => moment.includes("T");
const dayOf = (moment: string) => (isTime(moment) ? dateText(new Date(moment)) : moment);
const lastDay = ({ to }: Period) =>
  isTime(to) ? dateText(new Date(Date.parse(to) - 1)) : addDays(to, -1);

interface LineControlsProps extends ControlsProps {
  step: Step;
  /** What the measure can be separated by. */
  bys: readonly string[];
  /** True if one percentile of three is shown. */
  stats: boolean;
}

/** What the chart is separated by, its step and percentile. */
export function LineControls({ search, period, step, bys, stats, onChange }: LineControlsProps) {
  const by = search.by ?? "";
  return (
    <>
      <Choice
        label={words.by}
        value={by}
        onValue={(value) => onChange({ by: value || undefined, hidden: undefined })}
        options={[
          { value: "", label: words.byNothing },
          ...bys.map((each) => ({ value: each, label: words.bys[each] ?? each })),
        ]}
      />
      {stats && (
        <Choice
          label={words.stat}
          value={search.stat ?? (by ? "p95" : "")}
          onValue={(value) =>
            onChange({ stat: STATS.find((each): each is Stat => each === value) })
          }
          options={[
            ...(by ? [] : [{ value: "", label: words.allStats }]),
            ...STATS.map((each) => ({ value: each, label: each })),
          ]}
        />
      )}
      <Choice
        label={words.step}
        value={step}
        onValue={(value) => onChange({ step: value })}
        options={stepsFor(period).map((each) => ({ value: each, label: words.steps[each] }))}
      />
    </>
  );
}

function Choice<T extends string>(props: {
  label: string;
  value: T;
  onValue: (value: T) => void;
  options: readonly { value: T; label: string }[];
}) {
  return (
    <div className="flex items-center gap-2">
      <span aria-hidden="true" className="text-xs whitespace-nowrap text-muted">
        {props.label}
      </span>
      <Select
        aria-label={props.label}
        value={props.value}
        onValue={props.onValue}
        options={props.options}
      />
    </div>
  );
}

const FILTERS = ["context", "provider", "version"] as const;
const FACETS = { context: "context", provider: "provider", version: "config" } as const;
const FRESH_MS = 300_000;

/** Which calls count, and what they are compared with. */
export function Filters({ search, onChange }: Omit<ControlsProps, "period">) {
  const counted = useGet("/api/v1/calls/facets", {}, { staleTime: FRESH_MS });
  const isFiltered = FILTERS.some((each) => search[each]) || search.tests;
  return (
    <div className="mb-4 flex flex-wrap items-end gap-x-3 gap-y-2">
      {FILTERS.map((name) => {
        const chosen = search[name] ?? [];
        const known = Object.keys(counted.data?.facets[FACETS[name]] ?? {}).filter(Boolean);
        const values = [...new Set([...chosen, ...known])].sort();
        return (
          <Field key={name} label={words.filters[name]} hideLabel>
            <Select
              className="w-40"
              value={chosen.join(",")}
              onValue={(value) => onChange({ [name]: value ? value.split(",") : undefined })}
              options={[
                { value: "", label: words.all[name] },
                ...(chosen.length > 1
                  ? [{ value: chosen.join(","), label: chosen.join(", ") }]
                  : []),
                ...values.map((each) => ({ value: each, label: shortName(name, each) })),
              ]}
            />
          </Field>
        );
      })}
      <div className="flex h-8 flex-wrap items-center gap-x-4">
        <Switch
          label={words.compare}
          checked={search.compare === true}
          onChecked={(on) => onChange({ compare: on || undefined })}
        />
        <Switch
          label={words.tests}
          checked={search.tests === true}
          onChecked={(on) => onChange({ tests: on || undefined })}
        />
        {isFiltered && (
          <Button
            look="quiet"
            small
            icon="close"
            onClick={() =>
              onChange({
                context: undefined,
                provider: undefined,
                version: undefined,
                tests: undefined,
              })
            }
          >
            {words.reset}
          </Button>
        )}
      </div>
    </div>
  );
}

/** A version is known by the beginning of its digest. */
export function shortName(by: string | undefined, value: string): string {
  return by === "version" ? value.replace(/\b([0-9a-f]{7})[0-9a-f]{57}\b/, "$1") : value;
}
