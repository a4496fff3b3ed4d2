import { useInfiniteQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";

import { get, keyOf, type Schema, sentence, useGet } from "../../app/api.ts";
import { stringifySearch } from "../../app/search.ts";
import { Empty, Loading, Problem } from "../../parts/answer.tsx";
import { Badge, StatusDot, type Tone } from "../../parts/badge.tsx";
import { Button } from "../../parts/button.tsx";
import { CodeBlock, Json } from "../../parts/code.tsx";
import { Dialog } from "../../parts/dialog.tsx";
import { download } from "../../parts/download.ts";
import { Field, LateInput, Select } from "../../parts/field.tsx";
import { Menu } from "../../parts/menu.tsx";
import { Section } from "../../parts/page.tsx";
import { type Column, DataTable } from "../../parts/table.tsx";
import { Time } from "../../parts/time.tsx";
import { words as all } from "../../words/people.ts";
import { RESULTS, type Search } from "./search.ts";

const words = all.audit;
const AUDIT = "/api/v1/audit";
const PAGE = 50;

type Entry = Schema<"AuditEntries">["entries"][number];
type Asked = { [Name in keyof Filters]-?: NonNullable<Filters[Name]> | "" };
type Filters = Pick<Search, "who" | "action" | "on" | "result">;

export interface AuditProps {
  search: Search;
  onChange: (changed: Filters) => void;
}

/** Who did what, the newest first. */
export function Audit({ search, onChange }: AuditProps) {
  const { who = "", action = "", on = "", result = "" } = search;
  const [opened, setOpened] = useState<Entry | null>(null);
  const filters = useMemo<Asked>(() => ({ who, action, on, result }), [who, action, on, result]);
  const audit = useInfiniteQuery({
    queryKey: keyOf(AUDIT, filters),
    queryFn: ({ pageParam, signal }) =>
      get(AUDIT, { query: { limit: PAGE, before: pageParam, ...filters } }, signal),
    initialPageParam: null as number | null,
    getNextPageParam: ({ next }) => next || undefined,
  });
  const entries = useMemo(() => audit.data?.pages.flatMap((page) => page.entries), [audit.data]);
  const columns = useMemo(() => columnsFor(setOpened), []);
  const filtered = Object.values(filters).some(Boolean);
  return (
    <>
      <Verification />
      <Section
        title={words.label}
        actions={
          <>
            <FilterFields {...{ search, onChange }} />
            <Export filters={filters} />
          </>
        }
        flush
      >
        {audit.error && !entries && (
          <Problem error={audit.error} onRetry={() => void audit.refetch()} />
        )}
        {!audit.error && !entries && <Loading />}
        {entries && (
          <DataTable
            label={words.label}
            rows={entries}
            rowKey={({ seq }) => String(seq)}
            columns={columns}
            onOpen={setOpened}
            empty={
              <Empty icon="search" title={words.none}>
                {filtered && <p>{words.noneAbout}</p>}
              </Empty>
            }
          />
        )}
        {audit.hasNextPage && (
          <div className="grid justify-items-center gap-1 border-t border-line p-2">
            {audit.error && entries && (
              <p role="alert" className="text-bad">
                {sentence(audit.error)}
              </p>
            )}
            <Button busy={audit.isFetchingNextPage} onClick={() => void audit.fetchNextPage()}>
              {filtered ? words.goOn : words.more}
            </Button>
          </div>
        )}
      </Section>
      {opened && (
        <Dialog
          light
          title={words.details(Number(opened.seq))}
          wide
          onClose={() => setOpened(null)}
        >
          <Json value={opened} label={words.details(Number(opened.seq))} />
        </Dialog>
      )}
    </>
  );
}

function Export({ filters }: { filters: Asked }) {
  return (
    <Menu
      trigger={<Button icon="download">{words.exportMenu}</Button>}
      items={(["csv", "jsonl"] as const).map((format) => ({
        label: words.exports[format],
        onSelect: () => download(`${AUDIT}/export${stringifySearch({ ...filters, format })}`),
      }))}
    />
  );
}

const TONES: Record<string, Tone> = { done: "good", refused: "warn", failed: "bad" };
const shown = (value: unknown) => String(value ?? "");

function columnsFor(open: (entry: Entry) => void): Column<Entry>[] {
  return [
    {
      id: "at",
      head: words.at,
      cell: (entry) => (
        <button
          type="button"
          className="min-h-6 hover:underline"
          onClick={(event) => {
            event.stopPropagation(); // the row would open it again
            open(entry);
          }}
        >
          <Time at={shown(entry.at)} />
          <span className="sr-only">, {words.details(Number(entry.seq))}</span>
        </button>
      ),
    },
    { id: "who", head: words.who, cell: ({ who }) => shown(who) },
    {
      id: "action",
      head: words.action,
      cell: ({ action }) => <code className="font-mono text-xs">{shown(action)}</code>,
    },
    {
      id: "on",
      head: words.on,
      wide: true,
      cell: ({ on }) => <span className="block max-w-72 truncate">{shown(on)}</span>,
    },
    { id: "context", head: words.context, wide: true, cell: ({ context }) => shown(context) },
    { id: "client", head: words.client, wide: true, cell: ({ client }) => shown(client) },
    {
      id: "result",
      head: words.result,
      cell: ({ result }) => (
        <span className="inline-flex items-center gap-1.5">
          <StatusDot tone={TONES[shown(result)] ?? "neutral"} />
          {shown(result)}
        </span>
      ),
    },
  ];
}

function FilterFields({ search, onChange }: AuditProps) {
  const fields = [
    ["who", words.anyone],
    ["action", words.anything],
    ["on", words.anyThing],
  ] as const;
  return (
    <>
      {fields.map(([name, label]) => (
        <Field key={name} label={label} hideLabel>
          <LateInput
            className="w-40 phone:w-36"
            placeholder={label}
            value={search[name] ?? ""}
            onValue={(value) => onChange({ [name]: value.trim() })}
          />
        </Field>
      ))}
      <Field label={words.result} hideLabel>
        <Select
          value={search.result ?? ""}
          onValue={(value) => onChange({ result: value || undefined })}
          options={(["", ...RESULTS] as const).map((value) => ({
            value,
            label: words.results[value],
          }))}
        />
      </Field>
    </>
  );
}

/** Checks the whole chain when asked to. */
function Verification() {
  const [asked, setAsked] = useState(0);
  const verified = useGet("/api/v1/audit/verify", {}, { enabled: asked > 0, staleTime: 0 });
  const verify = () => (asked ? void verified.refetch() : setAsked(1));
  const { data, error, isFetching } = verified;
  return (
    <div className="mb-4 flex flex-wrap items-center gap-3">
      <Button icon="check" busy={isFetching} onClick={verify}>
        {words.verify}
      </Button>
      <div role="status" className="min-w-0 flex-1">
        {error && <span className="text-bad">{sentence(error)}</span>}
        {data && !isFetching && data.problem && (
          <span className="flex flex-wrap items-center gap-2">
            <Badge tone="bad">{words.broken}</Badge>
            {data.problem}
          </span>
        )}
        {data && !isFetching && !data.problem && (
          <span className="flex items-center gap-2">
            <StatusDot tone="good" />
            {words.inOrder(data.first, data.lines)}
          </span>
        )}
      </div>
      {data && !isFetching && (
        <Field label={words.head} hint={words.headHint}>
          <CodeBlock text={data.head} label={words.head} />
        </Field>
      )}
    </div>
  );
}
