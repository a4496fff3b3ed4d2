import { useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";

import { keyOf, sentence, useSend } from "../../app/api.ts";
import { ProviderButton } from "../../app/elevation.tsx";
import { LEAST_PASSWORD, useSession } from "../../app/session.ts";
import { Badge } from "../../parts/badge.tsx";
import { Button } from "../../parts/button.tsx";
import { Facts } from "../../parts/facts.tsx";
import { Field, TextInput } from "../../parts/field.tsx";
import { Section } from "../../parts/page.tsx";
import { toast } from "../../parts/toast.tsx";
import { words } from "../../words/settings.ts";
import { words as passwords } from "../../words/sign-in.ts";
import { OtherSessions } from "./other-sessions.tsx";
import { SecondFactor } from "./second-factor.tsx";

/** Who one is, and how one signs in. */
export function Profile() {
  const me = useSession();
  const queries = useQueryClient();
  const signOut = useSend("delete", "/api/v1/session", {
    onDone: () => void queries.resetQueries({ queryKey: keyOf("/api/v1/session") }),
  });
  const contexts = me.scopes.map((patterns) => patterns.join(", ")).join("; ");
  return (
    <>
      <Section
        title={words.account}
        actions={
          <Button busy={signOut.isPending} onClick={() => signOut.mutate({})}>
            {words.signOut}
          </Button>
        }
      >
        <Facts
          facts={[
            [words.name, me.name],
            [words.role, me.role],
            [words.scope, contexts === "*" ? words.allContexts : contexts],
            [
              words.permissions,
              <details key="permissions">
                <summary className="min-h-6 cursor-pointer">{me.permissions.length}</summary>
                <span className="mt-1 flex flex-wrap gap-1">
                  {me.permissions.map((each) => (
                    <Badge key={each}>{each}</Badge>
                  ))}
                </span>
              </details>,
            ],
          ]}
        />
      </Section>
      {me.takes_passwords && <Password />}
      <SecondFactor />
      <OtherSessions />
      {me.has_oidc && (
        <Section title={words.provider.title}>
          <p className="mb-3">{words.provider.about}</p>
          <ProviderButton purpose="connect" />
        </Section>
      )}
    </>
  );
}

function Password() {
  const { name } = useSession();
  const [now, setNow] = useState("");
  const [next, setNext] = useState("");
  const change = useSend("put", "/api/v1/session/password", {
    quiet: true,
    stale: ["/api/v1/session/others"],
    onDone: () => {
      toast(words.password.changed);
      setNow("");
      setNext("");
    },
  });
  const [tooShort, setTooShort] = useState("");
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const isShort = next.length < LEAST_PASSWORD;
    setTooShort(isShort ? passwords.tooShort(next.length) : "");
    if (isShort) return;
    change.mutate({ body: { password: now, new: next } });
  };
  return (
    <Section title={words.password.title}>
      {/* The browser's own bubble would cover the rule. */}
      <form onSubmit={submit} noValidate className="grid max-w-sm gap-4">
        <p className="text-muted">{words.password.about}</p>
        {/* For password managers, which keep names with passwords. */}
        <input type="text" hidden readOnly autoComplete="username" value={name} />
        <Field label={words.password.now} error={change.error ? sentence(change.error) : undefined}>
          <TextInput
            type="password"
            autoComplete="current-password"
            required
            value={now}
            onChange={(event) => setNow(event.target.value)}
          />
        </Field>
        <Field label={words.password.next} hint={passwords.rule} error={tooShort}>
          <TextInput
            type="password"
            autoComplete="new-password"
            required
            value={next}
            onChange={(event) => setNext(event.target.value)}
          />
        </Field>
        <div>
          <Button type="submit" look="primary" busy={change.isPending}>
            {words.password.change}
          </Button>
        </div>
      </form>
    </Section>
  );
}
