// One call to one number: what the firewall says while it is typed, the call, and its outcome.
import { type FormEvent, useState } from "react";

import { Refused, type Schema, sentence, useGet, useOnce, useSend } from "../../app/api.ts";
import { useMay } from "../../app/session.ts";
import { Empty } from "../../parts/answer.tsx";
import { Button, LinkButton } from "../../parts/button.tsx";
import { Field, Select, TextArea, TextInput } from "../../parts/field.tsx";
import { Fold } from "../../parts/fold.tsx";
import { Section } from "../../parts/page.tsx";
import { words as all } from "../../words/outbound.ts";
import { Outcome } from "../calls/cells.tsx";
import { Verdict } from "./check.tsx";
import { OUTBOUND, useChecked } from "./data.ts";
import { type Faults, faultsOf } from "./faults.ts";
import { stepsOf } from "./lists.ts";

type Context = Schema<"CallableContext">;

const words = all.call;
const FIELDS = ["number", "context", "message", "keys", "purpose", "despite_block"] as const;
const LONGEST = 1_000;
const LONGEST_PURPOSE = 500;
const LOOK_EVERY_MS = 1_000;

export interface OneCallProps {
  contexts: readonly Context[];
  chosen: string | undefined;
  onContext: (context: string) => void;
}

export function OneCall(props: OneCallProps) {
  const [callId, setCallId] = useState("");
  const context = props.contexts.find((each) => each.context === props.chosen) ?? props.contexts[0];
  if (!useMay("calls.place")) {
    return (
      <Empty icon="lock" title={words.forbidden}>
        <p>{words.forbiddenAbout}</p>
      </Empty>
    );
  }
  if (context === undefined) return <Empty icon="contexts" title={all.noContext} />;
  return (
    <div className="max-w-3xl">
      <Section title={words.title}>
        <CallForm {...props} context={context} onPlaced={setCallId} />
      </Section>
      {callId && <Course key={callId} callId={callId} />}
    </div>
  );
}

interface FormProps extends OneCallProps {
  context: Context;
  onPlaced: (callId: string) => void;
}

function CallForm({ contexts, context, onContext, onPlaced }: FormProps) {
  const [number, setNumber] = useState("");
  const [variables, setVariables] = useState<Readonly<Record<string, string>>>({});
  const [machines, setMachines] = useState<Machine>({ message: "", keys: "", purpose: "" });
  const [reason, setReason] = useState("");
  const check = useChecked(number, context.context);
  const once = useOnce();
  const place = useSend("post", "/api/v1/calls", {
    stale: [OUTBOUND],
    quiet: true,
    onDone: ({ call_id }) => {
      once.done();
      setReason("");
      onPlaced(call_id);
    },
  });
  const faults = faultsOf(place.error, FIELDS);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const given = context.variables.flatMap((name) => {
      const value = variables[name]?.trim();
      return value ? [[name, value] as const] : [];
    });
    const body = {
      ...{ number: number.trim(), context: context.context, variables: Object.fromEntries(given) },
      ...{ message: machines.message.trim(), keys: stepsOf(machines.keys) },
      purpose: machines.purpose.trim(),
      despite_block: check.checked?.blocked ? reason.trim() : "",
    };
    place.mutate({ body, headers: once.headers(body) }, once.kept);
  };
  return (
    <form onSubmit={submit} className="grid gap-4">
      <div className="grid grid-cols-2 gap-4 phone:grid-cols-1">
        <Field label={words.number} hint={words.numberHint} error={faults.of.number}>
          <TextInput
            type="tel"
            value={number}
            maxLength={40}
            required
            autoComplete="off"
            onChange={({ target }) => {
              setNumber(target.value);
              setReason(""); // it was about the number before
              place.reset();
            }}
          />
        </Field>
        <Field label={words.context} error={faults.of.context}>
          <Select
            value={context.context}
            onValue={onContext}
            options={contexts.map((each) => ({ value: each.context, label: each.context }))}
          />
        </Field>
      </div>
      <Verdict {...check} />
      {check.checked?.blocked && (
        <Field label={words.despite} hint={words.despiteHint} error={faults.of.despite_block}>
          <TextInput
            value={reason}
            maxLength={200}
            onChange={({ target }) => setReason(target.value)}
          />
        </Field>
      )}
      <Variables names={context.variables} values={variables} onChange={setVariables} />
      <Machines machines={machines} faults={faults} onChange={setMachines} />
      {faults.rest && (
        <p role="alert" className="text-bad">
          {sentence(faults.rest)}
        </p>
      )}
      <div>
        <Button type="submit" look="primary" icon="outbound" busy={place.isPending}>
          {words.place}
        </Button>
      </div>
    </form>
  );
}

