// The MCP servers of the engine: their states as they change, and one of them in full.
import { Link } from "@tanstack/react-router";
import { useMemo } from "react";

import { type Schema, useGet } from "../../app/api.ts";
import { isNewer, type Topic, useTopic } from "../../app/live.ts";
import { useMay } from "../../app/session.ts";
import { Answer, Empty, StaleNote } from "../../parts/answer.tsx";
import { Badge, StatusDot, type Tone } from "../../parts/badge.tsx";
import { LinkButton } from "../../parts/button.tsx";
import { Page } from "../../parts/page.tsx";
import { type Column, DataTable } from "../../parts/table.tsx";
import { words } from "../../words/tools.ts";
import { useChoices } from "./choices.ts";
import { Sections } from "./sections.tsx";
import { ServerDetails } from "./server-details.tsx";

export type Server = Schema<"Server">;

const TONES: Record<string, Tone> = {
  ready: "good",
  starting: "warn",
  restarting: "warn",
  failed: "bad",
};

/** The state of a server as a word with a mark. */
export function StateMark({ server }: { server: Pick<Server, "state"> }) {
  return (
    <span className="inline-flex items-center gap-1.5 whitespace-nowrap">
      <StatusDot tone={TONES[server.state] ?? "neutral"} />
      {server.state}
    </span>
  );
}

export function ServersPage() {
  const listed = useGet("/api/v1/mcp");
  const topic = useTopic({ topic: "mcp" });
  const mayEdit = useMay("config.draft");
  const add = mayEdit && (
    <LinkButton to="/mcp" search={{ add: true }} icon="plus" look="primary">
      {words.servers.add}
    </LinkButton>
  );
  return (
    <Page title={words.title} actions={add}>
      <Sections current="/mcp" />
      {topic.state === "stale" && <StaleNote since={topic.since} />}
      <Answer query={listed}>
        {({ servers }) => (
          <Listed
            servers={(isNewer(listed, topic) ? null : inSnapshot(topic.snapshot)) ?? servers}
          />
        )}
      </Answer>
    </Page>
  );
}

/** The servers in a frame of the topic `mcp`. A frame says by its topic alone what it has. */
function inSnapshot(snapshot: Topic["snapshot"]): Server[] | undefined {
  if (!snapshot || Array.isArray(snapshot) || !("servers" in snapshot)) return undefined;
  return snapshot.servers as Server[];
}

function Listed({ servers }: { servers: Server[] }) {
  const [choices, change] = useChoices();
  const columns = useMemo(() => columnsOf(), []);
  if (servers.length === 0) {
    return (
      <Empty icon="tools" title={words.servers.none}>
        {words.servers.noneHint}
      </Empty>
    );
  }
  const chosen = servers.find((each) => each.server === choices.server) ?? servers[0];
  return (
    <div className="grid items-start gap-4 xl:grid-cols-[minmax(24rem,2fr)_minmax(0,3fr)]">
      <div className="rounded-lg border border-line bg-raised">
        <DataTable
          label={words.servers.label}
          rows={servers}
          columns={columns}
          rowKey={({ server }) => server}
          sort={choices.sort}
          onSort={(sort) => change({ sort })}
          onOpen={({ server }) => change({ server })}
        />
      </div>
      {chosen && <ServerDetails key={chosen.server} server={chosen} />}
    </div>
  );
}

function columnsOf(): Column<Server>[] {
  const { head } = words.servers;
  return [
    {
      id: "server",
      head: head.server,
      value: ({ server }) => server,
      cell: ({ server, last_error, state }) => (
        <div className="max-w-80 min-w-0">
          <Link
            to="/mcp"
            search={{ server }}
            className="font-medium break-all text-accent hover:underline"
            onClick={(event) => event.stopPropagation()}
          >
            {server}
          </Link>
          {last_error && state !== "ready" && (
            <p className="line-clamp-1 text-xs text-muted" title={last_error}>
              {last_error}
            </p>
          )}
        </div>
      ),
    },
    {
      id: "state",
      head: head.state,
      value: ({ state }) => state,
      cell: (server) => (
        <span className="inline-flex flex-wrap items-center gap-1.5">
          <StateMark server={server} />
          {server.breaker !== "closed" && (
            <Badge tone="warn">{words.servers.breaker(server.breaker)}</Badge>
          )}
        </span>
      ),
    },
    {
      id: "tools",
      head: head.tools,
      align: "end",
      value: ({ tools }) => tools.length,
      cell: ({ tools, quarantined }) => (
        <span className="inline-flex flex-wrap justify-end gap-1.5">
          {quarantined.length > 0 && (
            <Badge tone="warn">{words.servers.quarantined(quarantined.length)}</Badge>
          )}
          {tools.length}
        </span>
      ),
    },
    {
      id: "restarts",
      head: head.restarts,
      align: "end",
      value: ({ restarts }) => restarts,
      cell: ({ restarts }) => restarts,
      wide: true,
    },
  ];
}
