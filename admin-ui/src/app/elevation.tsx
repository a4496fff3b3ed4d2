// Dangerous acts need the password or a code again; that holds for ten minutes. A request that is
// refused for it opens this dialog, and is sent again once the proof was right.
import { useQueryClient } from "@tanstack/react-query";
import {
  createContext,
  type FormEvent,
  type ReactNode,
  useCallback,
  useContext,
  useMemo,
  useRef,
  useState,
} from "react";

import { Refused } from "../api/client.ts";
import { Button } from "../parts/button.tsx";
import { Dialog } from "../parts/dialog.tsx";
import { Field, TextInput } from "../parts/field.tsx";
import { words } from "../words/shell.ts";
import { api, sentence } from "./api.ts";
import { useSession } from "./session.ts";

interface Elevation {
  /** Runs a request; if it is refused with `not_elevated`, asks for the proof and runs it again. */
  withProof<T>(request: () => Promise<T>): Promise<T>;
}

// Outside of the frame no one is signed in, and nothing can be proved.
const Context = createContext<Elevation>({ withProof: (request) => request() });

export const useElevation = () => useContext(Context);

/** Offers the dialog to all that is inside. */
export function ElevationProvider({ children }: { children: ReactNode }) {
  const [asking, setAsking] = useState(false);
  const waiting = useRef<((proved: boolean) => void)[]>([]);
  const answer = useCallback((proved: boolean) => {
    setAsking(false);
    for (const each of waiting.current.splice(0)) each(proved);
  }, []);
  const elevation = useMemo<Elevation>(
    () => ({
      async withProof(request) {
        try {
          return await request();
        } catch (error) {
          if (!(error instanceof Refused && error.refusal.code === "not_elevated")) throw error;
          const proved = await new Promise<boolean>((resolve) => {
            waiting.current.push(resolve);
            setAsking(true);
          });
          if (!proved) throw error;
          return await request();
        }
      },
    }),
    [],
  );
  return (
    <Context value={elevation}>
      {children}
      {asking && <ProofDialog onAnswer={answer} />}
    </Context>
  );
}

function ProofDialog({ onAnswer }: { onAnswer: (proved: boolean) => void }) {
  const me = useSession();
  const queries = useQueryClient();
  const [error, setError] = useState("");
  const [busy, setBusy] = useState(false);
  const prove = async (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    setBusy(true);
    setError("");
    try {
      const body = {
        password: String(form.get("password") ?? ""),
        code: String(form.get("code") ?? ""),
      };
      await api.POST("/api/v1/session/elevate", { body });
      void queries.invalidateQueries({ queryKey: ["/api/v1/session"] });
      onAnswer(true);
    } catch (refused) {
      setError(refused instanceof Error ? sentence(refused) : String(refused));
      setBusy(false);
    }
  };
  return (
    <Dialog title={words.proof.title} about={words.proof.about} onClose={() => onAnswer(false)}>
      <form onSubmit={prove} className="grid gap-3">
        {me.takes_passwords && (
          <Field label={words.proof.password} error={error}>
            <TextInput name="password" type="password" autoComplete="current-password" autoFocus />
          </Field>
        )}
        {me.has_factor && (
          <Field
            label={words.proof.code}
            hint={words.proof.codeHint}
            error={me.takes_passwords ? undefined : error}
          >
            <TextInput name="code" inputMode="numeric" autoComplete="one-time-code" />
          </Field>
        )}
        <div className="flex justify-end gap-2">
          {me.has_oidc && <ProviderButton purpose="elevate" />}
          {(me.takes_passwords || me.has_factor) && (
            <Button type="submit" look="primary" busy={busy}>
              {words.proof.confirm}
            </Button>
          )}
        </div>
      </form>
    </Dialog>
  );
}

/** Leads to the identity provider and back to this page. */
export function ProviderButton({ purpose }: { purpose: "sign_in" | "elevate" | "connect" }) {
  const [error, setError] = useState("");
  const begin = async () => {
    try {
      const { data } = await api.POST("/api/v1/session/oidc", { body: { purpose } });
      if (data) window.location.assign(data.address);
    } catch (refused) {
      setError(refused instanceof Error ? sentence(refused) : String(refused));
    }
  };
  return (
    <span>
      <Button onClick={begin}>{words.provider[purpose]}</Button>
      {error && (
        <span role="alert" className="mt-1 block text-bad">
          {error}
        </span>
      )}
    </span>
  );
}
