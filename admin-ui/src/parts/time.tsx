// Times, durations and money, the same on every page. Times are in the viewer's zone; the tooltip
// has the zone and the time as the engine wrote it.
import { useEffect, useState } from "react";

import { words } from "../words/parts.ts";

const DAY_MS = 86_400_000;

const dateTime = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const timeOnly = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });
const full = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "long" });

/** A moment as text: the time alone for today, else with its date. */
export function momentText(at: Date, now: Date): string {
  const today = at.toDateString() === now.toDateString();
  return today ? timeOnly.format(at) : dateTime.format(at);
}

/** How long ago: "just now", "14 min ago", "3 h ago", "5 days ago". */
export function agoText(ms: number): string {
  if (ms < 60_000) return words.ago.now;
  if (ms < 3_600_000) return words.ago.minutes(Math.floor(ms / 60_000));
  if (ms < 2 * DAY_MS) return words.ago.hours(Math.floor(ms / 3_600_000));
  return words.ago.days(Math.floor(ms / DAY_MS));
}

export interface TimeProps {
  /** ISO 8601 with a zone, or ms since 1970. */
  at: string | number;
  /** "5 min ago", kept up to date; for what changes. */
  relative?: boolean;
}

export function Time({ at, relative = false }: TimeProps) {
  const now = useNow(relative ? 30_000 : 0);
  const moment = new Date(at);
  if (Number.isNaN(moment.getTime())) return <span>{String(at)}</span>;
  const shown = relative ? agoText(now - moment.getTime()) : momentText(moment, new Date());
  return (
    <time
      dateTime={moment.toISOString()}
      title={`${full.format(moment)}\n${at}`}
      className="whitespace-nowrap"
    >
      {shown}
    </time>
  );
}

/** The present time, ms since 1970, renewed every `everyMs`; 0: never. */
export function useNow(everyMs: number): number {
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    if (everyMs === 0) return;
    const timer = setInterval(() => setNow(Date.now()), everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
  return now;
}

/** A duration as text: "420 ms", "3.2 s", "4:07", "1:02:33". */
export function durationText(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  if (ms < 59_950) return `${(ms / 1_000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1_000);
  const two = (value: number) => String(value).padStart(2, "0");
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes}:${two(seconds % 60)}`;
  return `${Math.floor(minutes / 60)}:${two(minutes % 60)}:${two(seconds % 60)}`;
}

/** A duration as a clock: "0:07", "12:30", "1:02:33"; for what runs. */
export function clockText(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1_000));
  return seconds < 60 ? `0:${String(seconds).padStart(2, "0")}` : durationText(seconds * 1_000);
}

export function Duration({
  ms,
  clock = false,
}: {
  ms: number | null | undefined;
  clock?: boolean;
}) {
  if (ms === null || ms === undefined) return <span className="text-muted">–</span>;
  return <span className="whitespace-nowrap">{clock ? clockText(ms) : durationText(ms)}</span>;
}

export interface MoneyProps {
  /** Decimal text, as the API gives it, or a number. */
  amount: string | number | null | undefined;
  currency: string;
}

/** The smallest amount that is written in digits. */
const LEAST_MONEY = 0.0001;

/** An amount, with as many digits as it takes to see it: costs of calls are fractions of a cent. */
export function moneyText(amount: string | number, currency: string): string {
  const value = Number(amount);
  if (value > 0 && value < LEAST_MONEY) return `< ${moneyText(LEAST_MONEY, currency)}`;
  const digits = value !== 0 && Math.abs(value) < 0.1 ? 4 : 2;
  try {
    return moneyFormat(currency, digits).format(value);
  } catch {
    return `${value.toFixed(digits)} ${currency}`; // no code of ISO 4217
  }
}

// Making a format takes longer than all else in a row of a list.
const formats = new Map<string, Intl.NumberFormat>();

function moneyFormat(currency: string, digits: number): Intl.NumberFormat {
  const key = `${currency} ${digits}`;
  const known = formats.get(key);
  if (known) return known;
  const limits = { minimumFractionDigits: digits, maximumFractionDigits: digits };
  const made = new Intl.NumberFormat(undefined, { style: "currency", currency, ...limits });
  formats.set(key, made);
  return made;
}

export function Money({ amount, currency }: MoneyProps) {
  if (amount === null || amount === undefined) return <span className="text-muted">–</span>;
  return <span className="whitespace-nowrap">{moneyText(amount, currency)}</span>;
}
