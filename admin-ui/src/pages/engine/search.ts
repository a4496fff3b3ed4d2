import { oneOf, type Raw, text } from "../../app/search.ts";

export const TABS = ["overview", "log", "support"] as const;
export const LEVELS = ["debug", "info", "warning", "error"] as const;

export interface Search {
  /** Left out: the overview. */
  tab?: (typeof TABS)[number] | undefined;
  /** Only the log's lines about this call. */
  call?: string | undefined;
  /** The least level of the log; left out: info. */
  level?: (typeof LEVELS)[number] | undefined;
  /** Only lines with this text. */
  find?: string | undefined;
}

export function search(raw: Raw): Search {
  return {
    tab: oneOf(raw.tab, TABS),
    call: text(raw.call),
    level: oneOf(raw.level, LEVELS),
    find: text(raw.find),
  };
}
