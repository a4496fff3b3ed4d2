import { Link } from "@tanstack/react-router";
import { type FormEvent, useState } from "react";

import { type Schema, useGet, useSend } from "../../app/api.ts";
import { useMay } from "../../app/session.ts";
import { Answer, Empty } from "../../parts/answer.tsx";
import { Badge, type Tone } from "../../parts/badge.tsx";
import { Button, IconButton } from "../../parts/button.tsx";
import { Confirm, Dialog } from "../../parts/dialog.tsx";
import { Checkbox, Field, TextArea, TextInput } from "../../parts/field.tsx";
import { type Column, DataTable } from "../../parts/table.tsx";
import { Time } from "../../parts/time.tsx";
import { toast } from "../../parts/toast.tsx";
import { words } from "../../words/providers.ts";
import { useChoices } from "./choices.ts";

type Secret = Schema<"Secret">;
type Asking = { act: "set" | "remove"; name: string } | null;

const say = words.secrets;
const STALE = ["/api/v1/secrets", "/api/v1/providers"] as const;
const TONES: Record<Secret["state"], Tone> = { set: "good", missing: "bad", default: "neutral" };
const NAME = "[A-Za-z_][A-Za-z0-9_]*";

/** The secrets that the file takes from outside, and those that are stored. No value is shown. */
export function Secrets() {
  const secrets = useGet("/api/v1/secrets");
  const mayWrite = useMay("secrets.write");
  const [{ sort }, change] = useChoices();
  const [asking, setAsking] = useState<Asking>(null);
  const close = () => setAsking(null);
  return (
    <>
      <div className="mb-3 flex flex-wrap items-center justify-between gap-3">
        <p className="max-w-prose text-muted">{say.about}</p>
        {mayWrite && (
          <Button icon="plus" onClick={() => setAsking({ act: "set", name: "" })}>
            {say.add}
          </Button>
        )}
      </div>
      <Answer query={secrets}>
        {({ secrets }) => (
          <div className="rounded-lg border border-line bg-raised">
            <DataTable
              label={say.label}
              rows={secrets}
              columns={columnsOf(mayWrite, setAsking)}
              rowKey={({ name }) => name}
              sort={sort}
              onSort={(next) => change({ sort: next })}
              empty={<Empty icon="key" title={say.none} />}
            />
          </div>
        )}
      </Answer>
      {asking?.act === "set" && <SetSecret name={asking.name} onClose={close} />}
      {asking?.act === "remove" && <RemoveSecret name={asking.name} onClose={close} />}
    </>
  );
}

function columnsOf(mayWrite: boolean, ask: (asking: Asking) => void): Column<Secret>[] {
  const { head } = say;
  const columns: Column<Secret>[] = [
    {
      id: "name",
      head: head.name,
      value: ({ name }) => name,
      cell: ({ name, shadowed }) => (
        <>
          <code className="font-mono text-xs break-all">{name}</code>
          {shadowed && <p className="text-xs text-warn">{say.shadowed}</p>}
        </>
      ),
    },
    {
      id: "state",
      head: head.state,
      value: ({ state }) => state,
      cell: ({ state }) => <Badge tone={TONES[state]}>{say.states[state]}</Badge>,
    },
    { id: "source", head: head.source, cell: ({ source }) => say.sources[source], wide: true },
    {
      id: "used",
      head: head.used,
      cell: ({ used_by }) =>
        used_by.length === 0 ? (
          <span className="text-muted">{say.unused}</span>
        ) : (
          <ul>
            {used_by.map((key) => (
              <li key={key}>
                <Link
                  to="/contexts"
                  search={{ at: key }}
                  className="font-mono text-xs break-all text-accent hover:underline"
                >
                  {key}
                </Link>
              </li>
            ))}
          </ul>
        ),
      wide: true,
    },
    {
      id: "fingerprint",
      head: head.fingerprint,
      cell: ({ fingerprint }) => <code className="font-mono text-xs">{fingerprint || "–"}</code>,
      wide: true,
    },
    {
      id: "set",
      head: head.set,
      value: ({ set_at }) => set_at,
      cell: ({ set_at, set_by }) =>
        set_at ? (
          <>
            <Time at={set_at} relative /> <span className="text-muted">{say.by(set_by)}</span>
          </>
        ) : (
          <span className="text-muted">–</span>
        ),
      wide: true,
    },
  ];
  if (mayWrite) {
    columns.push({
      id: "acts",
      head: <span className="sr-only">{say.set}</span>,
      align: "end",
      cell: (secret) => <Acts secret={secret} ask={ask} />,
    });
  }
  return columns;
}

function Acts({ secret, ask }: { secret: Secret; ask: (asking: Asking) => void }) {
  const { name, source, shadowed } = secret;
  const isStored = source === "stored" || shadowed;
  if (source === "environment" && !shadowed) {
    return <span className="text-xs text-muted">{say.fromEnvironment}</span>;
  }
  return (
    <span className="inline-flex gap-1">
      <Button
        small
        aria-label={`${isStored ? say.replace : say.set} ${name}`}
        onClick={() => ask({ act: "set", name })}
      >
        {isStored ? say.replace : say.set}
      </Button>
      {isStored && (
        <IconButton
          small
          icon="trash"
          label={`${say.remove} ${name}`}
          onClick={() => ask({ act: "remove", name })}
        />
      )}
    </span>
  );
}

/** A value goes in, and never comes out again. */
function SetSecret({ name, onClose }: { name: string; onClose: () => void }) {
  const [called, setCalled] = useState(name);
  const [value, setValue] = useState("");
  const [long, setLong] = useState(false);
  const setting = useSend("put", "/api/v1/secrets/{secret}", {
    stale: STALE,
    onDone: () => {
      toast(say.saved(called));
      onClose();
    },
  });
  const save = (event: FormEvent) => {
    event.preventDefault();
    setting.mutate({ path: { secret: called }, body: { value } });
  };
  const common = { required: true, value, autoComplete: "off", spellCheck: false };
  return (
    <Dialog title={say.setTitle(name)} about={say.setAbout} onClose={onClose}>
      <form className="grid gap-3" onSubmit={save}>
        {name === "" && (
          <Field label={say.name} hint={say.nameHint}>
            <TextInput
              required
              pattern={NAME}
              maxLength={100}
              autoComplete="off"
              spellCheck={false}
              className="font-mono"
              value={called}
              onChange={(event) => setCalled(event.target.value)}
            />
          </Field>
        )}
        <Field label={say.value}>
          {long ? (
            <TextArea
              {...common}
              rows={6}
              className="font-mono text-xs"
              onChange={(event) => setValue(event.target.value)}
            />
          ) : (
            <TextInput
              {...common}
              type="password"
              autoComplete="new-password"
              onChange={(event) => setValue(event.target.value)}
            />
          )}
        </Field>
        <Checkbox label={say.lines} checked={long} onChecked={setLong} />
        <Button type="submit" look="primary" className="justify-self-end" busy={setting.isPending}>
          {say.save}
        </Button>
      </form>
    </Dialog>
  );
}

function RemoveSecret({ name, onClose }: { name: string; onClose: () => void }) {
  const removing = useSend("delete", "/api/v1/secrets/{secret}", {
    stale: STALE,
    onDone: () => {
      toast(say.removed);
      onClose();
    },
  });
  return (
    <Confirm
      title={say.removeTitle(name)}
      about={say.removeAbout}
      confirm={say.remove}
      danger
      busy={removing.isPending}
      onConfirm={() => removing.mutate({ path: { secret: name } })}
      onClose={onClose}
    />
  );
}
