// The tester of a tool: arguments as a form and as JSON, one and the same; then the answer.
import { type FormEvent, useState } from "react";

import { Refused, type Schema, useGet, useSend } from "../../app/api.ts";
import { useMay } from "../../app/session.ts";
import { Empty } from "../../parts/answer.tsx";
import { Button } from "../../parts/button.tsx";
import { Confirm } from "../../parts/dialog.tsx";
import { Field, Select } from "../../parts/field.tsx";
import { Section } from "../../parts/page.tsx";
import { words } from "../../words/tools.ts";
import { useChoices } from "./choices.ts";
import { Examples } from "./examples.tsx";
import { InvalidJson, JsonInput } from "./json-input.tsx";
import {
  initial,
  isObject,
  type Json,
  type JsonObject,
  missing,
  type Path,
  put,
  resolved,
  shapeOf,
} from "./schema.ts";
import { SchemaForm } from "./schema-form.tsx";
import { oneEffect } from "./search.ts";
import { dotted } from "./server-form.ts";
import { payloadKind } from "./tool-lines.ts";
import { effectWord } from "./tool-list.tsx";
import { NotRun, TriedAnswer } from "./tried.tsx";

type Details = Schema<"ToolDetails">;

export function Try({ tool }: { tool: Details }) {
  const [{ example, trial }] = useChoices();
  const may = useMay("tools.try.read_only");
  const saved = useGet(
    "/api/v1/tools/{name}/examples",
    { path: { name: tool.name } },
    { enabled: may },
  );
  if (!may) return <Empty icon="lock" title={words.try.mayNot(words.effects.read_only)} />;
  if (!tool.offered && trial === undefined) {
    return <Empty icon="tools" title={words.try.notOffered} />;
  }
  if (saved.isLoading) return null;
  const examples = saved.data?.examples ?? [];
  const chosen = examples.find((each) => each.id === example);
  return <Tester key={chosen?.id ?? ""} tool={tool} chosen={chosen} examples={examples} />;
}

interface TesterProps {
  tool: Details;
  chosen: Schema<"Example"> | undefined;
  examples: readonly Schema<"Example">[];
}

function Tester({ tool, chosen, examples }: TesterProps) {
  const [choices, change] = useChoices();
  const root = asSchema(tool.parameters);
  const [given, setGiven] = useState<Json | undefined>(
    () => asValue(chosen?.arguments) ?? initial(root, root) ?? {},
  );
  const [invalid, setInvalid] = useState(0);
  const shown = invalid === 0 ? given : undefined;
  const places = tool.places.filter((each) => each.offered);
  const contexts = [...new Set(places.map((each) => each.context))];
  const context = choices.context ?? chosen?.context ?? contexts[0] ?? "";
  const providers = places.filter((each) => each.context === context).map((each) => each.provider);
  const provider = choices.provider ?? providers[0];
  const states = useGet("/api/v1/providers", {}).data?.providers;
  const attempt = useTry(tool, context);
  const kinds = Object.keys(attempt.tried?.payloads ?? {});
  return (
    <div className="grid items-start gap-x-4 xl:grid-cols-2">
      <Section title={words.try.arguments}>
        <form
          className="grid gap-4"
          onSubmit={(event: FormEvent) => {
            event.preventDefault();
            if (isObject(shown)) attempt.ask(shown);
          }}
        >
          {choices.trial && <p className="text-warn">{words.try.trial(choices.trial)}</p>}
          <div className="flex flex-wrap gap-3 *:min-w-36 *:flex-1">
            <Pick
              label={words.try.context}
              value={context}
              values={contexts}
              onValue={(next) => change({ context: next, provider: undefined })}
            />
            <Pick
              label={words.try.provider}
              value={provider ?? ""}
              values={providers}
              onValue={(next) => change({ provider: next })}
            />
            <Examples tool={tool.name} context={context} examples={examples} given={shown} />
          </div>
          <InvalidJson value={setInvalid}>
            <Arguments root={root} given={given} onGiven={setGiven} />
          </InvalidJson>
          <RunBar tool={tool} root={root} given={shown} attempt={attempt} />
        </form>
      </Section>
      <Section title={words.answer.label}>
        {attempt.error && <NotRun error={attempt.error} />}
        {attempt.tried && (
          <TriedAnswer
            key={attempt.tried.call_id}
            tried={attempt.tried}
            kind={payloadKind(
              states?.find((each) => each.name === provider),
              kinds,
            )}
          />
        )}
        {!attempt.error && !attempt.tried && (
          <p className="text-muted">{attempt.busy ? words.answer.running : words.answer.none}</p>
        )}
      </Section>
    </div>
  );
}

function Pick(props: {
  label: string;
  value: string;
  values: readonly string[];
  onValue: (value: string) => void;
}) {
  const { label, value, values, onValue } = props;
  const all = values.includes(value) ? values : [value, ...values];
  return (
    <Field label={label}>
      <Select
        value={value}
        onValue={onValue}
        options={all.map((each) => ({ value: each, label: each }))}
      />
    </Field>
  );
}

