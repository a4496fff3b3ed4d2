// The numbers that are not called: one looked up, blocked or unblocked; many blocked; the list.
import { useInfiniteQuery } from "@tanstack/react-query";
import { type FormEvent, useEffect, useMemo, useRef, useState } from "react";

import { get, keyOf, type Schema, sentence } from "../../app/api.ts";
import { seesAll, useMay, useSession } from "../../app/session.ts";
import { Empty, Loading, Problem } from "../../parts/answer.tsx";
import { Button } from "../../parts/button.tsx";
import { Confirm, Dialog } from "../../parts/dialog.tsx";
import { Field, TextArea, TextInput } from "../../parts/field.tsx";
import { Section } from "../../parts/page.tsx";
import { type Column, DataTable } from "../../parts/table.tsx";
import { Time } from "../../parts/time.tsx";
import { toast } from "../../parts/toast.tsx";
import { words as all } from "../../words/outbound.ts";
import { blockRest, type Taken } from "./block-many.ts";
import { Verdict } from "./check.tsx";
import { BLOCKED, useBlock, useChecked, useUnblock } from "./data.ts";
import { type Faults, faultsOf } from "./faults.ts";
import { numbersIn } from "./lists.ts";

type Blocked = Schema<"BlockedNumber">;

const words = all.blocked;
const PAGE = 50;

export function DoNotCall({ contexts }: { contexts: readonly Schema<"CallableContext">[] }) {
  const me = useSession();
  const may = useMay("calls.place");
  const [unblocking, setUnblocking] = useState("");
  const context = contexts[0]?.context ?? "";
  return (
    <>
      <p className="mb-4 max-w-prose text-muted">{words.about}</p>
      {may && context && <LookUp context={context} onUnblock={setUnblocking} />}
      {seesAll(me) ? (
        <BlockedList onUnblock={may ? setUnblocking : undefined} />
      ) : (
        <p>{words.scoped}</p>
      )}
      {unblocking && <Unblock number={unblocking} onClose={() => setUnblocking("")} />}
    </>
  );
}

/** One number by its digits. The list does not depend on the context. */
function LookUp(props: { context: string; onUnblock: (number: string) => void }) {
  const [typed, setTyped] = useState("");
  const [importing, setImporting] = useState(false);
  const all = seesAll(useSession());
  const check = useChecked(typed, props.context);
  const { checked } = check;
  const block = useBlock((added) => toast(words.added(added, 1)));
  const faults = faultsOf(block.error, ["numbers"]);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (checked?.number && !checked.blocked) block.mutate({ body: { numbers: [checked.number] } });
  };
  return (
    <Section
      title={words.lookUp}
      actions={
        <Button icon="plus" onClick={() => setImporting(true)}>
          {words.importMany}
        </Button>
      }
    >
      <form onSubmit={submit} className="grid max-w-2xl gap-2">
        <div className="flex flex-wrap items-end gap-2">
          <div className="w-64 phone:w-full">
            <Field label={words.number} error={told(faults)}>
              <TextInput
                type="tel"
                value={typed}
                maxLength={40}
                autoComplete="off"
                onChange={({ target }) => {
                  setTyped(target.value);
                  block.reset();
                }}
              />
            </Field>
          </div>
          {checked?.blocked && all && (
            <Button onClick={() => props.onUnblock(checked.number)}>{words.unblock}</Button>
          )}
          {!checked?.blocked && (
            <Button type="submit" look="primary" busy={block.isPending} disabled={!checked?.number}>
              {words.block}
            </Button>
          )}
        </div>
        <Verdict {...check} />
        {checked?.number && !checked.blocked && <p>{words.notOnList}</p>}
      </form>
      {importing && <BlockMany onClose={() => setImporting(false)} />}
    </Section>
  );
}

function Unblock({ number, onClose }: { number: string; onClose: () => void }) {
  const unblock = useUnblock(() => {
    toast(words.unblocked);
    onClose();
  });
  return (
    <Confirm
      title={words.unblockTitle(number)}
      about={words.unblockAbout}
      confirm={words.unblockYes}
      danger
      busy={unblock.isPending}
      onConfirm={() => unblock.mutate({ body: { number } })}
      onClose={onClose}
    />
  );
}

const told = ({ of, rest }: Faults<"numbers">) => of.numbers ?? (rest ? sentence(rest) : undefined);

