import { oneOf, text } from "../../app/search.ts";

export const TABS = ["users", "sessions", "keys", "audit"] as const;
export const RESULTS = ["done", "refused", "failed"] as const;

export interface Search {
  tab?: (typeof TABS)[number] | undefined;
  /** Column of the users, `-` before it for descending. */
  sort?: string | undefined;
  /** Filters of the audit. */
  who?: string | undefined;
  action?: string | undefined;
  on?: string | undefined;
  result?: (typeof RESULTS)[number] | undefined;
}

export function search(raw: Record<string, unknown>): Search {
  return {
    tab: oneOf(raw.tab, TABS),
    sort: text(raw.sort),
    who: text(raw.who),
    action: text(raw.action),
    on: text(raw.on),
    result: oneOf(raw.result, RESULTS),
  };
}
