// Contexts and configuration: a draft of the file, edited as a form and as YAML; publishing; versions.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { useEffect, useMemo, useRef, useState, useSyncExternalStore } from "react";

import { get, keyOf, Refused, type Schema, useGet, useSend } from "../../app/api.ts";
import { useMay, useSession } from "../../app/session.ts";
import { Loading, Problem } from "../../parts/answer.tsx";
import { Badge } from "../../parts/badge.tsx";
import { Button, IconButton, LinkButton } from "../../parts/button.tsx";
import { Confirm } from "../../parts/dialog.tsx";
import { Page } from "../../parts/page.tsx";
import { Time } from "../../parts/time.tsx";
import { toast } from "../../parts/toast.tsx";
import { words } from "../../words/contexts.ts";
import { ConflictDialog } from "./conflict.tsx";
import { type Clash, deskOf, isPassing, newId, rootOf, savedDraft } from "./data.ts";
import { type Begin, Draft, type State } from "./draft.ts";
import type { YamlEditor } from "./editor.ts";
import { LeaveDialog } from "./leave.tsx";
import { PublishDialog, type Published, ResultBar } from "./publish.tsx";
import type { Root } from "./schema.ts";
import { type Search, search } from "./search.ts";
import type { Part } from "./sections.ts";
import { Versions } from "./versions.tsx";
import { Workbench } from "./workbench.tsx";

type Config = Schema<"Configuration">;

const CONFIG = "/api/v1/config";
/** In the address, the single values at the top of the file. */
const GENERAL = "general";

export default function ContextsPage() {
  const { context, search, go } = useAddress();
  const { tab, from, to } = search;
  const [report, setReport] = useState<Published>();
  const queries = useQueryClient();
  const published = async (done: Published) => {
    setReport(done);
    // It may be a difference from the file, which is another one now.
    void queries.invalidateQueries({ queryKey: ["version difference"] });
    await Promise.all(
      ([CONFIG, "/api/v1/config/uses", "/api/v1/config/versions", "/api/v1/drafts"] as const).map(
        (each) => queries.invalidateQueries({ queryKey: keyOf(each) }),
      ),
    );
  };
  const bar = report && (
    <ResultBar report={report} context={context} onDismiss={() => setReport(undefined)} />
  );
  if (tab === "versions") {
    return (
      <Page
        title={words.versions}
        actions={
          <Button
            icon="edit"
            onClick={() => go({ tab: undefined, from: undefined, to: undefined })}
          >
            {words.edit}
          </Button>
        }
      >
        <div className="-mx-6 phone:-mx-4">
          {bar}
          <Versions
            from={from}
            to={to}
            onCompare={(one, other) => go({ from: one, to: other })}
            onRestored={(done) => void published(done)}
          />
        </div>
      </Page>
    );
  }
  return <Editing bar={bar} onPublished={published} />;
}

/** Loads the file, its schema and the draft of the address. */
function Editing(props: {
  bar: React.ReactNode;
  onPublished: (report: Published) => Promise<void>;
}) {
  const { search, go } = useAddress();
  const config = useFile();
  const schema = useGet("/api/v1/config/schema", {}, { staleTime: Number.POSITIVE_INFINITY });
  const [own, setOwn] = useState(newId);
  const [over, setOver] = useState<string>();
  if (over !== undefined && search.draft !== over) setOver(undefined);
  const id = search.draft === undefined || search.draft === over ? own : search.draft;
  const begin = useBegin(id === own ? undefined : id, config.data);
  const gone = begin.error instanceof Refused && begin.error.status === 404;
  useEffect(() => {
    if (!gone) return;
    toast.bad(words.draft.gone);
    go({ draft: undefined }, true);
  }, [gone, go]);
  const leave = () => {
    setOver(id); // it is in the address until the router has moved on
    setOwn(newId());
  };
  const failed = (gone ? undefined : begin.error) ?? config.error ?? schema.error;
  if (failed) {
    return (
      <Page title={words.title}>
        <Problem error={failed} />
      </Page>
    );
  }
  if (!config.data || !schema.data || !begin.data) {
    return (
      <Page title={words.title}>
        <Loading />
      </Page>
    );
  }
  return (
    <Desk
      key={`${id} ${config.data.digest}`}
      id={id}
      config={config.data}
      root={rootOf(schema.data)}
      begin={begin.data}
      bar={props.bar}
      onOver={async (report) => {
        leave();
        go({ draft: undefined }, true);
        if (report) await props.onPublished(report);
      }}
      onLeave={leave}
    />
  );
}

