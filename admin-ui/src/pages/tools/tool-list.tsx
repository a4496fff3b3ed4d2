import { Link, useNavigate } from "@tanstack/react-router";
import { useDeferredValue, useMemo, useState } from "react";

import { type Schema, useGet } from "../../app/api.ts";
import { Answer, Empty } from "../../parts/answer.tsx";
import { Badge, type Tone } from "../../parts/badge.tsx";
import { Button } from "../../parts/button.tsx";
import { Field, LateInput, Select, Switch } from "../../parts/field.tsx";
import { Page } from "../../parts/page.tsx";
import { sorted } from "../../parts/sorted.ts";
import { type Column, DataTable } from "../../parts/table.tsx";
import { Duration } from "../../parts/time.tsx";
import { words } from "../../words/tools.ts";
import { useChoices } from "./choices.ts";
import { EFFECTS, oneEffect, type Search } from "./search.ts";
import { Sections } from "./sections.tsx";
import { filtered, type Tool, type ToolLine, toolLines, valuesOf } from "./tool-lines.ts";

const DAYS = 7;
const SHOWN = 200;
const list = words.list;

/** All tools, with where each is offered and what calls made of it. */
export function ToolList() {
  const tools = useGet("/api/v1/tools", { query: {} }, { refetchInterval: 10_000 });
  const usage = useGet("/api/v1/tool-usage", { query: { days: DAYS } });
  return (
    <Page title={words.title}>
      <Sections current="/tools" />
      <Answer query={tools}>
        {({ tools }) =>
          tools.length === 0 ? (
            <Empty icon="tools" title={list.noTools}>
              {list.noToolsHint}
            </Empty>
          ) : (
            <Listed tools={tools} totals={usage.data?.tools ?? NO_TOTALS} />
          )
        }
      </Answer>
    </Page>
  );
}

const NO_TOTALS: Schema<"ToolTotals">[] = [];

function Listed({ tools, totals }: { tools: Tool[]; totals: Schema<"ToolTotals">[] }) {
  const [choices, change] = useChoices();
  const [all, setAll] = useState(false);
  const navigate = useNavigate();
  const wanted = useDeferredValue(choices);
  const lines = useMemo(() => toolLines(tools, totals), [tools, totals]);
  const found = useMemo(
    () => sorted(filtered(lines, wanted), COLUMNS, wanted.sort),
    [lines, wanted],
  );
  const rest = all ? 0 : Math.max(0, found.length - SHOWN);
  return (
    <>
      <Filters tools={tools} choices={choices} change={change} />
      <div className="mb-2 flex items-baseline justify-between text-xs text-muted">
        <p role="status">{list.shown(found.length, tools.length)}</p>
        <p className="phone:hidden">{list.days(DAYS)}</p>
      </div>
      <div className="rounded-lg border border-line bg-raised">
        <DataTable
          label={list.label}
          rows={rest ? found.slice(0, SHOWN) : found}
          columns={COLUMNS}
          rowKey={({ tool }) => `${tool.name} ${tool.origin}`}
          sort={wanted.sort}
          onSort={(sort) => change({ sort })}
          onOpen={({ tool }) => void navigate({ to: "/tools/$tool", params: { tool: tool.name } })}
          empty={
            <Empty icon="search" title={list.noMatch}>
              <Button onClick={() => change(NO_FILTERS)}>{list.clear}</Button>
            </Empty>
          }
        />
      </div>
      {rest > 0 && (
        <Button className="mt-2" onClick={() => setAll(true)}>
          {list.more(rest)}
        </Button>
      )}
    </>
  );
}

const NO_FILTERS: Search = {
  q: undefined,
  kind: undefined,
  server: undefined,
  effects: undefined,
  context: undefined,
  missing: undefined,
};

interface FiltersProps {
  tools: readonly Tool[];
  choices: Search;
  change: (change: Partial<Search>) => void;
}

function Filters({ tools, choices, change }: FiltersProps) {
  const filter = (
    label: string,
    value: string,
    values: readonly string[],
    set: (value: string) => void,
  ) =>
    values.length > 0 || value ? (
      <Field label={label}>
        <Select
          value={value}
          onValue={set}
          options={[
            { value: "", label: list.all },
            ...values.map((each) => ({ value: each, label: effectWord(each) })),
          ]}
        />
      </Field>
    ) : null;
  return (
    <search className="mb-3 flex flex-wrap items-end gap-3 *:min-w-36 phone:*:min-w-[calc(50%-0.5rem)]">
      <div className="min-w-56 flex-1">
        <Field label={list.search}>
          <LateInput
            type="search"
            data-search=""
            value={choices.q ?? ""}
            onValue={(q) => change({ q: q || undefined })}
          />
        </Field>
      </div>
      {filter(
        list.kind,
        choices.kind ?? "",
        valuesOf(tools, ({ kind }) => [kind]),
        (kind) => change({ kind: kind || undefined }),
      )}
      {filter(
        list.server,
        choices.server ?? "",
        valuesOf(tools, ({ server }) => [server]),
        (server) => change({ server: server || undefined }),
      )}
      {filter(list.effects, choices.effects ?? "", EFFECTS, (effects) =>
        change({ effects: oneEffect(effects) }),
      )}
      {filter(
        list.context,
        choices.context ?? "",
        valuesOf(tools, ({ contexts }) => contexts),
        (context) => change({ context: context || undefined }),
      )}
      <Switch
        className="mb-1"
        label={list.missing}
        checked={choices.missing ?? false}
        onChecked={(missing) => change({ missing: missing || undefined })}
      />
    </search>
  );
}

