// The search parameters of the page that is open, and how its links and fields change them.
import { useNavigate, useSearch } from "@tanstack/react-router";

import { type Search, search } from "./search.ts";

type Change = (change: Partial<Search>) => void;

/** The choices in the address. A change replaces the address, so that "back" leaves the page. */
export function useChoices(): [Search, Change] {
  const choices = search(useSearch({ strict: false }));
  const navigate = useNavigate();
  const change: Change = (part) => {
    void navigate({ to: ".", search: (now) => ({ ...search(now), ...part }), replace: true });
  };
  return [choices, change];
}
