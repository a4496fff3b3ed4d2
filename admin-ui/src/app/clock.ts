// The difference between this browser's clock and the engine's: times of calls are by the engine's.
import { useQuery } from "@tanstack/react-query";

import { get } from "./api.ts";

const RENEWED_MS = 10 * 60_000;

/** What this browser's clock is ahead of the engine's, in ms; right to half of a request's time. */
export function useClockAhead(): number {
  const { data } = useQuery({
    queryKey: ["clock"],
    queryFn: async ({ signal }) => {
      const sent = Date.now();
      const { at } = await get("/api/v1/calls/live", {}, signal);
      return (sent + Date.now()) / 2 - Date.parse(at);
    },
    staleTime: RENEWED_MS,
    refetchInterval: RENEWED_MS, // a clock may be set while the page is open
  });
  return data ?? 0;
}
