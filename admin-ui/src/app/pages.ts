// The pages that this person, at this engine, has something to see on.
import { useMemo } from "react";

import { useGet } from "./api.ts";
import { type Entry, NAVIGATION } from "./navigation.ts";
import { useSession } from "./session.ts";

/** The engines of the cluster; none if this one is alone, or may not be seen. */
export function useNodes() {
  const enabled = useSession().permissions.includes("engine.read");
  const cluster = useGet("/api/v1/cluster", {}, { enabled, staleTime: 60_000 });
  return cluster.data?.nodes ?? [];
}

/** Without the page of the cluster if the engine is alone. */
export function usePages(): readonly Entry[] {
  const { permissions } = useSession();
  const clustered = useNodes().length > 0;
  return useMemo(
    () =>
      NAVIGATION.filter(
        ({ to, may }) =>
          (may === undefined || permissions.includes(may)) && (to !== "/cluster" || clustered),
      ),
    [permissions, clustered],
  );
}
