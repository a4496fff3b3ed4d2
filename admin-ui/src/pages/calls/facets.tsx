// The filters at the side: how many calls have which values, and limits.
import { useState } from "react";

import { Button } from "../../parts/button.tsx";
import { Checkbox, Field, LateInput } from "../../parts/field.tsx";
import { words } from "../../words/calls.ts";
import { reasonText, SHORT_DIGEST } from "./cells.tsx";
import { CHOICES, type Choice, type Filters, NONE, toggled } from "./search.ts";

export type Counts = Record<string, Record<string, number>>;

export interface FacetsProps {
  filters: Filters;
  counts: Counts;
  onChange: (change: Filters) => void;
}

/** A value as people read it. */
export function valueText(name: string, value: string): string {
  if (value === NONE) return words.empty;
  if (name === "outcome") return words.outcomes[value] ?? value;
  if (name === "direction") return words.directions[value] ?? value;
  if (name === "config") return value.slice(0, SHORT_DIGEST);
  if (name === "reason") return reasonText(value);
  return value;
}

export function Facets({ filters, counts, onChange }: FacetsProps) {
  return (
    <div className="grid content-start gap-4 pb-6">
      {CHOICES.map((name) => (
        <Facet
          key={name}
          name={name}
          counts={named(counts[name])}
          chosen={filters[name] ?? []}
          onToggle={(value) => onChange({ [name]: toggled(filters, name, value) })}
        />
      ))}
      <Limits filters={filters} onChange={onChange} />
    </div>
  );
}

/** The counts with a name for calls that have no value. */
const named = (counts: Record<string, number> = {}) =>
  Object.fromEntries(Object.entries(counts).map(([value, count]) => [value || NONE, count]));

const SHOWN = 6;

interface FacetProps {
  name: Choice;
  counts: Record<string, number>;
  chosen: readonly string[];
  onToggle: (value: string) => void;
}

function Facet({ name, counts, chosen, onToggle }: FacetProps) {
  const [all, setAll] = useState(false);
  // A chosen value stays although no call has it any more: else nobody could take it away.
  const values = [...new Set([...Object.keys(counts), ...chosen])].sort(
    (a, b) => (counts[b] ?? 0) - (counts[a] ?? 0) || (a < b ? -1 : 1),
  );
  const worth = values.length > 1 || values.some((each) => each !== NONE) || chosen.length > 0;
  if (!worth) return null;
  const shown = all ? values : values.filter((v, place) => place < SHOWN || chosen.includes(v));
  const rest = values.length - shown.length;
  return (
    <fieldset className="min-w-0">
      <legend className="mb-1 text-xs font-medium text-muted">{words.choices[name]}</legend>
      {shown.map((value) => (
        <Checkbox
          key={value}
          checked={chosen.includes(value)}
          onChecked={() => onToggle(value)}
          className="rounded px-1 hover:bg-hover [&>span]:min-w-0 [&>span]:flex-1"
          label={
            <span className="flex justify-between gap-2">
              <span className="truncate" title={value}>
                {valueText(name, value)}
              </span>
              <span className="text-muted">{(counts[value] ?? 0).toLocaleString()}</span>
            </span>
          }
        />
      ))}
      {(rest > 0 || (all && values.length > SHOWN)) && (
        <Button look="quiet" small onClick={() => setAll(!all)}>
          {all ? words.fewer : words.more(rest)}
        </Button>
      )}
    </fieldset>
  );
}

const UNITS = [
  ["waited_over_ms", words.ms, 1],
  ["longer_ms", words.seconds, 1_000],
  ["shorter_ms", words.seconds, 1_000],
] as const;

function Limits({ filters, onChange }: Omit<FacetsProps, "counts">) {
  const number = (typed: string, factor = 1) => {
    const value = Number(typed) * factor;
    return typed === "" || !(value >= 0) ? undefined : value;
  };
  const whole = (value: number | undefined) => value && Math.round(value);
  const seen = (value: number | undefined, factor: number) =>
    value === undefined ? "" : String(value / factor);
  return (
    <fieldset className="grid gap-2">
      <legend className="mb-1 text-xs font-medium text-muted">{words.limits}</legend>
      {UNITS.map(([name, unit, factor]) => (
        <Field
          key={name}
          label={words.filters[name]}
          aside={<span className="text-muted">{unit}</span>}
        >
          <LateInput
            type="number"
            min={0}
            value={seen(filters[name], factor)}
            onValue={(typed) => onChange({ [name]: whole(number(typed, factor)) })}
          />
        </Field>
      ))}
      <Field label={words.filters.cost_over}>
        <LateInput
          type="number"
          min={0}
          step={0.01}
          value={filters.cost_over ?? ""}
          onValue={(typed) => onChange({ cost_over: number(typed)?.toString() })}
        />
      </Field>
      {(["called", "id"] as const).map((name) => (
        <Field key={name} label={words.filters[name]}>
          <LateInput
            value={filters[name] ?? ""}
            onValue={(typed) => onChange({ [name]: typed || undefined })}
          />
        </Field>
      ))}
    </fieldset>
  );
}