interface VariablesProps {
  names: readonly string[];
  values: Readonly<Record<string, string>>;
  onChange: (values: Readonly<Record<string, string>>) => void;
}

/** The variables that the context declares. */
function Variables({ names, values, onChange }: VariablesProps) {
  if (names.length === 0) return null;
  return (
    <fieldset className="grid grid-cols-2 gap-4 phone:grid-cols-1">
      <legend className="mb-1 font-medium">{words.variables}</legend>
      {names.map((name) => (
        <Field key={name} label={<span className="font-mono text-xs">{name}</span>}>
          <TextInput
            value={values[name] ?? ""}
            maxLength={LONGEST}
            onChange={({ target }) => onChange({ ...values, [name]: target.value })}
          />
        </Field>
      ))}
    </fieldset>
  );
}

/** What machines get that answer. */
interface Machine {
  message: string;
  keys: string;
  purpose: string;
}

interface MachinesProps {
  machines: Machine;
  faults: Faults<(typeof FIELDS)[number]>;
  onChange: (machines: Machine) => void;
}

/** Folded away unless something is wrong there. */
function Machines({ machines, faults, onChange }: MachinesProps) {
  const wrong = Boolean(faults.of.message || faults.of.keys || faults.of.purpose);
  const { making } = all;
  const set = (some: Partial<Machine>) => onChange({ ...machines, ...some });
  return (
    <Fold title={words.more} open={wrong} key={String(wrong)}>
      <Field label={making.message} hint={making.messageHint} error={faults.of.message}>
        <TextArea
          rows={2}
          maxLength={LONGEST}
          value={machines.message}
          onChange={({ target }) => set({ message: target.value })}
        />
      </Field>
      <Field label={making.keys} hint={making.keysHint} error={faults.of.keys}>
        <TextInput
          value={machines.keys}
          spellCheck={false}
          onChange={({ target }) => set({ keys: target.value })}
        />
      </Field>
      <Field label={words.purpose} hint={words.purposeHint} error={faults.of.purpose}>
        <TextInput
          value={machines.purpose}
          maxLength={LONGEST_PURPOSE}
          onChange={({ target }) => set({ purpose: target.value })}
        />
      </Field>
    </Fold>
  );
}

/** The placed call as far as it is; its outcome when it is over. */
function Course({ callId }: { callId: string }) {
  const [over, setOver] = useState(false);
  const look = useGet(
    "/api/v1/calls/{call_id}",
    { path: { call_id: callId } },
    { refetchInterval: over ? false : LOOK_EVERY_MS, staleTime: 0 },
  );
  const { data, error } = look;
  // The ledger takes a moment to be found; a call whose engine was killed may never have one.
  const unseen = error instanceof Refused && error.status === 404;
  const placed = useGet(
    "/api/v1/outbound/calls/{call_id}",
    { path: { call_id: callId } },
    { refetchInterval: LOOK_EVERY_MS, staleTime: 0, enabled: unseen && !over },
  );
  const end = data ? !data.live && data.call.row : unseen && placed.data;
  const ended = Boolean(end && end.outcome !== "");
  if (data && ended && !over) setOver(true);
  const answered = data?.call.connected_ms != null;
  return (
    <Section title={words.placed}>
      <div role="status" className="flex flex-wrap items-center gap-3">
        {error && !unseen && <p className="text-bad">{sentence(error)}</p>}
        {!ended && <p>{answered ? words.talking : words.dialling}</p>}
        {end && ended && (
          <p className="flex items-center gap-2">
            {words.over}{" "}
            {data ? (
              <Outcome outcome={end.outcome} reason={end.reason} />
            ) : (
              all.whatText(end.outcome)
            )}
          </p>
        )}
      </div>
      <div className="mt-3 flex flex-wrap gap-2">
        {!ended && (
          <LinkButton icon="live" to="/live" search={{ call: callId }}>
            {words.follow}
          </LinkButton>
        )}
        {ended && data && (
          <LinkButton icon="calls" to="/calls/$callId" params={{ callId }}>
            {words.open}
          </LinkButton>
        )}
      </div>
    </Section>
  );
}
