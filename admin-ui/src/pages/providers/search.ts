import { oneOf, type Raw, text } from "../../app/search.ts";

export const TABS = ["providers", "voices", "prices", "secrets"] as const;
export type Tab = (typeof TABS)[number];

export type Search = {
  tab?: Tab | undefined;
  /** The provider that is open. */
  provider?: string | undefined;
  sort?: string | undefined;
};

export function search(raw: Raw): Search {
  return {
    tab: oneOf(raw.tab, TABS),
    provider: text(raw.provider),
    sort: text(raw.sort),
  };
}