/** The file as it is when the page is opened. It does not change below a draft that is being edited. */
function useFile() {
  const query = useQuery({
    queryKey: keyOf(CONFIG, {}),
    queryFn: ({ signal }) => get(CONFIG, {}, signal),
    staleTime: Number.POSITIVE_INFINITY,
    refetchOnMount: "always",
  });
  return { ...query, data: query.isFetchedAfterMount ? query.data : undefined };
}

/** What the draft begins with: the saved one of the address, else the file. */
function useBegin(saved: string | undefined, config: Config | undefined) {
  const query = useQuery({
    queryKey: ["draft to edit", saved, config?.digest],
    queryFn: () => (saved && config ? savedDraft(saved, config) : null),
    enabled: saved !== undefined && config !== undefined,
    retry: false,
    gcTime: 0, // it changes while it is edited
    staleTime: Number.POSITIVE_INFINITY,
  });
  const file = useMemo<Begin | undefined>(
    () =>
      config && {
        text: config.text,
        base: config.digest,
        original: config.text,
        verdict: config,
        stale: false,
      },
    [config],
  );
  return saved
    ? { data: query.data ?? undefined, error: query.error }
    : { data: file, error: null };
}

interface DeskProps {
  id: string;
  config: Config;
  root: Root;
  begin: Begin;
  bar: React.ReactNode;
  /** The draft was published (with a report) or discarded. */
  onOver: (report?: Published) => Promise<void>;
  /** The person goes on without the draft. */
  onLeave: () => void;
}

function Desk({ id, config, root, begin, bar, onOver, onLeave }: DeskProps) {
  const { context, search, go, open } = useAddress();
  const { draft, state, changed, remove } = useDraft(id, begin);
  const editor = useRef<YamlEditor>(null);
  const [asking, setAsking] = useState<Asking>();
  const hasText = config.text !== "";
  const why = useReadOnly(config);
  const over = async (report?: Published) => {
    setAsking(undefined);
    await remove();
    await onOver(report);
  };
  const inPath = context === undefined ? undefined : `contexts.${context}`;
  return (
    <Page
      title={words.title}
      fills
      aside={changed && <DraftState state={state} />}
      actions={
        <Actions
          id={id}
          part={context}
          changed={changed}
          readOnly={why !== ""}
          editor={editor}
          onAsk={setAsking}
          onVersions={() => go({ tab: "versions" })}
        />
      }
    >
      {bar}
      <Notes why={why} stale={state.stale} config={config} hasDraft={search.draft !== undefined} />
      {!hasText && config.digest !== "" && <NotYaml config={config} />}
      <Workbench
        draft={draft}
        state={state}
        root={root}
        readOnly={why !== ""}
        hasText={hasText}
        part={search.at === GENERAL ? "" : (search.at ?? inPath)}
        onPart={open}
        editor={editor}
      />
      <Dialogs
        asking={asking}
        onAsk={setAsking}
        state={state}
        onOver={over}
        onMerged={async ({ theirs: original, digest }, text) => {
          const verdict = await deskOf(id).check(original, digest);
          draft.rebase({ text, base: digest, original, verdict, stale: false });
        }}
      />
      <LeaveDialog draft={draft} id={id} changed={changed} onLeave={onLeave} onDiscard={remove} />
    </Page>
  );
}

