import type { ReactNode } from "react";

import { cx } from "./cx.ts";

export type Tone = "neutral" | "accent" | "good" | "warn" | "bad";

const SOFT: Record<Tone, string> = {
  neutral: "bg-hover text-ink",
  accent: "bg-accent-soft text-accent",
  good: "bg-good-soft text-good",
  warn: "bg-warn-soft text-warn",
  bad: "bg-bad-soft text-bad",
};

/** A word about a thing. The word says it; the colour only helps to find it. */
export function Badge({ tone = "neutral", children }: { tone?: Tone; children: ReactNode }) {
  return (
    <span
      className={cx(
        "inline-flex h-5 shrink-0 items-center gap-1 rounded px-1.5 text-xs font-medium whitespace-nowrap",
        SOFT[tone],
      )}
    >
      {children}
    </span>
  );
}

const MARK: Record<Tone, string> = {
  neutral: "text-strong",
  accent: "text-accent",
  good: "text-good",
  warn: "text-warn",
  bad: "text-bad",
};

/** A dot before a word. Its shape differs, too: round is good, a triangle warns, a square is bad. */
export function StatusDot({ tone, label }: { tone: Tone; label?: string }) {
  return (
    // biome-ignore lint/a11y/noSvgWithoutTitle: a title would be a second, slower tooltip
    <svg
      width={10}
      height={10}
      viewBox="0 0 10 10"
      className={cx("inline-block shrink-0", MARK[tone])}
      fill={tone === "neutral" ? "none" : "currentColor"}
      stroke="currentColor"
      {...(label ? { role: "img", "aria-label": label } : { "aria-hidden": true })}
    >
      {tone === "bad" && <rect x={1.5} y={1.5} width={7} height={7} />}
      {tone === "warn" && <path d="M5 1l4.2 8H.8Z" />}
      {tone !== "bad" && tone !== "warn" && <circle cx={5} cy={5} r={3.5} />}
    </svg>
  );
}

/** A key of the keyboard. */
export function Kbd({ children }: { children: ReactNode }) {
  return (
    <kbd className="inline-flex h-5 min-w-5 items-center justify-center rounded border border-line bg-surface px-1 font-sans text-xs text-muted">
      {children}
    </kbd>
  );
}
