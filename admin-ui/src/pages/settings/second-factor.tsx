import { type FormEvent, useState } from "react";

import { type Schema, sentence, useSend } from "../../app/api.ts";
import { useSession } from "../../app/session.ts";
import { StatusDot } from "../../parts/badge.tsx";
import { Button } from "../../parts/button.tsx";
import { CodeBlock } from "../../parts/code.tsx";
import { Confirm, Dialog } from "../../parts/dialog.tsx";
import { Field, TextInput } from "../../parts/field.tsx";
import { Section } from "../../parts/page.tsx";
import { toast } from "../../parts/toast.tsx";
import { words as all } from "../../words/settings.ts";

const words = all.factor;
const SESSION = "/api/v1/session";

/** The authenticator app of the person who is signed in. */
export function SecondFactor() {
  const { has_factor } = useSession();
  const [made, setMade] = useState<Schema<"NewFactor"> | null>(null);
  const [codes, setCodes] = useState<readonly string[]>([]);
  const [removing, setRemoving] = useState(false);
  const add = useSend("post", "/api/v1/session/factor", { onDone: setMade });
  return (
    <Section title={words.title}>
      <div className="flex flex-wrap items-center justify-between gap-3">
        <p className="flex max-w-lg items-baseline gap-2">
          <StatusDot tone={has_factor ? "good" : "neutral"} />
          {has_factor ? words.on : words.off}
        </p>
        {has_factor ? (
          <Button onClick={() => setRemoving(true)}>{words.remove}</Button>
        ) : (
          <Button busy={add.isPending} onClick={() => add.mutate({})}>
            {words.add}
          </Button>
        )}
      </div>
      {made && (
        <AddFactor
          factor={made}
          onClose={() => setMade(null)}
          onCodes={(next) => {
            setMade(null);
            setCodes(next);
          }}
        />
      )}
      {codes.length > 0 && (
        <Dialog title={words.codesTitle} about={words.codesAbout} onClose={() => setCodes([])}>
          <CodeBlock text={codes.join("\n")} label={words.codesTitle} />
          <div className="mt-4 flex justify-end">
            <Button look="primary" onClick={() => setCodes([])}>
              {words.stored}
            </Button>
          </div>
        </Dialog>
      )}
      {removing && <RemoveFactor onClose={() => setRemoving(false)} />}
    </Section>
  );
}

function RemoveFactor({ onClose }: { onClose: () => void }) {
  const remove = useSend("delete", "/api/v1/session/factor", {
    stale: [SESSION],
    onDone: () => {
      toast(words.removed);
      onClose();
    },
  });
  return (
    <Confirm
      title={words.removeTitle}
      about={words.removeAbout}
      confirm={words.remove}
      danger
      busy={remove.isPending}
      onConfirm={() => remove.mutate({})}
      onClose={onClose}
    />
  );
}

interface AddFactorProps {
  factor: Schema<"NewFactor">;
  onClose: () => void;
  onCodes: (codes: readonly string[]) => void;
}

function AddFactor({ factor, onClose, onCodes }: AddFactorProps) {
  const [code, setCode] = useState("");
  const confirm = useSend("post", "/api/v1/session/factor/confirm", {
    stale: [SESSION],
    quiet: true,
    onDone: ({ codes }) => onCodes(codes),
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    confirm.mutate({ body: { code } });
  };
  // Groups of four are easier to type.
  const key = factor.secret.replace(/(.{4})(?=.)/g, "$1 ");
  return (
    <Dialog title={words.dialog} onClose={onClose}>
      <form onSubmit={submit} className="grid gap-4">
        <p>{words.first}</p>
        <a href={factor.address} className="text-accent underline">
          {words.link}
        </a>
        <Field label={words.key}>
          <CodeBlock text={key} label={words.key} />
        </Field>
        <p>{words.second}</p>
        <Field label={words.code} error={confirm.error ? sentence(confirm.error) : undefined}>
          <TextInput
            inputMode="numeric"
            autoComplete="one-time-code"
            required
            value={code}
            onChange={(event) => setCode(event.target.value)}
          />
        </Field>
        <div className="flex justify-end">
          <Button type="submit" look="primary" busy={confirm.isPending}>
            {words.confirm}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
