// The version of the configuration that the call ran on, and its lines about the context.
import { useMemo } from "react";

import { useGet } from "../../app/api.ts";
import { seesAll, useMay, useSession } from "../../app/session.ts";
import { Answer, Empty } from "../../parts/answer.tsx";
import { LinkButton } from "../../parts/button.tsx";
import { Copy } from "../../parts/code.tsx";
import { words } from "../../words/call.ts";
import { contextLines } from "./context-lines.ts";
import type { Call } from "./timeline.ts";

export function ConfigTab({ call: { row } }: { call: Call }) {
  const reads = useMay("config.read");
  const all = seesAll(useSession());
  const { config = "", context = "" } = row;
  if (!config) return <Empty title={words.config.none} />;
  return (
    <div className="grid gap-3 px-4 pb-4">
      <p className="flex flex-wrap items-center gap-2">
        <span className="text-muted">{words.config.version}</span>
        <code className="truncate font-mono text-xs">{config.slice(0, 12)}</code>
        <Copy text={config} />
        {reads && context && (
          <span className="ml-auto flex gap-2">
            {all && (
              <LinkButton
                small
                to="/contexts/$context"
                params={{ context }}
                search={{ tab: "versions", from: config }}
              >
                {words.config.compare}
              </LinkButton>
            )}
            <LinkButton small to="/contexts/$context" params={{ context }}>
              {words.config.open}
            </LinkButton>
          </span>
        )}
      </p>
      {reads && all && <Lines version={config} context={context} />}
    </div>
  );
}

function Lines({ version, context }: { version: string; context: string }) {
  const query = useGet(
    "/api/v1/config/versions/{version}",
    { path: { version } },
    { staleTime: Number.POSITIVE_INFINITY },
  );
  const text = query.data?.text ?? "";
  const found = useMemo(() => contextLines(text, context), [text, context]);
  return (
    <Answer query={query}>
      {() =>
        found ? (
          <figure>
            <figcaption className="mb-1 text-muted">
              {words.config.lines(context)},{" "}
              {words.config.line(found.first, found.first + found.lines.length - 1)}
            </figcaption>
            <pre
              tabIndex={0}
              className="overflow-x-auto rounded-md border border-line bg-surface p-3 font-mono text-xs"
            >
              {found.lines.join("\n")}
            </pre>
          </figure>
        ) : (
          <p className="text-muted">{words.config.notFound}</p>
        )
      }
    </Answer>
  );
}
