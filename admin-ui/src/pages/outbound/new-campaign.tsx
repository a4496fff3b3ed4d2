// A new campaign: its list and settings, then the lines that were left out.
import { type FormEvent, useState } from "react";

import { type Schema, sentence, useSend } from "../../app/api.ts";
import { Button } from "../../parts/button.tsx";
import { Copy } from "../../parts/code.tsx";
import { Dialog } from "../../parts/dialog.tsx";
import { Checkbox, Field, NumberInput, Select, TextArea, TextInput } from "../../parts/field.tsx";
import { Fold } from "../../parts/fold.tsx";
import { DataTable } from "../../parts/table.tsx";
import { toast } from "../../parts/toast.tsx";
import { words as all } from "../../words/outbound.ts";
import { CAMPAIGNS } from "./data.ts";
import { type Faults, faultsOf } from "./faults.ts";
import { DAYS, type Day, daysText, type Fault, type List, listOf, stepsOf } from "./lists.ts";

type Made = Schema<"NewCampaignMade">;
type Context = Schema<"CallableContext">;

const words = all.making;
const FIELDS = [
  ...["name", "context", "csv", "consent", "hours", "days"],
  ...["attempts", "retry_minutes", "concurrency", "message", "keys", "zone"],
] as const;
const LONGEST = 1_000;

interface Order {
  name: string;
  context: string;
  list: List | null;
  consent: string;
  from: string;
  to: string;
  days: ReadonlySet<Day>;
  attempts: number | null;
  retryMinutes: number | null;
  concurrency: number | null;
  message: string;
  keys: string;
  zone: string;
}

const START = {
  ...{ name: "", context: "", list: null, consent: "", message: "", keys: "", zone: "" },
  ...{ from: "09:00", to: "20:00", days: new Set<Day>(["mon", "tue", "wed", "thu", "fri"]) },
  ...{ attempts: 2, retryMinutes: 120, concurrency: 1 },
} satisfies Order;

export interface NewCampaignProps {
  contexts: readonly Context[];
  onClose: () => void;
  onOpen: (campaign: string) => void;
}

