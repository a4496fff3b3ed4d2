import { type FormEvent, useState } from "react";

import { type Schema, sentence, useGet, useSend } from "../../app/api.ts";
import { useMay } from "../../app/session.ts";
import { Answer, StaleNote } from "../../parts/answer.tsx";
import { Button, LinkButton } from "../../parts/button.tsx";
import { Confirm } from "../../parts/dialog.tsx";
import { Field, Select, TextInput } from "../../parts/field.tsx";
import { Section } from "../../parts/page.tsx";
import { type Column, DataTable } from "../../parts/table.tsx";
import { toast } from "../../parts/toast.tsx";
import { words } from "../../words/settings.ts";
import { type Kept, keptFor } from "./retention.ts";

/** How long things are kept, and how to erase them before. */
export function DataSettings() {
  return (
    <>
      <Retention />
      {useMay("data.erase") && <Erasure />}
    </>
  );
}

function howLong({ what, count }: Kept): string {
  if (count === 0) return words.retention.ever;
  return what === "audit" ? words.retention.months(count) : words.retention.days(count);
}

const COLUMNS: Column<Kept>[] = [
  {
    id: "what",
    head: words.retention.what,
    cell: ({ what, context }) =>
      what === "recordings" ? words.retention.recordings(context) : words.retention[what],
  },
  { id: "how", head: words.retention.how, cell: howLong },
  {
    id: "key",
    head: words.retention.key,
    wide: true,
    cell: ({ key }) => <code className="font-mono text-xs">{key}</code>,
  },
];

function Retention() {
  const config = useGet("/api/v1/config");
  return (
    <Section
      title={words.retention.title}
      actions={<LinkButton to="/contexts">{words.retention.open}</LinkButton>}
      flush
    >
      <p className="px-4 pt-3 pb-1 text-muted">{words.retention.about}</p>
      <Answer query={config}>
        {({ tree }) => (
          <DataTable
            label={words.retention.title}
            rows={keptFor(tree)}
            rowKey={({ key }) => key}
            columns={COLUMNS}
          />
        )}
      </Answer>
    </Section>
  );
}

type By = "number" | "call";

/** Erases calls, after showing what would go. */
function Erasure() {
  const [by, setBy] = useState<By>("number");
  const [value, setValue] = useState("");
  const [asking, setAsking] = useState(false);
  const look = useSend("post", "/api/v1/erasures", { quiet: true });
  const erase = useSend("post", "/api/v1/erasures", {
    stale: ["/api/v1/calls", "/api/v1/calls/facets"],
    onDone: ({ calls, problem }) => {
      if (problem) toast.bad(problem);
      else toast(words.erase.erased(calls.length));
      setAsking(false);
      setValue("");
      look.reset();
    },
  });
  const body = (dry_run: boolean) => ({
    call: by === "call" ? value.trim() : "",
    number: by === "number" ? value.trim() : "",
    dry_run,
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    look.mutate({ body: body(true) });
  };
  const change = (next: string) => {
    look.reset(); // what was found is about another number
    setValue(next);
  };
  const found = look.data;
  return (
    <Section title={words.erase.title}>
      <form onSubmit={submit} className="grid max-w-lg gap-4">
        <p className="text-muted">{words.erase.about}</p>
        <div className="grid grid-cols-[10rem_minmax(0,1fr)] gap-3 phone:grid-cols-1">
          <Field label={words.erase.by}>
            <Select
              value={by}
              onValue={(next) => {
                setBy(next);
                change("");
              }}
              options={(["number", "call"] as const).map((each) => ({
                value: each,
                label: words.erase[each],
              }))}
            />
          </Field>
          <Field
            label={words.erase[by]}
            hint={by === "number" ? words.erase.numberHint : undefined}
            error={look.error ? sentence(look.error) : undefined}
          >
            <TextInput
              required
              value={value}
              onChange={(event) => change(event.target.value)}
              spellCheck={false}
            />
          </Field>
        </div>
        <div>
          <Button type="submit" busy={look.isPending}>
            {words.erase.look}
          </Button>
        </div>
      </form>
      <div role="status">{found && <Found found={found} onErase={() => setAsking(true)} />}</div>
      {asking && (
        <Confirm
          title={words.erase.confirmTitle}
          about={words.erase.confirmAbout}
          confirm={words.erase.confirm}
          type={value.trim()}
          danger
          busy={erase.isPending}
          onConfirm={() => erase.mutate({ body: body(false) })}
          onClose={() => setAsking(false)}
        />
      )}
    </Section>
  );
}

function Found({ found, onErase }: { found: Schema<"Erased">; onErase: () => void }) {
  const { calls, refused, files, running, unreadable, others } = found;
  const goes = calls.length + refused.length;
  return (
    <div className="mt-4 grid gap-3 border-t border-line pt-4">
      <p>{goes ? words.erase.wouldGo(calls.length, files, refused.length) : words.erase.nothing}</p>
      {running.length > 0 && <StaleNote>{words.erase.running(running.length)}</StaleNote>}
      {others.length > 0 && <StaleNote>{words.erase.others(others)}</StaleNote>}
      {unreadable.length > 0 && <StaleNote>{words.erase.unreadable(unreadable.length)}</StaleNote>}
      {calls.length > 0 && (
        <ul
          aria-label={words.erase.list}
          className="max-h-48 overflow-y-auto font-mono text-xs"
          tabIndex={0}
        >
          {calls.map((call) => (
            <li key={call}>{call}</li>
          ))}
        </ul>
      )}
      {goes > 0 && (
        <div>
          <Button look="danger" icon="trash" onClick={onErase}>
            {words.erase.confirm}
          </Button>
        </div>
      )}
    </div>
  );
}
