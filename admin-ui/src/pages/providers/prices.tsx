import { Link } from "@tanstack/react-router";

import { type Schema, useGet } from "../../app/api.ts";
import { useMay } from "../../app/session.ts";
import { Answer, Empty } from "../../parts/answer.tsx";
import { LinkButton } from "../../parts/button.tsx";
import { Section } from "../../parts/page.tsx";
import { type Column, DataTable } from "../../parts/table.tsx";
import { Money } from "../../parts/time.tsx";
import { words } from "../../words/providers.ts";
import { meanCosts } from "./latency.ts";

type Model = Schema<"ModelPrice">;
type Budget = Schema<"ContextBudget">;

const say = words.prices;
/** Share of a budget from which its bar warns. */
const NEAR = 0.8;

/** Prices and budgets as the configuration has them. */
export function Prices() {
  const prices = useGet("/api/v1/prices");
  const costs = useByContext("cost");
  const calls = useByContext("calls");
  return (
    <Answer query={prices}>
      {({ currency, models, budgets }) => (
        <>
          {models.length === 0 ? (
            <Empty icon="table" title={say.none}>
              {say.noneHint}
              <Edit />
            </Empty>
          ) : (
            <Section title={say.label} actions={<Edit />}>
              <p className="mb-2 text-xs text-muted">{say.currency(currency)}</p>
              <DataTable
                label={say.label}
                rows={models}
                columns={columnsOf(models, currency)}
                rowKey={({ model }) => model}
              />
            </Section>
          )}
          <Section title={say.budgets}>
            <DataTable
              label={say.budgets}
              rows={budgets}
              columns={budgetColumns(currency, meanCosts(costs.data, calls.data, currency))}
              rowKey={({ context }) => context}
              empty={<p className="text-muted">{say.noBudgets}</p>}
            />
          </Section>
        </>
      )}
    </Answer>
  );
}

function useByContext(measure: string) {
  const enabled = useMay("analytics.read");
  return useGet(
    "/api/v1/analytics/{measure}",
    { path: { measure }, query: { by: "context" } },
    { enabled },
  );
}

function Edit() {
  return (
    <LinkButton to="/contexts" search={{ at: "prices" }}>
      {say.edit}
    </LinkButton>
  );
}

/** A column for each unit that some model has a price for. */
function columnsOf(models: readonly Model[], currency: string): Column<Model>[] {
  const units = Object.keys(say.units).filter((unit) =>
    models.some(({ prices }) => unit in prices),
  );
  return [
    {
      id: "model",
      head: say.model,
      cell: ({ model }) => <span className="font-mono text-xs">{model}</span>,
    },
    ...units.map(
      (unit): Column<Model> => ({
        id: unit,
        head: say.units[unit],
        align: "end",
        cell: ({ prices }) => <Money amount={prices[unit]} currency={currency} />,
      }),
    ),
  ];
}

function budgetColumns(currency: string, means: ReadonlyMap<string, number>): Column<Budget>[] {
  return [
    {
      id: "context",
      head: say.context,
      cell: ({ context }) => (
        <Link to="/contexts/$context" params={{ context }} className="text-accent hover:underline">
          {context}
        </Link>
      ),
    },
    {
      id: "cost",
      head: say.perCall,
      align: "end",
      cell: ({ max_cost_per_call }) => <Money amount={max_cost_per_call} currency={currency} />,
    },
    {
      id: "mean",
      head: say.mean,
      align: "end",
      cell: ({ context, max_cost_per_call: most }) => {
        const mean = means.get(context);
        if (mean === undefined) return <span className="text-muted">–</span>;
        return (
          <span className="inline-flex items-center gap-2">
            {most !== null && (
              <meter
                aria-label={say.share(context)}
                className="h-2 w-24"
                max={most}
                high={most * NEAR}
                value={mean}
              />
            )}
            <Money amount={mean} currency={currency} />
          </span>
        );
      },
    },
    {
      id: "minutes",
      head: say.minutes,
      align: "end",
      cell: ({ max_minutes }) =>
        max_minutes === null ? <span className="text-muted">–</span> : say.minutesOf(max_minutes),
    },
  ];
}
