// The tools that a server lists against the accepted ones (`mcp.lock`).
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { keyOf, Refused, type Schema, sentence, useGet, useSend } from "../../app/api.ts";
import { useMay } from "../../app/session.ts";
import { Answer } from "../../parts/answer.tsx";
import { Badge, type Tone } from "../../parts/badge.tsx";
import { Button } from "../../parts/button.tsx";
import { cx } from "../../parts/cx.ts";
import { Confirm } from "../../parts/dialog.tsx";
import { toast } from "../../parts/toast.tsx";
import { words } from "../../words/tools.ts";
import { Marked } from "./marked.tsx";

type ServerLock = Schema<"ServerLock">;

const TONES: Record<ServerLock["state"], Tone> = {
  same: "good",
  changed: "warn",
  new: "accent",
  gone: "neutral",
  unseen: "neutral",
};

export function Definitions({ server }: { server: string }) {
  const lock = useGet("/api/v1/mcp/lock");
  return (
    <Answer query={lock}>
      {({ mode, servers }) => {
        const found = servers.find((each) => each.name === server);
        return (
          <div className="grid gap-3">
            <p className="text-muted">
              <Marked text={words.lock.modes[mode]} />
            </p>
            {found && <Compared key={found.digest} lock={found} />}
          </div>
        );
      }}
    </Answer>
  );
}

function Compared({ lock }: { lock: ServerLock }) {
  const mayAccept = useMay("mcp.accept");
  const [asking, setAsking] = useState(false);
  const differs = lock.state === "changed" || lock.state === "new";
  return (
    <>
      <div className="flex flex-wrap items-center gap-2">
        <Badge tone={TONES[lock.state]}>{words.lock.states[lock.state]}</Badge>
        {differs && mayAccept && (
          <Button className="ml-auto" icon="check" onClick={() => setAsking(true)}>
            {words.lock.accept}
          </Button>
        )}
      </div>
      {lock.diff.length > 0 && (
        <section
          tabIndex={0}
          aria-label={words.lock.diff}
          className="max-h-[60vh] overflow-auto rounded-md border border-line bg-surface py-1 font-mono text-xs"
        >
          {lock.diff.map((line, index) => (
            <DiffText
              // biome-ignore lint/suspicious/noArrayIndexKey: lines may be equal, and never move
              key={index}
              line={line}
            />
          ))}
        </section>
      )}
      {asking && <Accept lock={lock} onClose={() => setAsking(false)} />}
    </>
  );
}

function DiffText({ line }: { line: string }) {
  const added = line.startsWith("+");
  const removed = line.startsWith("-");
  return (
    <div
      className={cx(
        "px-3 whitespace-pre-wrap break-words",
        added && "bg-good-soft",
        removed && "bg-bad-soft",
        !added && !removed && "font-semibold",
      )}
    >
      {line || "\u00a0"}
    </div>
  );
}

function Accept({ lock, onClose }: { lock: ServerLock; onClose: () => void }) {
  const queries = useQueryClient();
  const accepting = useSend("post", "/api/v1/mcp/lock/accept", {
    stale: ["/api/v1/mcp/lock", "/api/v1/mcp", "/api/v1/tools"],
    quiet: true,
    onDone: () => {
      toast(words.lock.accepted);
      onClose();
    },
  });
  const accept = () =>
    accepting.mutate(
      { body: { server: lock.name, digest: lock.digest } },
      {
        onError: (error) => {
          const meanwhile = error instanceof Refused && error.status === 409;
          toast.bad(
            meanwhile ? `${words.lock.changedMeanwhile} ${sentence(error)}` : sentence(error),
          );
          void queries.invalidateQueries({ queryKey: keyOf("/api/v1/mcp/lock") });
          onClose();
        },
      },
    );
  return (
    <Confirm
      title={words.lock.acceptTitle(lock.name)}
      about={words.lock.acceptAbout}
      confirm={words.lock.accept}
      busy={accepting.isPending}
      onConfirm={accept}
      onClose={onClose}
    />
  );
}
