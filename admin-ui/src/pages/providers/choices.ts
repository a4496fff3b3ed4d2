import { useNavigate, useSearch } from "@tanstack/react-router";

import type { Search } from "./search.ts";

/** The choices in the address, and how to change some of them. */
export function useChoices(): [Search, (change: Partial<Search>) => void] {
  const choices = useSearch({ from: "/providers" });
  const navigate = useNavigate();
  return [
    choices,
    (part) => void navigate({ to: "/providers", search: { ...choices, ...part }, replace: true }),
  ];
}