export function NewCampaign({ contexts, onClose, onOpen }: NewCampaignProps) {
  const [order, setOrder] = useState<Order>({ ...START, context: contexts[0]?.context ?? "" });
  const [made, setMade] = useState<Made | null>(null);
  const make = useSend("post", CAMPAIGNS, { stale: [CAMPAIGNS], quiet: true, onDone: setMade });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (order.list) make.mutate({ body: bodyOf(order, order.list) });
  };
  const name = order.name.trim();
  if (made) {
    return <Report name={name} made={made} onClose={onClose} onOpen={() => onOpen(name)} />;
  }
  const faults = faultsOf(make.error, FIELDS);
  const parts = {
    order,
    faults,
    onChange: (some: Partial<Order>) => setOrder((before) => ({ ...before, ...some })),
  };
  return (
    <Dialog title={words.title} about={words.about} wide onClose={onClose}>
      <form onSubmit={submit} className="grid grid-cols-[minmax(0,1fr)] gap-4">
        <Whom {...parts} contexts={contexts} />
        <Hours {...parts} />
        <Fold title={words.more} open={isInFold(faults)} key={String(isInFold(faults))}>
          <Further {...parts} />
        </Fold>
        {faults.rest && (
          <p role="alert" className="text-bad">
            {sentence(faults.rest)}
          </p>
        )}
        <div className="flex justify-end">
          <Button type="submit" look="primary" busy={make.isPending} disabled={!order.list}>
            {words.make}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

type Names = (typeof FIELDS)[number];

/** True if a fault would be hidden by the fold. */
const isInFold = ({ of }: Faults<Names>) =>
  [of.attempts, of.retry_minutes, of.concurrency, of.message, of.keys, of.zone].some(Boolean);

function bodyOf(order: Order, list: List): Schema<"NewCampaign"> {
  const { name, context, consent, from, to, days, message, zone } = order;
  return {
    ...{ name: name.trim(), context, csv: list.text, consent: consent.trim() },
    ...{ hours: `${from}-${to}`, days: daysText(days), message: message.trim(), zone: zone.trim() },
    attempts: order.attempts ?? START.attempts,
    retry_minutes: order.retryMinutes ?? START.retryMinutes,
    concurrency: order.concurrency ?? START.concurrency,
    keys: stepsOf(order.keys),
  };
}

interface PartProps {
  order: Order;
  faults: Faults<Names>;
  onChange: (some: Partial<Order>) => void;
}

function Whom({ order, faults, contexts, onChange }: PartProps & { contexts: readonly Context[] }) {
  const context = contexts.find((each) => each.context === order.context);
  const columns = ["number", "zone", ...(context?.variables ?? [])].join(", ");
  return (
    <>
      <div className="grid grid-cols-2 gap-4 phone:grid-cols-1">
        <Field label={words.name} hint={words.nameHint} error={faults.of.name}>
          <TextInput
            value={order.name}
            maxLength={64}
            required
            autoComplete="off"
            onChange={({ target }) => onChange({ name: target.value })}
          />
        </Field>
        <Field label={words.context} error={faults.of.context}>
          <Select
            value={order.context}
            onValue={(value) => onChange({ context: value })}
            options={contexts.map((each) => ({ value: each.context, label: each.context }))}
          />
        </Field>
      </div>
      <ListField
        list={order.list}
        columns={columns}
        error={faults.of.csv}
        onList={(list) => onChange({ list })}
      />
      <Field label={words.consent} hint={words.consentHint} error={faults.of.consent}>
        <TextInput
          value={order.consent}
          maxLength={LONGEST}
          onChange={({ target }) => onChange({ consent: target.value })}
        />
      </Field>
    </>
  );
}

interface ListFieldProps {
  list: List | null;
  columns: string;
  error: string | undefined;
  onList: (list: List | null) => void;
}

/** The browser's own field takes a file that is dropped on it, too. */
function ListField({ list, columns, error, onList }: ListFieldProps) {
  const [fault, setFault] = useState<Fault | null>(null);
  const take = async (file: File | undefined) => {
    if (file === undefined) return; // the choice was called off: the list before stays
    const found = listOf(file.name, new Uint8Array(await file.arrayBuffer()));
    setFault("text" in found ? null : found);
    onList("text" in found ? found : null);
  };
  const told = fault && ("tooLong" in fault ? words.tooLong : words.notText(fault.notText));
  return (
    <Field label={words.list} hint={words.listHint(columns)} error={told ?? error}>
      <TextInput
        type="file"
        accept=".csv,.txt,text/csv,text/plain"
        onClick={({ currentTarget }) => {
          currentTarget.value = ""; // the same file, mended, is a new choice
        }}
        onChange={({ target }) => void take(target.files?.[0])}
        className="h-auto border-dashed py-3 file:mr-3 file:h-7 file:cursor-pointer file:rounded-md file:border file:border-line file:bg-surface file:px-3 file:text-ink"
      />
      {list && <p role="status">{words.read(list.name, list.lines)}</p>}
    </Field>
  );
}

function Hours({ order, faults, onChange }: PartProps) {
  const toggle = (day: Day, on: boolean) =>
    onChange({
      days: new Set(DAYS.filter((each) => (each === day ? on : order.days.has(each)))),
    });
  return (
    <div className="grid grid-cols-[minmax(0,2fr)_minmax(0,3fr)] gap-4 phone:grid-cols-1">
      <div className="grid grid-cols-2 gap-2">
        <Field label={words.from} hint={words.hoursHint} error={faults.of.hours}>
          <TextInput
            type="time"
            required
            value={order.from}
            onChange={({ target }) => onChange({ from: target.value })}
          />
        </Field>
        <Field label={words.to}>
          <TextInput
            type="time"
            required
            value={order.to}
            onChange={({ target }) => onChange({ to: target.value })}
          />
        </Field>
      </div>
      <fieldset>
        <legend className="font-medium">{words.days}</legend>
        <div className="mt-2 flex flex-wrap gap-x-4 gap-y-1">
          {DAYS.map((day) => (
            <Checkbox
              key={day}
              label={all.days[day]}
              checked={order.days.has(day)}
              onChecked={(on) => toggle(day, on)}
            />
          ))}
        </div>
        {faults.of.days && (
          <p role="alert" className="text-xs text-bad">
            {faults.of.days}
          </p>
        )}
      </fieldset>
    </div>
  );
}

function Further({ order, faults, onChange }: PartProps) {
  return (
    <>
      <div className="grid grid-cols-3 gap-4 phone:grid-cols-1">
        <Field label={words.attempts} hint={words.attemptsHint} error={faults.of.attempts}>
          <NumberInput value={order.attempts} onValue={(attempts) => onChange({ attempts })} />
        </Field>
        <Field label={words.retry} error={faults.of.retry_minutes}>
          <NumberInput
            value={order.retryMinutes}
            onValue={(retryMinutes) => onChange({ retryMinutes })}
            unit={words.minutes}
          />
        </Field>
        <Field label={words.concurrency} error={faults.of.concurrency}>
          <NumberInput
            value={order.concurrency}
            onValue={(concurrency) => onChange({ concurrency })}
          />
        </Field>
      </div>
      <Field label={words.message} hint={words.messageHint} error={faults.of.message}>
        <TextArea
          rows={2}
          maxLength={LONGEST}
          value={order.message}
          onChange={({ target }) => onChange({ message: target.value })}
        />
      </Field>
      <div className="grid grid-cols-2 gap-4 phone:grid-cols-1">
        <Field label={words.keys} hint={words.keysHint} error={faults.of.keys}>
          <TextInput
            value={order.keys}
            spellCheck={false}
            onChange={({ target }) => onChange({ keys: target.value })}
          />
        </Field>
        <Field label={words.zone} hint={words.zoneHint} error={faults.of.zone}>
          <TextInput
            value={order.zone}
            maxLength={64}
            spellCheck={false}
            onChange={({ target }) => onChange({ zone: target.value })}
          />
        </Field>
      </div>
    </>
  );
}

interface ReportProps {
  name: string;
  made: Made;
  onClose: () => void;
  onOpen: () => void;
}

/** The number of people, and each line that was left out: the engine does not keep them. */
function Report({ name, made, onClose, onOpen }: ReportProps) {
  const start = useSend("post", "/api/v1/campaigns/{campaign}/start", {
    stale: [CAMPAIGNS],
    onDone: () => {
      toast(all.campaigns.started(name));
      onClose();
      onOpen();
    },
  });
  const { people, left_out: leftOut, broken } = made;
  const text = broken.map(({ line, problem }) => `${line}\t${problem}`).join("\n");
  return (
    <Dialog title={words.made(name)} wide onClose={onClose}>
      <p role="status">{words.people(people)}</p>
      {leftOut > 0 && (
        <>
          <p className="mt-3 flex items-center gap-1 font-medium">
            {words.leftOut(leftOut)} <Copy text={text} />
          </p>
          <div className="mt-1 max-h-[40vh] overflow-y-auto rounded-md border border-line">
            <DataTable
              label={words.broken}
              rows={broken}
              rowKey={({ line }) => String(line)}
              columns={[
                { id: "line", head: words.line, width: "5rem", cell: ({ line }) => line },
                { id: "problem", head: words.problem, cell: ({ problem }) => problem },
              ]}
            />
          </div>
          {leftOut > broken.length && <p className="mt-1">{words.firstOnly(broken.length)}</p>}
          <p className="mt-1 text-muted">{words.brokenAbout}</p>
        </>
      )}
      <div className="mt-4 flex flex-wrap justify-end gap-2">
        <Button
          onClick={() => {
            onClose();
            onOpen();
          }}
        >
          {words.open}
        </Button>
        {people > 0 && (
          <Button
            look="primary"
            icon="play"
            busy={start.isPending}
            onClick={() => start.mutate({ path: { campaign: name } })}
          >
            {words.start}
          </Button>
        )}
      </div>
    </Dialog>
  );
}