/** The draft of an id, which is in the address from its first change on. */
function useDraft(id: string, begin: Begin) {
  const { search, go } = useAddress();
  const [draft] = useState(() => new Draft(deskOf(id), begin, isPassing));
  const state = useSyncExternalStore(draft.subscribe, draft.state);
  const changed = state.text !== state.original;
  const removed = useSend("delete", "/api/v1/drafts/{draft}", {
    stale: ["/api/v1/drafts"],
    quiet: true,
  });
  useEffect(() => {
    if (changed && search.draft !== id) go({ draft: id }, true);
  }, [changed, search.draft, id, go]);
  const { name } = useSession();
  const queries = useQueryClient();
  useEffect(
    () => () => {
      const now = queries.getQueryData<Schema<"Me">>(keyOf("/api/v1/session", {}));
      // Never saved as the draft of somebody else who has signed in.
      void (now?.name === name ? draft.settle() : draft.close()).then(() => draft.close());
    },
    [draft, name, queries],
  );
  const remove = async () => {
    await draft.close();
    await removed.mutateAsync({ path: { draft: id } }).catch(() => {}); // it was never saved
  };
  return { draft, state, changed, remove };
}

type Asking = "publish" | "discard" | Clash | undefined;

interface DialogsProps {
  asking: Asking;
  onAsk: (what: Asking) => void;
  state: State;
  onOver: (report?: Published) => Promise<void>;
  onMerged: (clash: Clash, text: string) => Promise<void>;
}

function Dialogs({ asking, onAsk, state, onOver, onMerged }: DialogsProps) {
  const close = () => onAsk(undefined);
  if (asking === undefined) return null;
  if (asking === "publish") {
    return (
      <PublishDialog
        state={state}
        onClose={close}
        onClash={onAsk}
        onPublished={(report) => void onOver(report)}
      />
    );
  }
  if (asking === "discard") {
    return (
      <Confirm
        title={words.draft.discardTitle}
        about={words.draft.discardAbout}
        confirm={words.draft.discard}
        danger
        onClose={close}
        onConfirm={() => void onOver()}
      />
    );
  }
  return (
    <ConflictDialog
      clash={asking}
      text={state.text}
      onClose={close}
      onMerged={async (text) => {
        await onMerged(asking, text);
        onAsk("publish");
      }}
    />
  );
}

/** Why the page only shows; empty if it can change. */
function useReadOnly(config: Config): string {
  const may = useMay("config.draft");
  const wide = useWide();
  if (config.digest === "") return words.readOnly.limited;
  if (!may) return words.readOnly.viewer;
  if (config.text === "") return words.readOnly.notYaml;
  return wide ? "" : words.readOnly.narrow;
}

function DraftState({ state }: { state: State }) {
  return (
    <span role="status">
      <Badge tone={state.saved === "failed" ? "bad" : "accent"}>{words.draft[state.saved]}</Badge>
    </span>
  );
}

interface ActionsProps {
  id: string;
  part: string | undefined;
  changed: boolean;
  readOnly: boolean;
  editor: React.RefObject<YamlEditor | null>;
  onAsk: (what: "publish" | "discard") => void;
  onVersions: () => void;
}

function Actions({ id, part, changed, readOnly, editor, onAsk, onVersions }: ActionsProps) {
  const mayTry = useMay("try.chat");
  return (
    <>
      {!readOnly && (
        <span className="flex">
          <IconButton label={words.undo} icon="undo" onClick={() => editor.current?.undo()} />
          <IconButton label={words.redo} icon="redo" onClick={() => editor.current?.redo()} />
        </span>
      )}
      <Button icon="clock" onClick={onVersions}>
        {words.versions}
      </Button>
      {changed && !readOnly && (
        <>
          {mayTry && (
            <LinkButton
              to="/try"
              search={{ draft: id, ...(part ? { context: part } : {}) } as never}
              icon="play"
            >
              {words.draft.tryIt}
            </LinkButton>
          )}
          <Button onClick={() => onAsk("discard")}>{words.draft.discard}</Button>
        </>
      )}
      {!readOnly && (
        <Button look="primary" disabled={!changed} onClick={() => onAsk("publish")}>
          {words.publish.button}
        </Button>
      )}
    </>
  );
}

