import { Link } from "@tanstack/react-router";

import { type Schema, useGet } from "../../app/api.ts";
import { useMay } from "../../app/session.ts";
import { Answer, Empty } from "../../parts/answer.tsx";
import { Badge, StatusDot } from "../../parts/badge.tsx";
import { LinkButton } from "../../parts/button.tsx";
import { CodeBlock, Json } from "../../parts/code.tsx";
import { Page } from "../../parts/page.tsx";
import { type Column, DataTable } from "../../parts/table.tsx";
import { Tabs } from "../../parts/tabs.tsx";
import { Duration, Time } from "../../parts/time.tsx";
import { words } from "../../words/tools.ts";
import { useChoices } from "./choices.ts";
import { Marked } from "./marked.tsx";
import { TOOL_VIEWS, type ToolView } from "./search.ts";
import { EffectBadge } from "./tool-list.tsx";
import { StatusBadge } from "./tried.tsx";
import { Try } from "./try.tsx";

type Details = Schema<"ToolDetails">;
type Place = Schema<"Place">;
type Use = Schema<"Use">;

/** One tool: its tester, where it is offered, its last uses, its schema. */
export function ToolPage({ name }: { name: string }) {
  const tool = useGet("/api/v1/tools/{name}", { path: { name }, query: {} });
  return (
    <Page
      title={name}
      actions={
        <LinkButton to="/tools" icon="left" look="quiet">
          {words.tool.back}
        </LinkButton>
      }
    >
      <Answer query={tool}>{(found) => <Shown tool={found} />}</Answer>
    </Page>
  );
}

function Shown({ tool }: { tool: Details }) {
  const [{ view }, change] = useChoices();
  const current = TOOL_VIEWS.find((each) => each === view) ?? "try";
  const tabs = TOOL_VIEWS.map((id) => ({ id, label: words.tool.views[id] }));
  return (
    <>
      <About tool={tool} />
      <Tabs<ToolView>
        label={tool.name}
        tabs={tabs}
        current={current}
        onChange={(next) => change({ view: next })}
      >
        {current === "try" && <Try tool={tool} />}
        {current === "places" && <Places places={tool.places} />}
        {current === "uses" && <Uses name={tool.name} />}
        {current === "schema" && (
          <CodeBlock
            text={JSON.stringify(tool.parameters, null, 2)}
            label={words.tool.views.schema}
          />
        )}
      </Tabs>
    </>
  );
}

function About({ tool }: { tool: Details }) {
  return (
    <div className="mb-4 max-w-prose">
      <div className="mb-2 flex flex-wrap items-center gap-1.5">
        {tool.kind && <Badge>{tool.kind}</Badge>}
        {tool.offered ? (
          <EffectBadge effects={tool.effects} />
        ) : (
          <Badge tone="bad">{words.list.notOffered}</Badge>
        )}
        {tool.approval === "caller" && <Badge tone="warn">{words.tool.approval}</Badge>}
        {tool.server ? (
          <Link to="/mcp" search={{ server: tool.server }} className="text-accent hover:underline">
            {tool.origin}
          </Link>
        ) : (
          <span className="text-muted">{tool.origin}</span>
        )}
      </div>
      <p className="break-words whitespace-pre-line">
        {tool.description ? (
          <Marked text={tool.description} />
        ) : (
          <span className="text-muted">{words.tool.noDescription}</span>
        )}
      </p>
    </div>
  );
}

const PLACES: readonly Column<Place>[] = [
  {
    id: "context",
    head: words.places.context,
    value: ({ context }) => context,
    cell: ({ context }) => (
      <Link to="/contexts/$context" params={{ context }} className="text-accent hover:underline">
        {context}
      </Link>
    ),
  },
  {
    id: "provider",
    head: words.places.provider,
    value: ({ provider }) => provider,
    cell: ({ provider }) => provider,
  },
  {
    id: "offered",
    head: words.places.offered,
    value: ({ offered }) => Number(offered),
    cell: ({ offered, why_not }) => (
      <div>
        <span className="inline-flex items-center gap-1.5 whitespace-nowrap">
          <StatusDot tone={offered ? "good" : "neutral"} />
          {offered ? words.places.offered : words.places.not}
        </span>
        {why_not && <p className="text-xs break-words text-muted">{why_not}</p>}
      </div>
    ),
  },
  {
    id: "notes",
    head: words.places.notes,
    cell: ({ notes }) =>
      notes.length === 0 ? (
        <span className="text-muted">–</span>
      ) : (
        <ul className="list-disc pl-4 text-xs">
          {notes.map((note) => (
            <li key={note}>{note}</li>
          ))}
        </ul>
      ),
    wide: true,
  },
];

function Places({ places }: { places: readonly Place[] }) {
  const [{ sort }, change] = useChoices();
  return (
    <div className="rounded-lg border border-line bg-raised">
      <DataTable
        label={words.places.label}
        rows={places}
        columns={PLACES}
        rowKey={({ context, provider }) => `${context} ${provider}`}
        sort={sort}
        onSort={(next) => change({ sort: next })}
        empty={<Empty title={words.places.none} />}
      />
    </div>
  );
}

const USES: readonly Column<Use>[] = [
  { id: "when", head: words.uses.when, cell: ({ at }) => <Time at={at} />, width: "11rem" },
  {
    id: "call",
    head: words.uses.call,
    cell: ({ call_id, context }) => (
      <div>
        <Link
          to="/calls/$callId"
          params={{ callId: call_id }}
          className="font-mono text-xs text-accent hover:underline"
        >
          {call_id.slice(0, 8)}
        </Link>
        <p className="text-xs text-muted">{context}</p>
      </div>
    ),
  },
  {
    id: "status",
    head: words.uses.status,
    cell: ({ status, cut }) => (
      <span className="inline-flex flex-wrap gap-1">
        <StatusBadge status={status} />
        {cut.length > 0 && <Badge>{words.uses.cut(cut.length)}</Badge>}
      </span>
    ),
  },
  {
    id: "took",
    head: words.uses.took,
    align: "end",
    cell: ({ took_ms }) => <Duration ms={took_ms} />,
    wide: true,
  },
  {
    id: "arguments",
    head: words.uses.arguments,
    width: "55%",
    cell: (use) => (
      <details>
        <summary className="line-clamp-1 min-h-6 cursor-pointer font-mono text-xs break-all">
          {JSON.stringify(use.arguments)}
        </summary>
        <div className="grid gap-2 py-1">
          <Json value={use.arguments} label={words.uses.arguments} />
          {use.message && <p className="break-words">{use.message}</p>}
          {Object.keys(use.data).length > 0 && <Json value={use.data} label={words.uses.answer} />}
        </div>
      </details>
    ),
  },
];

function Uses({ name }: { name: string }) {
  const uses = useGet("/api/v1/tools/{name}/uses", { path: { name } });
  const personal = useMay("personal");
  return (
    <Answer query={uses}>
      {({ uses }) => (
        <>
          {!personal && uses.length > 0 && <p className="mb-2 text-muted">{words.uses.masked}</p>}
          <div className="rounded-lg border border-line bg-raised">
            <DataTable
              label={words.uses.label}
              rows={uses}
              columns={USES}
              rowKey={({ call_id, at }) => `${call_id} ${at}`}
              empty={<Empty icon="tools" title={words.uses.none} />}
            />
          </div>
        </>
      )}
    </Answer>
  );
}
