// The state of the page that is in the address.
import { flag, oneOf, type Raw, text, whole } from "../../app/search.ts";

export const TABS = ["turn", "tools", "events", "cost", "config", "notes", "ledger"] as const;
export type Tab = (typeof TABS)[number];
export const MODES = ["waits", "troubles"] as const;
export type Mode = (typeof MODES)[number];

export interface Search {
  /** The selected turn. */
  turn?: number | undefined;
  /** The selected tool call. */
  tool?: string | undefined;
  /** Where the sound begins, ms since the offer. */
  at?: number | undefined;
  /** The part of the call that is zoomed to, ms since the offer; both or none. */
  from?: number | undefined;
  to?: number | undefined;
  tab?: Tab | undefined;
  /** All but these is folded. */
  mode?: Mode | undefined;
  /** Long pauses are drawn at their length. */
  unfolded?: true | undefined;
  /** The table in place of the picture. */
  table?: true | undefined;
}

const MOST_MS = 24 * 3_600_000;

export function search(raw: Raw): Search {
  const [from, to] = [time(raw.from), time(raw.to)];
  const zoomed = from !== undefined && to !== undefined && from < to;
  return {
    turn: whole(raw.turn),
    tool: text(raw.tool),
    at: time(raw.at),
    from: zoomed ? from : undefined,
    to: zoomed ? to : undefined,
    tab: oneOf(raw.tab, TABS),
    mode: oneOf(raw.mode, MODES),
    unfolded: flag(raw.unfolded),
    table: flag(raw.table),
  };
}

function time(raw: unknown): number | undefined {
  const found = whole(raw);
  return found !== undefined && found <= MOST_MS ? found : undefined;
}