/** What a person should know before working here. */
function Notes(props: { why: string; stale: boolean; config: Config; hasDraft: boolean }) {
  const { why, stale, config, hasDraft } = props;
  const mayDraft = useMay("config.draft");
  const mayPublish = useMay("config.publish");
  return (
    <div className="grid gap-2 px-6 empty:hidden phone:px-4">
      {why && <p className="mb-2 text-muted">{why}</p>}
      {!why && config.reason && (
        <p className="mb-2 rounded-md bg-warn-soft px-3 py-1.5 text-warn">
          {config.reason}. {mayPublish && words.readOnly.byPatch}
        </p>
      )}
      {stale && (
        <p className="mb-2 rounded-md bg-warn-soft px-3 py-1.5 text-warn">{words.draft.stale}</p>
      )}
      {mayDraft && !why && !hasDraft && <SavedDrafts />}
    </div>
  );
}

type SavedDraft = Schema<"SavedDrafts">["drafts"][number];

/** Drafts of one's own that are not published yet; the newest first. */
function SavedDrafts() {
  const { go } = useAddress();
  const drafts = useGet("/api/v1/drafts");
  const [leaving, setLeaving] = useState<SavedDraft>();
  const remove = useSend("delete", "/api/v1/drafts/{draft}", {
    stale: ["/api/v1/drafts"],
    onDone: () => setLeaving(undefined),
  });
  const sorted = [...(drafts.data?.drafts ?? [])].sort((one, two) =>
    two.saved_at.localeCompare(one.saved_at),
  );
  if (sorted.length === 0) return null;
  return (
    <ul className="mb-2 max-h-32 overflow-y-auto rounded-md bg-accent-soft px-3 py-1">
      {sorted.map((each) => (
        <li key={each.id} className="flex flex-wrap items-center gap-2 py-0.5">
          <span className="flex-1">
            {words.draft.found} <Time at={each.saved_at} relative />
            {each.stale && `, ${words.draft.changedSince}`}
          </span>
          <Button small onClick={() => go({ draft: each.id })}>
            {words.draft.proceed}
          </Button>
          <Button small look="quiet" onClick={() => setLeaving(each)}>
            {words.draft.discard}
          </Button>
        </li>
      ))}
      {leaving && (
        <Confirm
          title={words.draft.discardTitle}
          about={words.draft.discardAbout}
          confirm={words.draft.discard}
          danger
          busy={remove.isPending}
          onClose={() => setLeaving(undefined)}
          onConfirm={() => remove.mutate({ path: { draft: leaving.id } })}
        />
      )}
    </ul>
  );
}

function NotYaml({ config }: { config: Config }) {
  return (
    <ul className="px-6 pb-3 text-bad phone:px-4">
      {config.problems.map((each) => (
        <li key={`${each.line} ${each.message}`}>
          {words.line(each.line ?? 1)}: {each.message}
        </li>
      ))}
    </ul>
  );
}

const wide = () => window.matchMedia("(width >= 56.25rem)");

/** True if there is room to edit. */
function useWide(): boolean {
  return useSyncExternalStore(
    (looker) => {
      const query = wide();
      query.addEventListener("change", looker);
      return () => query.removeEventListener("change", looker);
    },
    () => wide().matches,
  );
}

/** The address of the page, and ways to change it. */
function useAddress() {
  const { context } = useParams({ strict: false });
  const raw = useSearch({ strict: false });
  const navigate = useNavigate();
  return useMemo(() => {
    const now = search({ ...raw });
    const go = (more: Search, replace = false) =>
      void navigate({ to: ".", search: { ...now, ...more } as never, replace });
    const open = (part: Part, replace: boolean) => {
      const [top, name] = part.path;
      const inPath = top === "contexts" && part.path.length === 2;
      if (inPath) {
        void navigate({
          to: "/contexts/$context",
          params: { context: String(name) },
          search: { ...now, at: undefined },
          replace,
        });
      } else {
        void navigate({ to: "/contexts", search: { ...now, at: part.key || GENERAL }, replace });
      }
    };
    return { context, search: now, go, open };
  }, [context, raw, navigate]);
}
