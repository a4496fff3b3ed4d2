// The address of the outbound page. Numbers of people are never in it.
import { oneOf, type Raw, text } from "../../app/search.ts";
import { WHATS, type What } from "./progress.ts";

export const TABS = ["campaigns", "call", "blocked"] as const;
export type Tab = (typeof TABS)[number];

export interface Search {
  /** Left out: the campaigns. */
  tab?: Tab | undefined;
  /** The campaign that is open. */
  campaign?: string | undefined;
  /** Only its people who are that far. */
  what?: What | undefined;
  /** The context of a single call. */
  context?: string | undefined;
}

export function search(raw: Raw): Search {
  return {
    tab: oneOf(raw.tab, TABS),
    campaign: text(raw.campaign),
    what: oneOf(raw.what, WHATS),
    context: text(raw.context),
  };
}
