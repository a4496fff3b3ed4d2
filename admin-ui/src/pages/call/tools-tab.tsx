// Every tool call: what it was asked, what came back, and what the model got of it.
import { Link } from "@tanstack/react-router";
import { type ReactNode, useEffect, useRef } from "react";

import { useMay } from "../../app/session.ts";
import { Empty } from "../../parts/answer.tsx";
import { Badge } from "../../parts/badge.tsx";
import { Button } from "../../parts/button.tsx";
import { Json } from "../../parts/code.tsx";
import { Duration } from "../../parts/time.tsx";
import { words } from "../../words/call.ts";
import { rulerText } from "./draw.ts";
import type { Shown } from "./shown.ts";
import { approvalsOf, type Call, type Tool } from "./timeline.ts";

export function ToolsTab({ shown }: { shown: Shown }) {
  const { tools } = shown.call;
  if (tools.length === 0) return <Empty icon="tools" title={words.tools.none} />;
  return (
    <ul className="px-4 pb-4">
      {tools.map((tool) => (
        <ToolUse key={tool.id} tool={tool} shown={shown} />
      ))}
    </ul>
  );
}

function ToolUse({ tool, shown }: { tool: Tool; shown: Shown }) {
  const details = useRef<HTMLDetailsElement>(null);
  const chosen = shown.search.tool === tool.id;
  useEffect(() => {
    if (!chosen || !details.current) return;
    details.current.open = true;
    details.current.scrollIntoView({ block: "nearest" });
  }, [chosen]);
  return (
    <li className="border-b border-line last:border-0">
      <details ref={details} open={chosen || shown.call.tools.length === 1}>
        <summary className="flex min-h-9 cursor-pointer items-center gap-2">
          <span className="w-10 shrink-0 font-mono text-xs text-muted">
            {rulerText(tool.begin_ms, false)}
          </span>
          <code className="min-w-0 flex-1 truncate font-mono text-xs">{tool.name}</code>
          {tool.status !== "ok" && (
            <Badge tone="bad">{words.statuses[tool.status] ?? tool.status}</Badge>
          )}
          <Duration ms={tool.end_ms === null ? null : tool.end_ms - tool.begin_ms} />
        </summary>
        <ToolFacts tool={tool} shown={shown} />
      </details>
    </li>
  );
}

/** What is known of a tool call, by name; what is empty is not shown. */
function factsOf(tool: Tool, call: Call): [string, ReactNode][] {
  return [
    [words.tools.status, words.statuses[tool.status] ?? tool.status],
    [words.tools.reason, tool.reason],
    [words.tools.turn, words.turn.title(tool.turn)],
    [words.tools.server, tool.server],
    [words.tools.attempts, tool.attempts],
    [words.tools.source, tool.source === "run" ? "" : tool.source],
    [
      words.tools.approval,
      approvalsOf(tool, call.marks)
        .map((mark) => mark.text)
        .join("; "),
    ],
    [words.tools.filler, tool.filler],
    [words.tools.spoken, tool.spoken],
    [
      words.tools.late,
      tool.late &&
        `${tool.late} (${tool.late_told ? words.tools.lateTold : words.tools.lateUntold})`,
    ],
    [words.tools.cut, tool.cut.join("; ")],
  ];
}

function ToolFacts({ tool, shown }: { tool: Tool; shown: Shown }) {
  const readsTools = useMay("tools.read");
  const { go, player, personal } = shown;
  const facts = factsOf(tool, shown.call);
  return (
    <div className="grid gap-3 pb-4 pl-12">
      <dl className="grid grid-cols-[7rem_minmax(0,1fr)] gap-x-3 gap-y-1">
        {facts.map(([name, value]) =>
          value === "" ? null : (
            <div key={name} className="contents">
              <dt className="text-muted">{name}</dt>
              <dd className="break-words">{value}</dd>
            </div>
          ),
        )}
      </dl>
      {personal && <Value name={words.tools.arguments} value={tool.arguments} />}
      {personal && <Value name={words.tools.sent} value={tool.sent} />}
      <div className="flex flex-wrap gap-2">
        <Button
          small
          onClick={() => {
            player.seek(tool.begin_ms);
            go({ tool: tool.id, turn: tool.turn, at: Math.round(tool.begin_ms) });
          }}
        >
          {words.tools.jump}
        </Button>
        {readsTools && (
          <Link
            to="/tools/$tool"
            params={{ tool: tool.name }}
            className="inline-flex h-6 items-center px-2 text-xs text-accent hover:underline"
          >
            {words.tools.open}
          </Link>
        )}
      </div>
    </div>
  );
}

function Value({ name, value }: { name: string; value: unknown }) {
  return (
    <div>
      <p className="mb-1 text-muted">{name}</p>
      <Json value={value} label={name} />
    </div>
  );
}
