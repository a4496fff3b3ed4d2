import { Link } from "@tanstack/react-router";
import { useMemo } from "react";

import { type Schema, useGet } from "../../app/api.ts";
import { useMay } from "../../app/session.ts";
import { Answer, Empty } from "../../parts/answer.tsx";
import { StatusDot, type Tone } from "../../parts/badge.tsx";
import { type Column, DataTable } from "../../parts/table.tsx";
import { Duration } from "../../parts/time.tsx";
import { words } from "../../words/providers.ts";
import { useChoices } from "./choices.ts";
import { type Latency, latencies, newest } from "./latency.ts";
import { ProviderDetails } from "./provider-details.tsx";

export type Provider = Schema<"Provider">;

const TONES: Record<Provider["condition"], Tone> = {
  ok: "good",
  "no key": "warn",
  unusable: "bad",
  failing: "bad",
};

export function ConditionMark({ condition }: { condition: Provider["condition"] }) {
  return (
    <span className="inline-flex items-center gap-1.5 whitespace-nowrap">
      <StatusDot tone={TONES[condition]} />
      {words.conditions[condition]}
    </span>
  );
}

/** All providers, and one of them in full. */
export function ProviderList() {
  const providers = useGet("/api/v1/providers", undefined, { refetchInterval: 15_000 });
  const waits = useWaits();
  const [choices, change] = useChoices();
  const columns = useMemo(() => columnsOf(waits), [waits]);
  return (
    <Answer query={providers}>
      {({ providers }) => {
        const chosen = providers.find((each) => each.name === choices.provider) ?? providers[0];
        if (chosen === undefined) return <Empty icon="providers" title={words.list.none} />;
        return (
          <div className="grid items-start gap-4 xl:grid-cols-[minmax(26rem,2fr)_minmax(0,3fr)]">
            <div className="rounded-lg border border-line bg-raised">
              <DataTable
                label={words.list.label}
                rows={providers}
                columns={columns}
                rowKey={({ name }) => name}
                sort={choices.sort}
                onSort={(sort) => change({ sort })}
                onOpen={({ name }) => change({ provider: name })}
              />
            </div>
            <ProviderDetails key={chosen.name} provider={chosen} wait={waits.get(chosen.name)} />
          </div>
        );
      }}
    </Answer>
  );
}

/** The waits for answers by provider; none if the calls are not indexed. */
function useWaits(): Map<string, Latency> {
  const series = useGet(
    "/api/v1/analytics/{measure}",
    { path: { measure: "answer_wait" }, query: { by: "provider" } },
    { enabled: useMay("analytics.read"), staleTime: 60_000 },
  );
  return useMemo(() => latencies(series.data), [series.data]);
}

function columnsOf(waits: Map<string, Latency>): Column<Provider>[] {
  const { head } = words.list;
  return [
    {
      id: "name",
      head: head.name,
      value: ({ name }) => name,
      cell: ({ name, type, reason }) => (
        <div className="max-w-72 min-w-0">
          <Link
            to="/providers"
            search={{ provider: name }}
            className="font-medium break-all text-accent hover:underline"
            onClick={(event) => event.stopPropagation()}
          >
            {name}
          </Link>
          <p className="line-clamp-1 text-xs text-muted" title={reason || undefined}>
            {reason || type}
          </p>
        </div>
      ),
    },
    {
      id: "state",
      head: head.state,
      value: ({ condition }) => condition,
      cell: ({ condition }) => <ConditionMark condition={condition} />,
    },
    {
      id: "contexts",
      head: head.contexts,
      align: "end",
      value: ({ used_by }) => Object.keys(used_by).length,
      cell: ({ used_by }) => Object.keys(used_by).length || <span className="text-muted">–</span>,
    },
    {
      id: "wait",
      head: `${head.wait}, ${words.list.p95}`,
      align: "end",
      value: ({ name }) => newest(waits.get(name)?.p95 ?? []) ?? -1,
      cell: ({ name }) => <Duration ms={newest(waits.get(name)?.p95 ?? [])} />,
      wide: true,
    },
  ];
}