/** Numbers as text, or from a file. What was refused stays, to be mended. */
function BlockMany({ onClose }: { onClose: () => void }) {
  const [text, setText] = useState("");
  const [taken] = useState<Taken>({ numbers: new Set(), added: 0 });
  // While it is sent: how many the engine has, and the seconds that it asks to wait.
  const [sending, setSending] = useState<{ count: number; wait: number } | null>(null);
  const gone = useGone();
  const numbers = useMemo(() => numbersIn(text), [text]);
  const block = useBlock(() => {});
  const error = sending ? null : block.error;
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    const onPart = (wait: number) => setSending({ count: taken.numbers.size, wait });
    onPart(0);
    const send = async (part: string[]) => {
      gone.current.throwIfAborted();
      return (await block.mutateAsync({ body: { numbers: part } })).added;
    };
    const pause = (seconds: number) => pauseOf(seconds, gone.current);
    try {
      await blockRest(numbers, taken, { send, onPart, pause });
    } catch {
      // The form shows why, unless it was closed.
      const { size } = taken.numbers;
      if (gone.current.aborted) toast.bad(words.stopped(size, numbers.length));
      return;
    } finally {
      setSending(null);
    }
    toast(words.added(taken.added, numbers.length));
    onClose();
  };
  const count = taken.numbers.size;
  const said = [told(faultsOf(error, ["numbers"])), error && count > 0 && words.before(count)];
  return (
    <Dialog title={words.importTitle} about={words.importAbout} onClose={onClose}>
      <form onSubmit={(event) => void submit(event)} className="grid gap-4">
        <Field label={words.numbers} error={said.filter(Boolean).join(" ") || undefined}>
          <TextArea
            rows={8}
            spellCheck={false}
            value={text}
            readOnly={sending !== null}
            onChange={({ target }) => {
              setText(target.value);
              block.reset();
            }}
          />
        </Field>
        <Field label={words.file}>
          <TextInput
            type="file"
            accept=".csv,.txt,text/csv,text/plain"
            className="h-auto border-dashed py-3"
            disabled={sending !== null}
            onChange={async ({ target }) => {
              const file = target.files?.[0];
              if (file) setText(numbersIn(await file.text()).join("\n"));
            }}
          />
        </Field>
        <div className="flex items-center justify-end gap-4">
          <p role="status" className="text-muted">
            {sending && words.sending(sending.count, numbers.length, sending.wait)}
          </p>
          <Button
            type="submit"
            look="primary"
            busy={sending !== null}
            disabled={numbers.length === 0}
          >
            {words.blockMany(numbers.length)}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

/** A signal that is aborted when the component is gone. */
function useGone() {
  const signal = useRef(AbortSignal.abort());
  useEffect(() => {
    const controller = new AbortController();
    signal.current = controller.signal;
    return () => controller.abort();
  }, []);
  return signal;
}

function pauseOf(seconds: number, gone: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    setTimeout(resolve, seconds * 1_000);
    gone.addEventListener("abort", reject, { once: true });
  });
}

function BlockedList({ onUnblock }: { onUnblock: ((number: string) => void) | undefined }) {
  const personal = useMay("personal");
  const list = useInfiniteQuery({
    queryKey: keyOf(BLOCKED),
    queryFn: ({ pageParam, signal }) =>
      get(BLOCKED, { query: { limit: PAGE, cursor: pageParam } }, signal),
    initialPageParam: null as number | null,
    getNextPageParam: ({ next }) => next ?? undefined,
  });
  const rows = useMemo(
    () =>
      list.data?.pages
        .flatMap((page) => page.numbers)
        .map((each, place): Row => ({ ...each, place })), // masked numbers may be equal
    [list.data],
  );
  return (
    <Section title={words.list} flush>
      {list.error && !rows && <Problem error={list.error} onRetry={() => void list.refetch()} />}
      {!list.error && !rows && <Loading />}
      {rows && (
        <DataTable
          label={words.label}
          rows={rows}
          rowKey={({ place }) => String(place)}
          columns={columnsFor(personal ? onUnblock : undefined)}
          empty={<Empty icon="check" title={words.empty} />}
        />
      )}
      {rows && rows.length > 0 && !personal && onUnblock && (
        <p className="border-t border-line px-4 py-2 text-muted">{words.masked}</p>
      )}
      {list.hasNextPage && (
        <div className="grid justify-items-center border-t border-line p-2">
          <Button busy={list.isFetchingNextPage} onClick={() => void list.fetchNextPage()}>
            {words.more}
          </Button>
        </div>
      )}
    </Section>
  );
}

type Row = Blocked & { place: number };

function columnsFor(onUnblock: ((number: string) => void) | undefined): Column<Row>[] {
  const columns: Column<Row>[] = [
    { id: "number", head: words.number, cell: ({ number }) => number },
    { id: "since", head: words.since, cell: ({ since }) => <Time at={since} /> },
  ];
  if (onUnblock === undefined) return columns;
  const cell = ({ number }: Row) => (
    <Button small aria-label={words.unblockOf(number)} onClick={() => onUnblock(number)}>
      {words.unblock}
    </Button>
  );
  const head = <span className="sr-only">{words.actions}</span>;
  return [...columns, { id: "actions", head, align: "end", cell }];
}