/** The word for an effect; other words stay as they are. */
export function effectWord(effects: string): string {
  const known = oneEffect(effects);
  return known ? words.effects[known] : effects;
}

const TONES: Record<string, Tone> = {
  read_only: "good",
  idempotent: "accent",
  destructive: "warn",
};

export function EffectBadge({ effects }: { effects: string }) {
  if (!effects) return null;
  return <Badge tone={TONES[effects] ?? "neutral"}>{effectWord(effects)}</Badge>;
}

const MOST_CONTEXTS = 2;

function Contexts({ tool }: { tool: Tool }) {
  if (tool.contexts.length === 0) {
    return <span className="text-muted">{tool.offered ? list.nowhere : "–"}</span>;
  }
  const rest = tool.contexts.length - MOST_CONTEXTS;
  return (
    <span title={tool.contexts.join(", ")}>
      {tool.contexts.slice(0, MOST_CONTEXTS).join(", ")}
      {rest > 0 && <span className="text-muted"> {list.others(rest)}</span>}
    </span>
  );
}

const COLUMNS: readonly Column<ToolLine>[] = [
  {
    id: "name",
    head: list.head.name,
    value: ({ tool }) => tool.name,
    cell: ({ tool }) => (
      <div className="max-w-[36rem] min-w-0">
        <Link
          to="/tools/$tool"
          params={{ tool: tool.name }}
          className="font-mono text-xs font-medium break-all text-accent hover:underline"
          onClick={(event) => event.stopPropagation()}
        >
          {tool.name}
        </Link>
        <p className="line-clamp-1 text-xs text-muted">
          {tool.offered ? tool.description : `${list.notOffered}: ${tool.why_not}`}
        </p>
      </div>
    ),
  },
  {
    id: "kind",
    head: list.head.kind,
    value: ({ tool }) => tool.kind,
    cell: ({ tool }) => tool.kind,
    wide: true,
  },
  {
    id: "server",
    head: list.head.server,
    value: ({ tool }) => tool.server,
    cell: ({ tool }) => tool.server || <span className="text-muted">–</span>,
    wide: true,
  },
  {
    id: "effects",
    head: list.head.effects,
    value: ({ tool }) => tool.effects,
    cell: ({ tool }) =>
      tool.offered ? (
        <EffectBadge effects={tool.effects} />
      ) : (
        <Badge tone="bad">{list.notOffered}</Badge>
      ),
  },
  {
    id: "contexts",
    head: list.head.contexts,
    value: ({ tool }) => tool.contexts.length,
    cell: ({ tool }) => <Contexts tool={tool} />,
    wide: true,
  },
  {
    id: "calls",
    head: list.head.calls,
    align: "end",
    value: ({ calls }) => calls,
    cell: ({ calls }) => calls || <span className="text-muted">–</span>,
  },
  {
    id: "failures",
    head: list.head.failures,
    align: "end",
    value: ({ failures }) => failures,
    cell: ({ calls, failures }) => {
      if (calls === 0) return <span className="text-muted">–</span>;
      return <span className={failures ? "font-medium text-bad" : ""}>{failures}</span>;
    },
    wide: true,
  },
  {
    id: "p50",
    head: list.head.p50,
    align: "end",
    value: ({ p50 }) => p50 ?? -1,
    cell: ({ p50 }) => <Duration ms={p50} />,
    wide: true,
  },
  {
    id: "p95",
    head: list.head.p95,
    align: "end",
    value: ({ p95 }) => p95 ?? -1,
    cell: ({ p95 }) => <Duration ms={p95} />,
    wide: true,
  },
  {
    id: "last",
    head: list.head.last,
    align: "end",
    value: ({ lastDay }) => lastDay,
    cell: ({ lastDay }) =>
      lastDay ? (
        <span className="whitespace-nowrap">{lastDay}</span>
      ) : (
        <span className="text-muted">–</span>
      ),
    wide: true,
  },
];
