import { oneOf } from "../../app/search.ts";

export const TABS = ["profile", "browser", "data", "about"] as const;

export interface Search {
  tab?: (typeof TABS)[number] | undefined;
}

export function search(raw: Record<string, unknown>): Search {
  return { tab: oneOf(raw.tab, TABS) };
}
