// Who and what leads to a context, and where it leads.
import { Link } from "@tanstack/react-router";
import { type ReactNode, useState } from "react";

import { useGet } from "../../app/api.ts";
import { useLiveCalls } from "../../app/live.ts";
import { useMay } from "../../app/session.ts";
import { Badge } from "../../parts/badge.tsx";
import { words } from "../../words/contexts.ts";

const MONTH_MS = 30 * 86_400_000;

export function UsedBy({ context }: { context: string }) {
  const uses = useGet("/api/v1/config/uses", {}, { staleTime: 30_000 });
  const found = uses.data?.contexts.find((each) => each.context === context);
  if (!found) return null; // not in force yet
  const { numbers, providers, tools, is_default: isDefault } = found;
  const destinations = tools.includes("transfer") ? (uses.data?.destinations ?? []) : [];
  return (
    <section
      aria-label={words.usedBy.title}
      className="mb-5 rounded-md border border-line bg-raised px-3 py-2"
    >
      <dl className="grid grid-cols-[6.5rem_minmax(0,1fr)] gap-x-3 gap-y-1 text-xs">
        <Line term={words.usedBy.title}>
          {isDefault && <Badge>{words.usedBy.isDefault}</Badge>}
          {numbers.map((each) => (
            <Badge key={each}>{each}</Badge>
          ))}
          {numbers.length === 0 && !isDefault && (
            <span className="text-muted">{words.usedBy.noNumbers}</span>
          )}
          <Calls context={context} />
        </Line>
        <Line term={words.usedBy.providers}>{providers.join(" → ")}</Line>
        <Line term={words.usedBy.tools}>
          {tools.length === 0 && <span className="text-muted">{words.usedBy.noTools}</span>}
          {tools.map((tool) => (
            <Link
              key={tool}
              to="/tools/$tool"
              params={{ tool }}
              className="inline-flex min-h-6 items-center text-accent hover:underline"
            >
              {tool}
            </Link>
          ))}
        </Line>
        {destinations.length > 0 && (
          <Line term={words.usedBy.destinations}>{destinations.join(" · ")}</Line>
        )}
      </dl>
    </section>
  );
}

function Line({ term, children }: { term: string; children: ReactNode }) {
  return (
    <>
      <dt className="pt-[0.1875rem] text-muted">{term}</dt>
      <dd className="flex min-h-6 flex-wrap items-center gap-x-2">{children}</dd>
    </>
  );
}

/** Calls of the last 30 days, if there is an index of them, and of this moment. */
function Calls({ context }: { context: string }) {
  const [since] = useState(() => new Date(Date.now() - MONTH_MS).toISOString().slice(0, 10));
  const enabled = useMay("calls.read");
  const facets = useGet(
    "/api/v1/calls/facets",
    { query: { since } },
    { enabled, staleTime: 60_000 },
  );
  const live = useLiveCalls().rows.filter((each) => each.context === context).length;
  const count = facets.data?.facets.context?.[context] ?? 0;
  return (
    <>
      {facets.data && (
        <Link
          to="/calls"
          search={{ context: [context] } as never}
          className="inline-flex min-h-6 items-center text-accent hover:underline"
        >
          {words.usedBy.calls(count)}
        </Link>
      )}
      {live > 0 && <Badge tone="good">{words.usedBy.live(live)}</Badge>}
    </>
  );
}
