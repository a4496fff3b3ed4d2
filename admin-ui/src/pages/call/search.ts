// The state of the page that is in the address.

export const TABS = ["turn", "tools", "cost", "config", "notes", "ledger"] as const;
export type Tab = (typeof TABS)[number];
export const MODES = ["all", "waits", "troubles"] as const;
export type Mode = (typeof MODES)[number];

export interface Search {
  /** The selected turn. */
  readonly turn?: number;
  /** The selected tool call. */
  readonly tool?: string;
  /** Position of the sound, ms since the offer. */
  readonly at?: number;
  /** The part of the call that is zoomed to, ms since the offer. */
  readonly from?: number;
  readonly to?: number;
  readonly tab?: Tab;
  /** What is left when the rest is folded. */
  readonly mode?: Mode;
  /** False: long pauses are drawn at their length. */
  readonly fold?: boolean;
  /** True: the table in place of the picture. */
  readonly table?: boolean;
}

const MOST_MS = 24 * 3_600_000;

export function search(raw: Record<string, unknown>): Search {
  const [from, to] = [whole(raw["from"]), whole(raw["to"])];
  const turn = whole(raw["turn"]);
  const at = whole(raw["at"]);
  const tab = oneOf(TABS, raw["tab"]);
  const mode = oneOf(MODES, raw["mode"]);
  return {
    ...(turn !== undefined && { turn }),
    ...(typeof raw["tool"] === "string" && raw["tool"].length <= 100 && { tool: raw["tool"] }),
    ...(at !== undefined && { at }),
    ...(from !== undefined && to !== undefined && from < to && { from, to }),
    ...(tab && { tab }),
    ...(mode && mode !== "all" && { mode }),
    ...(raw["fold"] === false && { fold: false }),
    ...(raw["table"] === true && { table: true }),
  };
}

function whole(value: unknown): number | undefined {
  return typeof value === "number" && Number.isInteger(value) && value >= 0 && value <= MOST_MS
    ? value
    : undefined;
}

function oneOf<T extends string>(known: readonly T[], value: unknown): T | undefined {
  return known.find((each) => each === value);
}
