// Drain and reload: what an admin does to a running engine.
import { useState } from "react";

import { type Answered, type Schema, useSend } from "../../app/api.ts";
import { useMay } from "../../app/session.ts";
import { Button, LinkButton } from "../../parts/button.tsx";
import { Confirm, Dialog } from "../../parts/dialog.tsx";
import { toast } from "../../parts/toast.tsx";
import { words } from "../../words/engine.ts";
import { words as parts } from "../../words/parts.ts";

type Drain = Answered<"/api/v1/engine">["drain"];
type Reloaded = Schema<"Reloaded">;

export function EngineActions({ drain }: { drain: Drain }) {
  const may = useMay("engine.control");
  const mayCheck = useMay("config.draft");
  const [asking, setAsking] = useState<"drain" | "reload" | null>(null);
  const [report, setReport] = useState<Reloaded | null>(null);
  const close = () => setAsking(null);
  const stale = ["/api/v1/engine"] as const;
  const begin = useSend("post", "/api/v1/engine/drain", { stale, onDone: close });
  const end = useSend("post", "/api/v1/engine/undrain", { stale });
  const reload = useSend("post", "/api/v1/engine/reload", {
    stale,
    onDone: (done) => {
      close();
      if (isPlain(done)) toast(words.reloaded.nothing);
      else setReport(done);
    },
  });
  return (
    <>
      {mayCheck && (
        <LinkButton to="/setup" icon="check">
          {words.setup}
        </LinkButton>
      )}
      {may && (
        <Button icon="refresh" onClick={() => setAsking("reload")}>
          {words.reload}
        </Button>
      )}
      {may &&
        (drain.draining ? (
          <Button look="primary" icon="play" busy={end.isPending} onClick={() => end.mutate({})}>
            {words.undrain}
          </Button>
        ) : (
          <Button icon="pause" onClick={() => setAsking("drain")}>
            {words.drain}
          </Button>
        ))}
      {asking === "drain" && (
        <Confirm
          {...words.confirmDrain}
          busy={begin.isPending}
          onConfirm={() => begin.mutate({})}
          onClose={close}
        />
      )}
      {asking === "reload" && (
        <Confirm
          {...words.confirmReload}
          busy={reload.isPending}
          onConfirm={() => reload.mutate({})}
          onClose={close}
        />
      )}
      {report && <Report report={report} onClose={() => setReport(null)} />}
    </>
  );
}

const isPlain = (report: Reloaded) =>
  report.applied &&
  [report.changed, report.deferred, report.problems].every((each) => each.length === 0);

function Report({ report, onClose }: { report: Reloaded; onClose: () => void }) {
  const said = words.reloaded;
  const title = report.applied ? said.done(report.generation) : said.refused;
  return (
    <Dialog title={title} wide onClose={onClose}>
      <Part title={said.problems}>
        {report.problems.map((each) => (
          <li
            key={`${each.line} ${each.key} ${each.message}`}
            className={each.fatal ? "text-bad" : "text-warn"}
          >
            {each.key && <code className="font-mono">{each.key}</code>} {each.message}
            {each.line !== null && <span className="text-muted"> ({said.line(each.line)})</span>}
          </li>
        ))}
      </Part>
      <Part title={said.changed}>
        {report.changed.map((key) => (
          <li key={key}>
            <code className="font-mono">{key}</code>
          </li>
        ))}
      </Part>
      <Part title={said.deferred}>
        {report.deferred.map(({ what, until }) => (
          <li key={what}>
            <code className="font-mono">{what}</code>{" "}
            <span className="text-muted">{said.until(until)}</span>
          </li>
        ))}
      </Part>
      <div className="mt-4 flex justify-end">
        <Button onClick={onClose}>{parts.close}</Button>
      </div>
    </Dialog>
  );
}

function Part({ title, children }: { title: string; children: readonly React.ReactNode[] }) {
  if (children.length === 0) return null;
  return (
    <>
      <h3 className="mt-2">{title}</h3>
      <ul className="grid gap-0.5 break-words">{children}</ul>
    </>
  );
}
