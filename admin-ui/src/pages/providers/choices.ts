import { useNavigate, useSearch } from "@tanstack/react-router";

import type { Search } from "./search.ts";

/** The choices in the address, and how to change some of them. */
export function useChoices(): [Search, (change: Partial<Search>) => void] {
  const choices = useSearch({ from: "/providers" });
  const navigate = useNavigate({ from: "/providers" });
  return [
    choices,
    (part) =>
      void navigate({ to: "/providers", search: (now) => ({ ...now, ...part }), replace: true }),
  ];
}
