// One MCP server: what it is, how to move it, its definitions, its stderr and its messages.
import { Link } from "@tanstack/react-router";
import { type ReactNode, useState } from "react";

import { useGet, useSend } from "../../app/api.ts";
import { useMay } from "../../app/session.ts";
import { Badge } from "../../parts/badge.tsx";
import { Button, IconButton, LinkButton } from "../../parts/button.tsx";
import { cx } from "../../parts/cx.ts";
import { Confirm } from "../../parts/dialog.tsx";
import { Menu, type MenuItem } from "../../parts/menu.tsx";
import { Tabs } from "../../parts/tabs.tsx";
import { clockText, Time, useNow } from "../../parts/time.tsx";
import { words } from "../../words/tools.ts";
import { useChoices } from "./choices.ts";
import { SERVER_VIEWS, type ServerView } from "./search.ts";
import { Definitions } from "./server-lock.tsx";
import { Messages, Stderr } from "./server-tails.tsx";
import { type Server, StateMark } from "./servers.tsx";

export function ServerDetails({ server }: { server: Server }) {
  const [{ view }, change] = useChoices();
  const current = SERVER_VIEWS.find((each) => each === view) ?? "overview";
  const tabs = SERVER_VIEWS.map((id) => ({ id, label: words.servers.views[id] }));
  return (
    <section
      aria-label={server.server}
      className="min-w-0 rounded-lg border border-line bg-raised px-4 pt-3 pb-4"
    >
      <Head server={server} />
      <Tabs<ServerView>
        label={server.server}
        tabs={tabs}
        current={current}
        onChange={(next) => change({ server: server.server, view: next })}
      >
        {current === "overview" && <Overview server={server} />}
        {current === "definitions" && <Definitions server={server.server} />}
        {current === "stderr" && <Stderr server={server.server} />}
        {current === "messages" && <Messages server={server.server} />}
      </Tabs>
    </section>
  );
}

const LISTED = ["/api/v1/mcp", "/api/v1/tools"] as const;

function Head({ server }: { server: Server }) {
  const mayEdit = useMay("config.draft");
  const mayMove = useMay("mcp.control");
  const path = { server: server.server };
  const test = useSend("post", "/api/v1/mcp/{server}/test", { stale: LISTED });
  const found = test.data;
  return (
    <div className="mb-2">
      <div className="flex flex-wrap items-center gap-2">
        <h2 className="mr-auto flex min-w-0 items-center gap-3 text-lg break-all">
          {server.server}
          <span className="text-sm font-normal">
            <StateMark server={server} />
          </span>
        </h2>
        {mayMove && (
          <Button busy={test.isPending} onClick={() => test.mutate({ path })}>
            {words.servers.test}
          </Button>
        )}
        {mayEdit && (
          <LinkButton to="/mcp" search={{ edit: server.server }} icon="edit">
            {words.servers.edit}
          </LinkButton>
        )}
        {mayMove && <Moves server={server} />}
      </div>
      {found && (
        <div
          role="status"
          className={cx(
            "mt-2 rounded-md px-3 py-1.5",
            found.ok ? "bg-good-soft text-good" : "bg-bad-soft text-bad",
          )}
        >
          {found.ok ? (
            words.server.testGood(found.took_ms, found.tools.length)
          ) : (
            <>
              <p className="font-medium">{words.server.testBad}</p>
              <p className="break-words">{found.error}</p>
              {found.stderr.length > 0 && (
                <pre className="mt-1 max-h-40 overflow-auto font-mono text-xs whitespace-pre-wrap">
                  {found.stderr.join("\n")}
                </pre>
              )}
            </>
          )}
        </div>
      )}
    </div>
  );
}

