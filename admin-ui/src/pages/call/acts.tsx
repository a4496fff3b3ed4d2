// What one can do with a call: go on to the next one, take it along, make a test of it, erase it.
import { useNavigate } from "@tanstack/react-router";
import { useEffect, useEffectEvent, useState } from "react";

import { get, type Schema, sentence, useSend } from "../../app/api.ts";
import { useMay } from "../../app/session.ts";
import { Button, IconButton } from "../../parts/button.tsx";
import { CodeBlock } from "../../parts/code.tsx";
import { Confirm, Dialog } from "../../parts/dialog.tsx";
import { Field, TextInput } from "../../parts/field.tsx";
import { Menu, type MenuItem } from "../../parts/menu.tsx";
import { toast } from "../../parts/toast.tsx";
import { words } from "../../words/call.ts";
import type { Call } from "./timeline.ts";

export interface ActsProps {
  id: string;
  call: Call;
  live: boolean;
}

export function Acts({ id, call, live }: ActsProps) {
  const [open, setOpen] = useState<"scenario" | "erase" | null>(null);
  const exports = useMay("calls.export");
  const tests = useMay("evaluations.edit");
  const personal = useMay("personal");
  const erases = useMay("data.erase");
  const ended = !live && call.row.outcome !== "refused";
  const address = `/api/v1/calls/${encodeURIComponent(id)}`;
  const items: MenuItem[] = [
    ...(exports && ended
      ? [
          {
            label: words.acts.bundle,
            icon: "download" as const,
            onSelect: () => save(`${address}/bundle`),
          },
        ]
      : []),
    {
      label: words.acts.picture,
      icon: "download",
      onSelect: () => save(`${address}/picture`, `call-${id}.svg`),
    },
    ...(tests && personal && ended
      ? [{ label: words.acts.scenario, icon: "try" as const, onSelect: () => setOpen("scenario") }]
      : []),
    ...(erases && !live
      ? [
          { heading: "" },
          {
            label: words.acts.erase,
            icon: "trash" as const,
            danger: true,
            onSelect: () => setOpen("erase"),
          },
        ]
      : []),
  ];
  return (
    <>
      <NextUnreviewed call={call} />
      <Menu
        trigger={<IconButton label={words.acts.menu} icon="more" look="plain" />}
        items={items}
      />
      {open === "scenario" && <MakeScenario id={id} onClose={() => setOpen(null)} />}
      {open === "erase" && <Erase id={id} onClose={() => setOpen(null)} />}
    </>
  );
}

/** Downloads a file of the engine. The name is the engine's, unless one is given. */
function save(address: string, name = ""): void {
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
}

function NextUnreviewed({ call }: { call: Call }) {
  const navigate = useNavigate();
  const [busy, setBusy] = useState(false);
  const next = async () => {
    setBusy(true);
    try {
      const until = call.row.started_at;
      const page = await get("/api/v1/calls", { query: { review: [""], until, limit: 50 } });
      const found = page.rows.find(
        ({ outcome }) => outcome !== "refused" && outcome !== "not ended",
      );
      if (found) await navigate({ to: "/calls/$callId", params: { callId: found.id } });
      else toast(words.acts.allReviewed);
    } catch (error) {
      toast.bad(error instanceof Error ? sentence(error) : String(error));
    } finally {
      setBusy(false);
    }
  };
  return (
    <Button busy={busy} onClick={() => void next()}>
      {words.acts.next}
    </Button>
  );
}

function MakeScenario({ id, onClose }: { id: string; onClose: () => void }) {
  const [name, setName] = useState("");
  const send = useSend("post", "/api/v1/calls/{call_id}/scenario", { quiet: true });
  if (send.data) return <MadeScenario {...send.data} onClose={onClose} />;
  return (
    <Dialog title={words.scenario.title} about={words.scenario.about} onClose={onClose}>
      <form
        className="grid gap-3"
        onSubmit={(event) => {
          event.preventDefault();
          send.mutate({ path: { call_id: id }, body: { name } });
        }}
      >
        <Field
          label={words.scenario.name}
          hint={words.scenario.hint}
          error={send.error ? sentence(send.error) : undefined}
        >
          <TextInput
            required
            autoFocus
            pattern="[a-z0-9][a-z0-9\-]{0,62}"
            value={name}
            onChange={(event) => setName(event.target.value)}
          />
        </Field>
        <div className="flex justify-end">
          <Button type="submit" look="primary" busy={send.isPending}>
            {words.scenario.make}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

function MadeScenario({ file, text, onClose }: Schema<"ScenarioFile"> & { onClose: () => void }) {
  return (
    <Dialog wide title={words.scenario.title} about={words.scenario.review} onClose={onClose}>
      <div className="grid gap-3">
        <p>
          {words.scenario.done} <code className="font-mono text-xs break-all">{file}</code>.{" "}
          {words.scenario.run}
        </p>
        <CodeBlock text={`cordboard call --scenario ${file}`} />
        <pre
          tabIndex={0}
          role="group"
          aria-label={words.scenario.text}
          className="max-h-80 overflow-auto rounded-md border border-line bg-surface p-3 font-mono text-xs whitespace-pre-wrap"
        >
          {text}
        </pre>
        <div className="flex justify-end">
          <Button look="primary" onClick={onClose}>
            {words.scenario.close}
          </Button>
        </div>
      </div>
    </Dialog>
  );
}

function Erase({ id, onClose }: { id: string; onClose: () => void }) {
  const navigate = useNavigate();
  const plan = useSend("post", "/api/v1/erasures");
  const erase = useSend("delete", "/api/v1/calls/{call_id}", {
    stale: ["/api/v1/calls", "/api/v1/calls/facets"],
    onDone: ({ files, problem }) => {
      if (problem) toast.bad(problem);
      else toast(words.erase.done(files));
      void navigate({ to: "/calls" });
    },
  });
  const { mutate: ask } = plan;
  const onRefused = useEffectEvent(() => onClose());
  useEffect(() => {
    // Says first what would go; nothing is erased.
    ask({ body: { call: id, number: "", dry_run: true } }, { onError: () => onRefused() });
  }, [ask, id]);
  // The password dialog asks first, if it has to; until then there is nothing to confirm.
  if (!plan.data) return null;
  return (
    <Confirm
      danger
      title={words.erase.title}
      about={words.erase.about(plan.data.files)}
      confirm={words.erase.confirm}
      busy={erase.isPending}
      onConfirm={() => erase.mutate({ path: { call_id: id } })}
      onClose={onClose}
    />
  );
}