// The arguments come from JSON, so they are JSON; the types of the API say `unknown` for any value.
const asSchema = (parameters: Record<string, unknown>) => parameters as JsonObject;
const asValue = (given: Record<string, unknown> | undefined) => given as JsonObject | undefined;

interface ArgumentsProps {
  root: JsonObject;
  given: Json | undefined;
  onGiven: (given: Json | undefined) => void;
}

function Arguments({ root, given, onGiven }: ArgumentsProps) {
  const shape = shapeOf(resolved(root, root), root);
  const renderable = shape.kind === "object";
  const [asJson, setAsJson] = useState(!renderable);
  if (shape.kind === "object" && shape.fields.length === 0) {
    return <p className="text-muted">{words.try.noArguments}</p>;
  }
  const onChange = (path: Path, value: Json | undefined) => onGiven(put(given, path, value));
  return (
    <div className="grid gap-3">
      {renderable && (
        <fieldset className="inline-flex justify-self-start rounded-md border border-line p-0.5">
          <legend className="sr-only">{words.try.arguments}</legend>
          {[false, true].map((json) => (
            <Button
              key={String(json)}
              small
              look={json === asJson ? "plain" : "quiet"}
              aria-pressed={json === asJson}
              onClick={() => setAsJson(json)}
            >
              {json ? words.try.json : words.try.form}
            </Button>
          ))}
        </fieldset>
      )}
      {asJson || !renderable || !isObject(given) ? (
        <Field label={words.try.arguments} hideLabel>
          <JsonInput value={given} rows={12} onValue={onGiven} />
        </Field>
      ) : (
        <SchemaForm root={root} fields={shape.fields} value={given} onChange={onChange} />
      )}
    </div>
  );
}

interface Attempt {
  tried: Schema<"Tried"> | undefined;
  error: Error | null;
  busy: boolean;
  /** Runs the tool, or asks first. */
  ask: (given: JsonObject) => void;
  /** The question that is open. */
  open: "confirm" | "approve" | null;
  /** The answer to it: yes, or null to give up. */
  settle: (given: JsonObject | null) => void;
}

/** The engine is the judge of what may run: the questions here are the ones that it would refuse. */
function useTry(tool: Details, context: string): Attempt {
  const [{ trial = null }] = useChoices();
  const [open, setOpen] = useState<Attempt["open"]>(null);
  const sending = useSend("post", "/api/v1/tools/{name}/try", { quiet: true });
  const harmless = tool.effects === "read_only";
  const [confirmed, setConfirmed] = useState(false);
  const send = (given: JsonObject, confirm: boolean, approve: boolean) => {
    const body = { context, arguments: given, provider: null, trial, approve };
    const confirming = confirm ? tool.name : "";
    sending.mutate(
      { path: { name: tool.name }, body: { ...body, confirm: confirming } },
      {
        onError: (error) => {
          const code = error instanceof Refused ? error.refusal.code : "";
          if (code === "needs_confirmation") setOpen("confirm");
          if (code === "needs_approval") setOpen("approve");
        },
      },
    );
  };
  return {
    tried: sending.data,
    error: open === null ? sending.error : null,
    busy: sending.isPending,
    open,
    ask: (given) => {
      setConfirmed(false);
      if (harmless) send(given, false, false);
      else setOpen("confirm");
    },
    settle: (given) => {
      setOpen(null);
      if (given === null) return;
      const confirms = confirmed || open === "confirm";
      setConfirmed(confirms);
      send(given, confirms, open === "approve");
    },
  };
}

interface RunBarProps {
  tool: Details;
  root: JsonObject;
  /** Undefined while the text is not JSON. */
  given: Json | undefined;
  attempt: Attempt;
}

function RunBar({ tool, root, given, attempt }: RunBarProps) {
  const effects = oneEffect(tool.effects);
  const may = useMay(`tools.try.${effects ?? "destructive"}`);
  const isValid = isObject(given);
  const absent = isValid ? missing(root, given, root).map(dotted) : [];
  const { open, settle } = attempt;
  return (
    <div className="flex flex-wrap items-center gap-3">
      <Button
        type="submit"
        look="primary"
        icon="play"
        busy={attempt.busy}
        disabled={!may || !isValid}
      >
        {attempt.tried ? words.try.runAgain : words.try.run}
      </Button>
      {!may && <p className="text-muted">{words.try.mayNot(effectWord(tool.effects))}</p>}
      {!isValid && <p className="text-bad">{words.try.invalid}</p>}
      {absent.length > 0 && <p className="text-warn">{words.try.missing(absent)}</p>}
      {open === "confirm" && isValid && (
        <Confirm
          title={words.try.confirm.title(tool.name)}
          about={
            effects === "idempotent" ? words.try.confirm.idempotent : words.try.confirm.destructive
          }
          confirm={words.try.confirm.run}
          danger={effects !== "idempotent"}
          {...(effects === "idempotent" ? {} : { type: tool.name })}
          onConfirm={() => settle(given)}
          onClose={() => settle(null)}
        />
      )}
      {open === "approve" && isValid && (
        <Confirm
          title={words.try.approve.title}
          about={words.try.approve.about}
          confirm={words.try.approve.yes}
          onConfirm={() => settle(given)}
          onClose={() => settle(null)}
        />
      )}
    </div>
  );
}
