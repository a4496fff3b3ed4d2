// The lines of the engine's log as they are shown. They are data of callers, tools and servers:
// control characters are made visible.
import type { components } from "../../api/generated.ts";

type Frame = components["schemas"]["LiveFrame"];

export interface LogLine {
  /** Unique on this page, rising. */
  id: number;
  at: string;
  level: string;
  event: string;
  call: string;
  /** The other keys and values in one line. */
  rest: string;
  /** All of it. */
  whole: Readonly<Record<string, unknown>>;
}

export interface Log {
  lines: readonly LogLine[];
  /** True if lines before the first one are not kept any more. */
  cut: boolean;
  /** Number of lines that ever came. */
  count: number;
}

export const NO_LINES: Log = { lines: [], cut: false, count: 0 };
/** As many as the engine keeps. */
export const MOST_LINES = 5_000;
const SHOWN_APART = ["timestamp", "level", "event", "call_id"];

/** The log after a frame of its topic. */
export function takeLines(log: Log, frame: Frame): Log {
  const before = frame.restart ? { ...log, lines: [] } : log;
  const fresh = frame.lines.map((line, at) => lineOf(line, before.count + at));
  if (fresh.length === 0 && before === log) return log;
  const all = [...before.lines, ...fresh];
  const lines = all.slice(-MOST_LINES);
  const cut = before.cut || Boolean(frame.restart) || lines.length < all.length;
  return { lines, cut, count: before.count + fresh.length };
}

function lineOf(whole: Readonly<Record<string, unknown>>, id: number): LogLine {
  const others = Object.entries(whole).filter(([key]) => !SHOWN_APART.includes(key));
  return {
    id,
    at: String(whole.timestamp ?? ""),
    level: String(whole.level ?? ""),
    event: harmless(String(whole.event ?? "")),
    call: String(whole.call_id ?? ""),
    rest: others.map(([key, value]) => `${key}=${harmless(written(value))}`).join(" "),
    whole,
  };
}

/** How far a list is scrolled, in pixels, by the names of its element. */
export interface Scrolled {
  scrollTop: number;
  scrollHeight: number;
  clientHeight: number;
}

/**
 * True if the newest line is followed after the list was scrolled, or its size was changed: only
 * the reader's way up ends it. `topBefore`: where it was; `near`: pixels that count as the end.
 */
export function isFollowing(
  before: boolean,
  topBefore: number,
  { scrollTop, scrollHeight, clientHeight }: Scrolled,
  near: number,
): boolean {
  const atEnd = scrollHeight - scrollTop - clientHeight < near;
  return atEnd || (before && scrollTop >= topBefore);
}

const written = (value: unknown) => (typeof value === "string" ? value : JSON.stringify(value));

/** Control characters, and those that turn the direction of writing, as their numbers. */
export function harmless(text: string): string {
  return text.replace(/[\p{Cc}\p{Cf}]/gu, (each) => {
    const code = each.codePointAt(0) ?? 0;
    return code === 10 ? "⏎" : `\\u${code.toString(16).padStart(4, "0")}`;
  });
}

/** The lines with a text, in any case. */
export function found(lines: readonly LogLine[], text: string | undefined): readonly LogLine[] {
  const wanted = text?.trim().toLowerCase();
  if (!wanted) return lines;
  return lines.filter((line) =>
    `${line.event} ${line.call} ${line.rest}`.toLowerCase().includes(wanted),
  );
}
