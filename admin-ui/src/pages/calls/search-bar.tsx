// Above the list: words that were said, the caller's number, the period, and what is chosen.
import { type ReactNode, useState } from "react";

import { useMay } from "../../app/session.ts";
import { Button } from "../../parts/button.tsx";
import { LateInput, Select } from "../../parts/field.tsx";
import { Icon } from "../../parts/icons.tsx";
import { durationText, momentText } from "../../parts/time.tsx";
import { words } from "../../words/calls.ts";
import { valueText } from "./facets.tsx";
import { dayAgo, type Filter, type Filters, momentOf, partsOf, without } from "./search.ts";

export interface SearchBarProps {
  filters: Filters;
  /** `typing`: a letter more or less, which is no step of its own for the browser's way back. */
  onChange: (change: Filters, typing?: boolean) => void;
  /** Further filters, where the page has no room beside the list. */
  children?: ReactNode;
}

export function SearchBar({ filters, onChange, children }: SearchBarProps) {
  const personal = useMay("personal");
  return (
    <div className="flex flex-wrap items-center gap-2 px-6 pb-2 phone:px-4" role="search">
      <Words filters={filters} onChange={onChange} disabled={!personal} />
      <NumberFilter filters={filters} onChange={onChange} personal={personal} />
      <Period filters={filters} onChange={onChange} />
      {children}
      <Chosen filters={filters} onChange={onChange} />
    </div>
  );
}

const SIDES = ["any", "caller", "agent"] as const;

function Words({ filters, onChange, disabled }: SearchBarProps & { disabled: boolean }) {
  return (
    <span className="flex min-w-64 flex-1 gap-1 phone:basis-full">
      <span className="relative flex-1">
        <span className="pointer-events-none absolute inset-y-0 left-2 flex items-center text-muted">
          <Icon name="search" size={14} />
        </span>
        <LateInput
          type="search"
          id="search"
          value={filters.text ?? ""}
          aria-label={words.search}
          placeholder={words.search}
          title={disabled ? words.needsPersonal : words.searchHint}
          disabled={disabled}
          className="pl-7"
          onValue={(text) => onChange({ text: text || undefined }, true)}
        />
      </span>
      {filters.text !== undefined && (
        <Select
          aria-label={words.saidBy}
          className="w-34 shrink-0"
          value={filters.who ?? "any"}
          options={SIDES.map((value) => ({ value, label: words.side[value] }))}
          onValue={(who) => onChange({ who: who === "any" ? undefined : who })}
        />
      )}
    </span>
  );
}

const NUMBERS = ["number_last4", "number", "number_prefix"] as const;

function NumberFilter({ filters, onChange, personal }: SearchBarProps & { personal: boolean }) {
  const set = NUMBERS.find((each) => filters[each] !== undefined);
  const [chosen, setChosen] = useState<(typeof NUMBERS)[number]>("number_last4");
  const kind = set ?? chosen;
  const none = { number: undefined, number_prefix: undefined, number_last4: undefined };
  return (
    <span className="flex gap-1 phone:basis-full">
      <Select
        aria-label={words.numberKind}
        className="w-32 shrink-0"
        value={kind}
        options={NUMBERS.map((value) => ({
          value,
          label: words.numbers[value],
          // Guessing a hidden number digit by digit would reveal it.
          disabled: !personal && value !== "number_last4",
        }))}
        onValue={(next) => {
          setChosen(next);
          if (set) onChange({ ...none, [next]: filters[set] });
        }}
      />
      <LateInput
        type="search"
        value={filters[kind] ?? ""}
        aria-label={words.number}
        placeholder={words.number}
        title={words.number}
        className="w-36 phone:w-full"
        onValue={(value) => onChange({ ...none, [kind]: value || undefined }, true)}
      />
    </span>
  );
}

type PeriodName = keyof typeof words.periods;
const DAYS: Partial<Record<PeriodName, number>> = { today: 0, week: 6, month: 29 };

/** Which of the usual periods the filters name. */
function periodOf({ since, until }: Filters): PeriodName {
  if (since === undefined && until === undefined) return "any";
  const usual = (["today", "week", "month"] as const).find(
    (each) => since === dayAgo(DAYS[each] ?? 0),
  );
  return usual !== undefined && until === undefined ? usual : "own";
}

function Period({ filters, onChange }: SearchBarProps) {
  const [own, setOwn] = useState(false);
  const period = own ? "own" : periodOf(filters);
  const choose = (next: PeriodName) => {
    setOwn(next === "own");
    const days = DAYS[next];
    if (next === "any") onChange({ since: undefined, until: undefined });
    else if (days !== undefined) onChange({ since: dayAgo(days), until: undefined });
  };
  return (
    <span className="flex flex-wrap gap-1">
      <Select
        aria-label={words.period}
        className="w-32 shrink-0"
        value={period}
        options={(Object.keys(words.periods) as PeriodName[]).map((value) => ({
          value,
          label: words.periods[value],
        }))}
        onValue={choose}
      />
      {period === "own" &&
        (["since", "until"] as const).map((name) => (
          <LateInput
            key={name}
            type="datetime-local"
            aria-label={words.filters[name]}
            className="w-48"
            value={localText(filters[name])}
            onValue={(value) => onChange({ [name]: instant(value) })}
          />
        ))}
    </span>
  );
}

/** As the browser's input has it: in the viewer's zone, without naming it. */
function localText(given: string | undefined): string {
  const at = given === undefined ? undefined : momentOf(given);
  if (at === undefined) return "";
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

// With its zone, so that the address means the same moment to everybody.
const instant = (local: string) => (local ? new Date(local).toISOString() : undefined);

/** What is chosen, each with a way to take it away. */
function Chosen({ filters, onChange }: SearchBarProps) {
  const parts = partsOf(filters);
  if (parts.length === 0) return null;
  return (
    <div className="flex basis-full flex-wrap items-center gap-1.5">
      {parts.map(({ name, value }) => (
        <Chip
          key={`${name}=${value}`}
          label={words.remove(words.filters[name], valueText(name, value))}
          onRemove={() => onChange(without(filters, name, value))}
        >
          <span className="text-muted">{words.filters[name]}</span> {shownValue(name, value)}
        </Chip>
      ))}
      <Button
        look="quiet"
        small
        onClick={() => onChange(Object.fromEntries(parts.map(({ name }) => [name, undefined])))}
      >
        {words.clear}
      </Button>
    </div>
  );
}

function shownValue(name: Filter, value: string): string {
  if (name.endsWith("_ms")) return durationText(Number(value));
  const at = name === "since" || name === "until" ? momentOf(value) : undefined;
  return at ? momentText(at, new Date()) : valueText(name, value);
}

interface ChipProps {
  label: string;
  onRemove: () => void;
  children: ReactNode;
}

function Chip({ label, onRemove, children }: ChipProps) {
  return (
    <button
      type="button"
      aria-label={label}
      onClick={onRemove}
      className="inline-flex h-6 max-w-80 items-center gap-1.5 rounded-md bg-accent-soft px-2 text-xs hover:bg-hover"
    >
      <span className="truncate">{children}</span>
      <Icon name="close" size={12} />
    </button>
  );
}
