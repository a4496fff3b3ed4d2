import { type FormEvent, useState } from "react";

import { type Schema, sentence, useGet, useSend } from "../../app/api.ts";
import { useSession } from "../../app/session.ts";
import { Answer, Empty } from "../../parts/answer.tsx";
import { Badge } from "../../parts/badge.tsx";
import { Button, IconButton } from "../../parts/button.tsx";
import { CodeBlock } from "../../parts/code.tsx";
import { Confirm, Dialog } from "../../parts/dialog.tsx";
import { Checkbox, Field, NumberInput, TextInput } from "../../parts/field.tsx";
import { Section } from "../../parts/page.tsx";
import { type Column, DataTable } from "../../parts/table.tsx";
import { Time } from "../../parts/time.tsx";
import { toast } from "../../parts/toast.tsx";
import { words as all } from "../../words/people.ts";
import { scopeOf } from "./scope.ts";
import { Scope } from "./users.tsx";

type Key = Schema<"KeyRow">;
type Permission = Schema<"Permission">;

const words = all.keys;
const KEYS = "/api/v1/api-keys";
const DAYS = 90;
const MOST_DAYS = 366;

/** The keys of all programs. */
export function Keys() {
  const keys = useGet(KEYS);
  const [adding, setAdding] = useState(false);
  const [removing, setRemoving] = useState<Key | null>(null);
  const [made, setMade] = useState<Schema<"MadeKey"> | null>(null);
  const add = (
    <Button look="primary" icon="plus" onClick={() => setAdding(true)}>
      {words.add}
    </Button>
  );
  return (
    <Section title={words.label} actions={add} flush>
      <Answer query={keys}>
        {(data) => (
          <DataTable
            label={words.label}
            rows={data.keys}
            rowKey={({ id }) => id}
            columns={columns(setRemoving)}
            empty={
              <Empty icon="key" title={words.emptyTitle}>
                <p>{words.empty}</p>
              </Empty>
            }
          />
        )}
      </Answer>
      {adding && <AddKey onClose={() => setAdding(false)} onMade={setMade} />}
      {removing && <RemoveKey apiKey={removing} onClose={() => setRemoving(null)} />}
      {made && (
        <Dialog
          title={words.madeTitle(made.key.label)}
          about={words.madeAbout}
          wide
          onClose={() => setMade(null)}
        >
          <CodeBlock text={made.token} label={words.keyLabel} />
        </Dialog>
      )}
    </Section>
  );
}

function columns(onRemove: (key: Key) => void): Column<Key>[] {
  return [
    {
      id: "label",
      head: words.name,
      cell: ({ label }) => <span className="font-medium">{label}</span>,
    },
    { id: "owner", head: words.owner, wide: true, cell: ({ owner }) => owner },
    {
      id: "permissions",
      head: words.permissions,
      wide: true,
      cell: ({ permissions }) => (
        <span className="flex max-w-xl flex-wrap gap-1">
          {permissions.map((each) => (
            <Badge key={each}>{each}</Badge>
          ))}
        </span>
      ),
    },
    { id: "scope", head: words.scope, wide: true, cell: ({ scope }) => <Scope scope={scope} /> },
    { id: "expires", head: words.expires, cell: ({ expires_at }) => <Time at={expires_at} /> },
    {
      id: "actions",
      head: <span className="sr-only">{words.actions}</span>,
      align: "end",
      width: "3rem",
      cell: (key) => (
        <IconButton
          small
          icon="trash"
          label={words.removeOf(key.label)}
          onClick={() => onRemove(key)}
        />
      ),
    },
  ];
}

function RemoveKey({ apiKey, onClose }: { apiKey: Key; onClose: () => void }) {
  const remove = useSend("delete", "/api/v1/api-keys/{key_id}", {
    stale: [KEYS],
    onDone: () => {
      toast(words.removed);
      onClose();
    },
  });
  return (
    <Confirm
      title={words.removeTitle(apiKey.label)}
      about={words.removeAbout}
      confirm={words.remove}
      danger
      busy={remove.isPending}
      onConfirm={() => remove.mutate({ path: { key_id: apiKey.id } })}
      onClose={onClose}
    />
  );
}

interface AddKeyProps {
  onClose: () => void;
  onMade: (made: Schema<"MadeKey">) => void;
}

function AddKey({ onClose, onMade }: AddKeyProps) {
  const [label, setLabel] = useState("");
  const [days, setDays] = useState<number | null>(DAYS);
  const [scope, setScope] = useState("*");
  const [chosen, setChosen] = useState<readonly Permission[]>([]);
  const add = useSend("post", KEYS, {
    stale: [KEYS],
    quiet: true,
    onDone: (made) => {
      onClose();
      onMade(made);
    },
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const permissions = [...chosen];
    add.mutate({ body: { label, permissions, scope: scopeOf(scope), days: days ?? DAYS } });
  };
  return (
    <Dialog title={words.addTitle} about={words.addAbout} wide onClose={onClose}>
      <form onSubmit={submit} className="grid gap-4">
        <Field
          label={words.name}
          hint={words.nameHint}
          error={add.error ? sentence(add.error) : undefined}
        >
          <TextInput value={label} onChange={(event) => setLabel(event.target.value)} required />
        </Field>
        <div className="grid grid-cols-2 gap-4 phone:grid-cols-1">
          <Field label={words.days}>
            <NumberInput
              value={days}
              onValue={setDays}
              min={1}
              max={MOST_DAYS}
              unit={words.daysUnit}
              required
            />
          </Field>
          <Field label={words.scope} hint={all.scopeHint}>
            <TextInput value={scope} onChange={(event) => setScope(event.target.value)} />
          </Field>
        </div>
        <Permissions chosen={chosen} onChange={setChosen} />
        <div className="flex justify-end">
          <Button type="submit" look="primary" busy={add.isPending} disabled={chosen.length === 0}>
            {words.make}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

interface PermissionsProps {
  chosen: readonly Permission[];
  onChange: (chosen: readonly Permission[]) => void;
}

/** A part of one's own permissions. */
function Permissions({ chosen, onChange }: PermissionsProps) {
  const { permissions } = useSession();
  return (
    <fieldset>
      <legend className="flex items-center gap-2 font-medium">
        {words.permissions}
        <Button small look="quiet" onClick={() => onChange(permissions)}>
          {words.all}
        </Button>
        <Button small look="quiet" onClick={() => onChange([])}>
          {words.none}
        </Button>
      </legend>
      {chosen.length === 0 && <p className="text-xs text-muted">{words.choose}</p>}
      <div className="mt-1 columns-3 phone:columns-1">
        {permissions.map((each) => (
          <Checkbox
            key={each}
            label={<code className="font-mono text-xs">{each}</code>}
            checked={chosen.includes(each)}
            onChecked={(on) =>
              onChange(on ? [...chosen, each] : chosen.filter((other) => other !== each))
            }
          />
        ))}
      </div>
    </fieldset>
  );
}
