import { useQueryClient } from "@tanstack/react-query";
import { useLocation, useNavigate } from "@tanstack/react-router";
import { type FormEvent, type ReactNode, useEffect, useState } from "react";

import { api, keyOf, type Schema, sentence } from "../../app/api.ts";
import { ProviderButton } from "../../app/elevation.tsx";
import { LEAST_PASSWORD } from "../../app/session.ts";
import { Button } from "../../parts/button.tsx";
import { CodeBlock } from "../../parts/code.tsx";
import { Cover } from "../../parts/dialog.tsx";
import { Field, TextInput } from "../../parts/field.tsx";
import { words } from "../../words/sign-in.ts";

export interface SignInProps {
  session: Schema<"Me">;
  /** True: a dialog that covers the page of a person whose session is over. */
  isAbove: boolean;
}

/** Stands in place of the page until someone is signed in; the address stays as it is. */
export default function SignInPage({ session, isAbove }: SignInProps) {
  const hash = useLocation({ select: (location) => location.hash });
  const token = hash.startsWith("link=") ? hash.slice("link=".length) : "";
  const title = token ? words.linkTitle : words.title;
  useEffect(() => {
    const before = document.title;
    document.title = `${title} – Cordboard`;
    return () => {
      document.title = before;
    };
  }, [title]);
  const heading = session.advice && !token ? words.firstTitle : title;
  const ways = token ? <LinkForm token={token} /> : <Ways session={session} />;
  if (isAbove) {
    return (
      <Cover title={heading} about={words.over}>
        {ways}
      </Cover>
    );
  }
  return (
    <main className="mx-auto grid min-h-full max-w-88 content-center gap-5 px-4 py-12">
      <img src="/icon.svg" alt="" width={40} height={40} />
      <h1 className="text-xl">{heading}</h1>
      {ways}
    </main>
  );
}

function Ways({ session }: { session: Schema<"Me"> }) {
  if (session.advice) {
    return (
      <div className="grid gap-3">
        <p>{words.firstAbout}</p>
        <CodeBlock text={words.command} />
      </div>
    );
  }
  return (
    <>
      {session.takes_passwords ? <PasswordForm /> : <p>{words.noPasswords}</p>}
      {session.has_oidc && (
        <div className="grid gap-3 border-t border-line pt-5">
          <ProviderButton purpose="sign_in" />
        </div>
      )}
    </>
  );
}

/** Sends a form; what the engine refuses is shown at its first field. */
function useForm(send: (form: FormData) => Promise<unknown>) {
  const queries = useQueryClient();
  const [error, setError] = useState("");
  const [busy, setBusy] = useState(false);
  const onSubmit = async (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    setBusy(true);
    setError("");
    try {
      await send(new FormData(event.currentTarget));
      await queries.invalidateQueries({ queryKey: keyOf("/api/v1/session") });
      // What the page behind asked for while the session was over.
      void queries.refetchQueries({ predicate: ({ state }) => state.status === "error" });
    } catch (refused) {
      setError(refused instanceof Error ? sentence(refused) : String(refused));
    } finally {
      setBusy(false);
    }
  };
  return { error, busy, onSubmit };
}

const given = (form: FormData, field: string) => String(form.get(field) ?? "");

function PasswordForm(): ReactNode {
  const { error, busy, onSubmit } = useForm((form) =>
    api.POST("/api/v1/session", {
      body: {
        name: given(form, "name"),
        password: given(form, "password"),
        code: given(form, "code"),
      },
    }),
  );
  return (
    <form onSubmit={onSubmit} className="grid gap-4">
      <Field label={words.name} error={error}>
        <TextInput name="name" autoComplete="username" autoCapitalize="none" required autoFocus />
      </Field>
      <Field label={words.password}>
        <TextInput name="password" type="password" autoComplete="current-password" required />
      </Field>
      <Field label={words.code} hint={words.codeHint}>
        <TextInput name="code" autoComplete="one-time-code" />
      </Field>
      <Button type="submit" look="primary" busy={busy}>
        {words.signIn}
      </Button>
    </form>
  );
}

function LinkForm({ token }: { token: string }) {
  const [shown, setShown] = useState(false);
  const navigate = useNavigate();
  const pathname = useLocation({ select: (location) => location.pathname });
  const { error, busy, onSubmit } = useForm(async (form) => {
    const password = given(form, "password");
    if (password.length < LEAST_PASSWORD) throw new Error(words.tooShort(password.length));
    const body = { token, password };
    const { data } = await api.POST("/api/v1/session/link", { body });
    // The first one who signs in is an admin, and has to set up the rest; a link with a path leads
    // to its page.
    const start = data?.role === "admin" ? "/setup" : "/live";
    await navigate({
      to: pathname === "/" || pathname === "/live" ? start : pathname,
      replace: true,
    });
  });
  return (
    // The browser's own bubble would cover the rule.
    <form onSubmit={onSubmit} noValidate className="grid gap-4">
      <p className="text-muted">{words.linkAbout}</p>
      <Field
        label={words.newPassword}
        hint={words.rule}
        error={error}
        aside={
          <Button small look="quiet" aria-pressed={shown} onClick={() => setShown(!shown)}>
            {shown ? words.hide : words.show}
          </Button>
        }
      >
        <TextInput
          name="password"
          type={shown ? "text" : "password"}
          autoComplete="new-password"
          required
          autoFocus
        />
      </Field>
      <Button type="submit" look="primary" busy={busy}>
        {words.usePassword}
      </Button>
    </form>
  );
}
