// What the page asks the engine for.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useState } from "react";

import { api, type Schema, useSend } from "../../app/api.ts";

export type Campaign = Schema<"Campaign">;
export type Checked = Schema<"NumberChecked">;

export const OUTBOUND = "/api/v1/outbound";
export const CAMPAIGNS = "/api/v1/campaigns";
export const CAMPAIGN = "/api/v1/campaigns/{campaign}";
export const BLOCKED = "/api/v1/do-not-call";

export const LOOK_EVERY_MS = 5_000;
/** Looks again while the page is visible. */
export const LOOKING = { refetchInterval: LOOK_EVERY_MS };

const CHECKED = "check-number";
const PAUSE_MS = 300;
/** Characters of the shortest number, such as 112. */
const LEAST = 3;

/** What the firewall and the do-not-call list say about a number, a moment after it was typed. */
export function useChecked(number: string, context: string) {
  const late = useLate(number.trim(), PAUSE_MS);
  const ready = late.length >= LEAST && context !== "";
  const query = useQuery({
    queryKey: [CHECKED, late, context],
    queryFn: async ({ signal }): Promise<Checked | null> => {
      const body = { number: late, context };
      return (await api.POST("/api/v1/calls/check-number", { body, signal })).data ?? null;
    },
    enabled: ready,
    retry: false,
  });
  const isOfNumber = ready && late === number.trim();
  return {
    checked: (isOfNumber && query.data) || null,
    error: isOfNumber ? query.error : null,
    isLooking: number.trim().length >= LEAST && (!isOfNumber || query.isFetching),
  };
}

function useLate(value: string, ms: number): string {
  const [late, setLate] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setLate(value), ms);
    return () => clearTimeout(timer);
  }, [value, ms]);
  return late;
}

/** Puts numbers on the do-not-call list; the page shows refusals itself. */
export function useBlock(onDone: (added: number) => void) {
  const queries = useQueryClient();
  return useSend("post", BLOCKED, {
    stale: [BLOCKED],
    quiet: true,
    onDone: ({ added }) => {
      void queries.invalidateQueries({ queryKey: [CHECKED] });
      onDone(added);
    },
  });
}

/** Takes a number off it. */
export function useUnblock(onDone: () => void) {
  const queries = useQueryClient();
  return useSend("post", "/api/v1/do-not-call/remove", {
    stale: [BLOCKED],
    onDone: () => {
      void queries.invalidateQueries({ queryKey: [CHECKED] });
      onDone();
    },
  });
}