/** Start, restart and stop; those that callers would notice ask first. */
function Moves({ server }: { server: Server }) {
  const [asking, setAsking] = useState<"stop" | "restart" | null>(null);
  const options = { stale: LISTED, onDone: () => setAsking(null) };
  const start = useSend("post", "/api/v1/mcp/{server}/start", options);
  const stop = useSend("post", "/api/v1/mcp/{server}/stop", options);
  const restart = useSend("post", "/api/v1/mcp/{server}/restart", options);
  const path = { server: server.server };
  const runs = !["stopped", "failed", "idle"].includes(server.state);
  const items: MenuItem[] = [
    {
      label: words.servers.start,
      icon: "play",
      disabled: runs,
      onSelect: () => start.mutate({ path }),
    },
    { label: words.servers.restart, icon: "refresh", onSelect: () => setAsking("restart") },
    {
      label: words.servers.stop,
      icon: "stop",
      danger: true,
      disabled: server.state === "stopped",
      onSelect: () => setAsking("stop"),
    },
  ];
  return (
    <>
      <Menu trigger={<IconButton label={words.servers.more} icon="more" />} items={items} />
      {asking === "stop" && (
        <Confirm
          title={words.servers.stopTitle(server.server)}
          about={words.servers.stopAbout}
          confirm={words.servers.stop}
          danger
          busy={stop.isPending}
          onConfirm={() => stop.mutate({ path })}
          onClose={() => setAsking(null)}
        />
      )}
      {asking === "restart" && (
        <Confirm
          title={words.servers.restartTitle(server.server)}
          about={words.servers.restartAbout}
          confirm={words.servers.restart}
          busy={restart.isPending}
          onConfirm={() => restart.mutate({ path })}
          onClose={() => setAsking(null)}
        />
      )}
    </>
  );
}

function Overview({ server }: { server: Server }) {
  const facts: [string, ReactNode][] = [
    [
      words.server.state,
      <>
        {server.state}, <Time at={server.since} relative />
        {server.again_at && <AgainIn at={server.again_at} />}
      </>,
    ],
    [words.server.restarts, server.restarts],
    [words.server.breaker, server.breaker],
    [words.server.reportedBy, server.breaker_reported_by.join(", ")],
    [words.server.runsAt, server.runs_at],
    [words.server.protocol, server.protocol],
    [words.server.capabilities, server.capabilities.join(", ")],
    [words.server.pid, server.pid],
    [words.server.error, server.last_error],
  ];
  return (
    <div className="grid gap-4">
      <dl className="grid grid-cols-[max-content_minmax(0,1fr)] gap-x-4 gap-y-1">
        {facts.map(([name, value]) =>
          value === null || value === "" ? null : (
            <div key={name} className="contents">
              <dt className="text-muted">{name}</dt>
              <dd className="break-words">{value}</dd>
            </div>
          ),
        )}
      </dl>
      <ToolsOf server={server} />
    </div>
  );
}

/** The pause before the next start, as it passes. */
function AgainIn({ at }: { at: string }) {
  const now = useNow(1_000);
  const left = Math.max(0, new Date(at).getTime() - now);
  return <span className="text-warn"> – {words.servers.againIn(clockText(left))}</span>;
}

function ToolsOf({ server }: { server: Server }) {
  const tools = useGet("/api/v1/tools", { query: {} });
  const exposed = new Map(tools.data?.tools.map((each) => [each.origin, each.name]));
  return (
    <div>
      <h3 className="mb-1">
        {words.server.tools} <span className="font-normal text-muted">{server.tools.length}</span>
      </h3>
      {server.tools.length === 0 && <p className="text-muted">{words.server.noTools}</p>}
      <ul className="grid gap-x-4 gap-y-0.5 sm:grid-cols-2">
        {server.tools.map((name) => {
          const tool = exposed.get(`mcp:${server.server}:${name}`);
          return (
            <li key={name} className="flex min-h-6 min-w-0 items-center gap-1.5">
              {tool === undefined ? (
                <span className="font-mono text-xs break-all">{name}</span>
              ) : (
                <Link
                  to="/tools/$tool"
                  params={{ tool }}
                  className="font-mono text-xs break-all text-accent hover:underline"
                >
                  {name}
                </Link>
              )}
              {server.quarantined.includes(name) && (
                <Badge tone="warn">{words.server.quarantined}</Badge>
              )}
            </li>
          );
        })}
      </ul>
    </div>
  );
}
