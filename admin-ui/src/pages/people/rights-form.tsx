import { type FormEvent, useState } from "react";

import { type Schema, sentence } from "../../app/api.ts";
import { Button } from "../../parts/button.tsx";
import { Checkbox, Field, Select, TextInput } from "../../parts/field.tsx";
import { words } from "../../words/people.ts";
import { scopeOf } from "./scope.ts";

const ROLES = ["viewer", "operator", "admin"] as const;
const GRANTS = ["listen", "recordings", "personal", "publish"] as const;

interface Rights {
  name: string;
  role: Schema<"Role">;
  grants: Schema<"Grant">[];
  scope: string[];
}

export interface RightsFormProps {
  start?: Rights;
  /** Also asks for the name. */
  named?: boolean;
  confirm: string;
  busy: boolean;
  error: Error | null;
  onSubmit: (rights: Rights) => void;
}

/** Role, grants and contexts of a user. */
export function RightsForm({ start, named, confirm, busy, error, onSubmit }: RightsFormProps) {
  const [name, setName] = useState(start?.name ?? "");
  const [role, setRole] = useState<Rights["role"]>(start?.role ?? "viewer");
  const [grants, setGrants] = useState<readonly Schema<"Grant">[]>(start?.grants ?? []);
  const [scope, setScope] = useState((start?.scope ?? ["*"]).join(", "));
  const told = error ? sentence(error) : undefined;
  const submit = (event: FormEvent) => {
    event.preventDefault();
    onSubmit({ name, role, grants: [...grants], scope: scopeOf(scope) });
  };
  return (
    <form onSubmit={submit} className="grid gap-4">
      {named && (
        <Field label={words.name} hint={words.nameHint} error={told}>
          <TextInput
            value={name}
            onChange={(event) => setName(event.target.value)}
            autoComplete="off"
            autoCapitalize="none"
            spellCheck={false}
            required
          />
        </Field>
      )}
      <Field label={words.role} hint={words.roleHints[role]} error={named ? undefined : told}>
        <Select
          value={role}
          onValue={setRole}
          options={ROLES.map((value) => ({ value, label: words.roles[value] }))}
        />
      </Field>
      <fieldset className="grid gap-2">
        <legend className="font-medium">{words.grantsLabel}</legend>
        <p className="text-xs text-muted">{words.grantsAbout}</p>
        {GRANTS.map((grant) => (
          <Checkbox
            key={grant}
            label={words.grants[grant]}
            hint={words.grantHints[grant]}
            checked={grants.includes(grant)}
            onChecked={(on) =>
              setGrants(on ? [...grants, grant] : grants.filter((each) => each !== grant))
            }
          />
        ))}
      </fieldset>
      <Field label={words.scope} hint={words.scopeHint}>
        <TextInput
          value={scope}
          onChange={(event) => setScope(event.target.value)}
          spellCheck={false}
          autoCapitalize="none"
        />
      </Field>
      <div className="flex justify-end">
        <Button type="submit" look="primary" busy={busy}>
          {confirm}
        </Button>
      </div>
    </form>
  );
}
