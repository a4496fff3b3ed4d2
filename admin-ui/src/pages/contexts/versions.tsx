// The history of the file: who changed it, when and why; any two versions side by side; the way back.
import { useInfiniteQuery, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { get, keyOf, type Schema, sentence, useSend } from "../../app/api.ts";
import { useMay } from "../../app/session.ts";
import { Empty, Loading, Problem } from "../../parts/answer.tsx";
import { Badge } from "../../parts/badge.tsx";
import { Button } from "../../parts/button.tsx";
import { Diff } from "../../parts/code.tsx";
import { Dialog } from "../../parts/dialog.tsx";
import { Field, Select, TextInput } from "../../parts/field.tsx";
import { Section } from "../../parts/page.tsx";
import { type Column, DataTable } from "../../parts/table.tsx";
import { Time } from "../../parts/time.tsx";
import { words } from "../../words/contexts.ts";
import { type Published, Refusal } from "./publish.tsx";

type Version = Schema<"ConfigVersion">;

const PATH = "/api/v1/config/versions";
const short = (digest: string) => digest.slice(0, 12);

export interface VersionsProps {
  from: string | undefined;
  to: string | undefined;
  onCompare: (from: string | undefined, to: string | undefined) => void;
  onRestored: (report: Published) => void;
}

export function Versions({ from, to, onCompare, onRestored }: VersionsProps) {
  const [restoring, setRestoring] = useState<Version>();
  const mayRestore = useMay("config.publish");
  const pages = useInfiniteQuery({
    queryKey: [PATH, "pages"],
    queryFn: ({ pageParam, signal }) =>
      get(PATH, { query: { limit: 50, cursor: pageParam } }, signal),
    initialPageParam: "",
    getNextPageParam: (page) => page.next || undefined,
  });
  if (!pages.data) {
    if (!pages.error) return <Loading />;
    return <Problem error={pages.error} onRetry={() => void pages.refetch()} />;
  }
  const versions = pages.data.pages.flatMap((page) => page.versions);
  const columns = columnsFor({
    newest: new Map([...versions].reverse().map((each) => [each.digest, each])),
    compared: from,
    onCompare: (version) => onCompare(version.digest, undefined),
    onRestore: mayRestore ? setRestoring : undefined,
  });
  return (
    <div className="px-6 pb-12 phone:px-4">
      {from && <Comparison versions={versions} from={from} to={to} onCompare={onCompare} />}
      <Section>
        <div className="-m-4">
          <DataTable
            label={words.history.label}
            rows={versions}
            columns={columns}
            rowKey={({ digest, at }) => `${digest} ${at}`}
            empty={<Empty icon="clock" title={words.history.empty} />}
          />
          {pages.hasNextPage && (
            <div className="border-t border-line p-2 text-center">
              {pages.error && (
                <p role="alert" className="mb-1 text-bad">
                  {sentence(pages.error)}
                </p>
              )}
              <Button
                look="quiet"
                busy={pages.isFetchingNextPage}
                onClick={() => void pages.fetchNextPage()}
              >
                {words.history.older}
              </Button>
            </div>
          )}
        </div>
      </Section>
      {restoring && (
        <Restore
          version={restoring}
          base={versions.find((each) => each.in_file)?.digest ?? ""}
          onClose={() => setRestoring(undefined)}
          onRestored={(report) => {
            setRestoring(undefined);
            onRestored(report);
          }}
        />
      )}
    </div>
  );
}

function columnsFor(act: {
  /** Of each digest: a restored one is in the list more than once. */
  newest: ReadonlyMap<string, Version>;
  compared: string | undefined;
  onCompare: (version: Version) => void;
  onRestore: ((version: Version) => void) | undefined;
}): Column<Version>[] {
  const { history } = words;
  return [
    {
      id: "version",
      head: history.version,
      cell: (version) => (
        <span className="flex flex-wrap items-center gap-1.5">
          <code className="font-mono">{short(version.digest)}</code>
          {act.newest.get(version.digest) === version && <Place version={version} />}
        </span>
      ),
    },
    { id: "at", head: history.when, cell: ({ at }) => <Time at={at} /> },
    {
      id: "who",
      head: history.who,
      cell: ({ who }) => who || <span className="text-muted">{history.unknown}</span>,
    },
    {
      id: "why",
      head: history.why,
      width: "40%",
      cell: ({ why }) => <span className="break-words">{why || "–"}</span>,
    },
    { id: "from", head: history.from, wide: true, cell: ({ source }) => history.sources[source] },
    {
      id: "acts",
      head: <span className="sr-only">{words.moreActions}</span>,
      align: "end",
      cell: (version) => (
        <span className="flex justify-end gap-1">
          <Button
            small
            look="quiet"
            aria-pressed={act.compared === version.digest}
            onClick={() => act.onCompare(version)}
          >
            {history.compare}
          </Button>
          {act.onRestore && !version.in_file && (
            <Button small look="quiet" onClick={() => act.onRestore?.(version)}>
              {history.restore}
            </Button>
          )}
        </span>
      ),
    },
  ];
}

function Place({ version: { in_file, in_force } }: { version: Version }) {
  if (in_force) return <Badge tone="good">{words.history.inForce}</Badge>;
  return in_file ? <Badge tone="warn">{words.history.inFile}</Badge> : null;
}

/** The differences of two versions, or of a version and the file. */
function Comparison(props: {
  versions: readonly Version[];
  from: string;
  to: string | undefined;
  onCompare: VersionsProps["onCompare"];
}) {
  const { versions, from, to, onCompare } = props;
  const lines = useQuery({
    queryKey: ["version difference", from, to],
    queryFn: async ({ signal }) =>
      (
        await get(
          "/api/v1/config/versions/{version}/diff",
          { path: { version: from }, query: { to: to ?? "" } },
          signal,
        )
      ).lines,
  });
  const options = [
    { value: "", label: words.history.theFile },
    ...versions
      .filter((each) => each.digest !== from)
      .map(({ digest, why }) => ({ value: digest, label: `${short(digest)} ${why}` })),
  ];
  const title = words.history.diff(
    short(from),
    to ? short(to) : words.history.theFile.toLowerCase(),
  );
  return (
    <Section
      title={title}
      actions={
        <>
          <Select
            aria-label={words.history.compareWith}
            value={to ?? ""}
            options={options}
            onValue={(digest) => onCompare(from, digest || undefined)}
            className="max-w-64"
          />
          <Button onClick={() => onCompare(undefined, undefined)}>{words.history.close}</Button>
        </>
      }
    >
      {lines.error ? (
        <p className="text-bad">{sentence(lines.error)}</p>
      ) : !lines.data ? (
        <Loading />
      ) : lines.data.length === 0 ? (
        <p className="text-muted">{words.history.same}</p>
      ) : (
        <Diff lines={lines.data} label={title} />
      )}
    </Section>
  );
}

function Restore(props: {
  version: Version;
  /** Digest of the file as the list shows it; empty if the list does not have it. */
  base: string;
  onRestored: (report: Published) => void;
  onClose: () => void;
}) {
  const { version, base, onRestored, onClose } = props;
  const [comment, setComment] = useState("");
  const queries = useQueryClient();
  const send = useSend("post", "/api/v1/config/versions/{version}/restore", {
    quiet: true,
    onDone: (report) => {
      void queries.invalidateQueries({ queryKey: keyOf(PATH) });
      onRestored(report);
    },
  });
  return (
    <Dialog
      title={words.history.restoreTitle(short(version.digest))}
      about={words.history.restoreAbout}
      onClose={onClose}
    >
      <form
        className="grid grid-cols-[minmax(0,1fr)] gap-3"
        onSubmit={(event) => {
          event.preventDefault();
          send.mutate(
            { path: { version: version.digest }, body: { comment: comment.trim(), base } },
            { onError: () => void queries.invalidateQueries({ queryKey: keyOf(PATH) }) },
          );
        }}
      >
        <Field label={words.publish.comment} hint={words.publish.commentHint}>
          <TextInput
            required
            value={comment}
            maxLength={500}
            onChange={(event) => setComment(event.target.value)}
          />
        </Field>
        {send.error && <Refusal error={send.error} />}
        <div className="flex justify-end">
          <Button type="submit" look="primary" busy={send.isPending} disabled={!comment.trim()}>
            {words.history.restoreNow}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
