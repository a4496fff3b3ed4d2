// Starts a draft aside, to see whether one of its servers comes up before it is published.
import { useState } from "react";

import { get, type Schema, sentence, useSend } from "../../app/api.ts";
import { useMay } from "../../app/session.ts";
import { Button } from "../../parts/button.tsx";
import { cx } from "../../parts/cx.ts";
import { toast } from "../../parts/toast.tsx";
import { words } from "../../words/tools.ts";
import { StateMark } from "./servers.tsx";

type TrialServer = Schema<"TrialServer">;

const say = words.editor;
const LOOKS = 20;
const PAUSE_MS = 1_000;

interface ServerTrialProps {
  server: string;
  text: string;
  /** Digest of the version that the text was made from. */
  base: string;
}

export function ServerTrial({ server, text, base }: ServerTrialProps) {
  const mayPublish = useMay("config.publish");
  const [found, setFound] = useState<TrialServer | null>(null);
  const [waiting, setWaiting] = useState(false);
  const begin = useSend("post", "/api/v1/trials", { quiet: true });
  const end = useSend("delete", "/api/v1/trials/{trial_id}");
  if (!mayPublish) return <p className="text-xs text-muted">{say.tryNeeds}</p>;
  const run = async () => {
    setFound(null);
    setWaiting(true);
    try {
      const { contexts } = await get("/api/v1/config/uses");
      const context = contexts[0]?.context ?? "";
      const trial = await begin.mutateAsync({ body: { text, base, version: null, context } });
      try {
        setFound(await settled(trial, server));
      } finally {
        end.mutate({ path: { trial_id: trial.trial } });
      }
    } catch (error) {
      toast.bad(error instanceof Error ? sentence(error) : String(error));
    } finally {
      setWaiting(false);
    }
  };
  return (
    <div className="grid gap-2">
      <Button className="justify-self-start" icon="play" busy={waiting} onClick={() => void run()}>
        {waiting ? say.trying : say.try}
      </Button>
      <p className="text-xs text-muted">{say.tryAbout}</p>
      {found && (
        <div
          role="status"
          className={cx(
            "rounded-md px-3 py-1.5",
            found.state === "ready" ? "bg-good-soft" : "bg-bad-soft",
          )}
        >
          <StateMark server={found} />
          <p className="break-words">{found.last_error || found.tools.join(", ")}</p>
        </div>
      )}
    </div>
  );
}

/** The state of the server once it is up or down; at the latest after `LOOKS` looks. */
async function settled(trial: Schema<"TrialState">, server: string): Promise<TrialServer | null> {
  let state: Schema<"TrialState"> | undefined = trial;
  for (let look = 0; ; look++) {
    const found = state?.mcp.find((each) => each.server === server) ?? null;
    const moving = found !== null && ["starting", "idle"].includes(found.state);
    if (!moving || look >= LOOKS) return found;
    await new Promise((done) => setTimeout(done, PAUSE_MS));
    const { trials } = await get("/api/v1/trials");
    state = trials.find((each) => each.trial === trial.trial);
  }
}
