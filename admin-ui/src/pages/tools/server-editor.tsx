// Adds or changes an MCP server: a form over the engine's schema, whose edits go into a draft. The
// draft is published on the page of the configuration, as every other one.
import { useQuery } from "@tanstack/react-query";
import { useBlocker, useNavigate } from "@tanstack/react-router";
import { useDeferredValue, useEffect, useState } from "react";

import { api, get, type Schema, sentence, useGet, useSend } from "../../app/api.ts";
import { useMay } from "../../app/session.ts";
import { Answer, Empty } from "../../parts/answer.tsx";
import { Badge, StatusDot } from "../../parts/badge.tsx";
import { Button, LinkButton } from "../../parts/button.tsx";
import { CodeBlock } from "../../parts/code.tsx";
import { Confirm } from "../../parts/dialog.tsx";
import { Field, Select, TextInput } from "../../parts/field.tsx";
import { Page, Section } from "../../parts/page.tsx";
import { words } from "../../words/tools.ts";
import { useChoices } from "./choices.ts";
import { InvalidJson } from "./json-input.tsx";
import { isObject, type JsonObject, own, type Part, put, resolved, shapeOf } from "./schema.ts";
import { SchemaForm } from "./schema-form.tsx";
import {
  draftId,
  type Edit,
  ESSENTIAL,
  editsOf,
  fitsTransport,
  linesOf,
  problemsOf,
  SERVER_NAME,
  serversOf,
} from "./server-form.ts";
import { ServerTrial } from "./server-trial.tsx";

const say = words.editor;

export function ServerEditor({ name }: { name: string }) {
  const [{ draft = "" }] = useChoices();
  const schema = useGet("/api/v1/config/schema", undefined, {
    staleTime: Number.POSITIVE_INFINITY,
  });
  const mayDraft = useMay("config.draft");
  const drafts = useGet("/api/v1/drafts", undefined, { enabled: mayDraft });
  const base = useBase(draft, mayDraft);
  return (
    <Page
      title={name ? say.editTitle(name) : say.addTitle}
      actions={
        <LinkButton to="/mcp" search={{ server: name || undefined }} icon="left" look="quiet">
          {words.servers.label}
        </LinkButton>
      }
    >
      <p className="mb-4 text-muted">{say.about}</p>
      {mayDraft ? (
        <Answer query={schema}>
          {(root) => (
            <Answer query={base}>
              {(found) => (
                <Editor
                  key={`${draft} ${found.digest}`}
                  name={name}
                  root={asObject(root)}
                  base={found}
                  drafts={drafts.data?.drafts ?? []}
                />
              )}
            </Answer>
          )}
        </Answer>
      ) : (
        <Empty icon="lock" title={say.readOnly} />
      )}
    </Page>
  );
}

interface Base {
  text: string;
  /** Of the version that the text was made from. */
  digest: string;
  tree: unknown;
}

/** The text that the edits are made in: the file's, or a saved draft's. */
function useBase(draft: string, enabled: boolean) {
  return useQuery<Base>({
    queryKey: ["server-base", draft],
    enabled,
    refetchOnWindowFocus: false, // what is being typed stands on it
    refetchOnReconnect: false,
    // The form keeps its first values: an old text from the cache would stay in it.
    staleTime: 0,
    gcTime: 0,
    queryFn: async ({ signal }) => {
      if (draft === "") return get("/api/v1/config", undefined, signal);
      const saved = await get("/api/v1/drafts/{draft}", { path: { draft } }, signal);
      const body = { text: saved.text, base: saved.base };
      const { data } = await api.POST("/api/v1/config/check", { body, signal });
      return { text: saved.text, digest: saved.base, tree: data?.tree };
    },
  });
}

interface EditorProps {
  /** Empty for a new server. */
  name: string;
  root: JsonObject;
  base: Base;
  drafts: readonly Schema<"SavedDraft">[];
}

function Editor({ name: before, root, base, drafts }: EditorProps) {
  const servers = serversOf(base.tree);
  const written = servers[before] ?? {};
  const [name, setName] = useState(before);
  const [section, setSection] = useState<JsonObject>(written);
  const [invalid, setInvalid] = useState(0);
  const nameProblem = problemOfName(name, before, servers);
  const changed = name !== before || JSON.stringify(section) !== JSON.stringify(written);
  const check = useCheck(base, changed && !nameProblem ? editsOf(before, name, section) : []);
  const problems = problemsOf(name, check.data?.problems ?? []);
  const onChange: FieldsProps["onChange"] = (path, value) =>
    setSection((now) => asObject(put(now, path, value)));
  return (
    <div className="grid items-start gap-x-4 xl:grid-cols-[minmax(0,3fr)_minmax(0,2fr)]">
      <Section>
        <div className="grid gap-3">
          <DraftChoice drafts={drafts} />
          <Field label={say.name} hint={say.nameHint} error={name ? nameProblem : undefined}>
            <TextInput
              value={name}
              spellCheck={false}
              autoComplete="off"
              className="font-mono"
              onChange={(event) => setName(event.target.value)}
            />
          </Field>
          <InvalidJson value={setInvalid}>
            <ServerFields root={root} section={section} problems={problems} onChange={onChange} />
          </InvalidJson>
        </div>
      </Section>
      <div className="xl:sticky xl:top-0">
        <Verdict name={name} check={check} changed={changed} others={problems.get("")} />
        <Publish
          before={before}
          name={name}
          base={base}
          changed={changed || invalid > 0}
          edited={changed && !nameProblem && !invalid && check.current ? check.data : undefined}
          drafts={drafts}
        />
      </div>
    </div>
  );
}

function DraftChoice({ drafts }: { drafts: EditorProps["drafts"] }) {
  const [{ draft = "" }, change] = useChoices();
  if (drafts.length === 0) return null;
  return (
    <Field label={say.draft}>
      <Select
        value={draft}
        onValue={(id) => change({ draft: id || undefined })}
        options={[
          { value: "", label: say.newDraft },
          ...drafts.map(({ id }) => ({ value: id, label: id })),
        ]}
      />
    </Field>
  );
}

function problemOfName(name: string, before: string, servers: object): string | undefined {
  if (!SERVER_NAME.test(name)) return say.nameBad;
  return name !== before && Object.hasOwn(servers, name) ? say.nameTaken : undefined;
}

interface FieldsProps {
  root: JsonObject;
  section: JsonObject;
  problems: ReadonlyMap<string, string>;
  onChange: Parameters<typeof SchemaForm>[0]["onChange"];
}

/** The engine's own fields of a server; rarely needed ones are folded. */
function ServerFields({ root, section, problems, onChange }: FieldsProps) {
  const shape = shapeOf(resolved(own(asObject(root.$defs), "McpServer"), root), root);
  const fields = (shape.kind === "object" ? shape.fields : []).filter((each) =>
    fitsTransport(each.name, section),
  );
  const essential = ESSENTIAL.flatMap((key) => fields.filter((each) => each.name === key));
  const others = fields.filter((each) => !ESSENTIAL.includes(each.name));
  const common = { root, value: section, problems, onChange, showsSecrets: true };
  return (
    <>
      <SchemaForm {...common} fields={essential.map(opened)} />
      <p className="text-xs text-muted">{say.secrets}</p>
      <details>
        <summary className="min-h-6 cursor-pointer font-medium">{words.form.more}</summary>
        <div className="pt-3">
          <SchemaForm {...common} fields={others} />
        </div>
      </details>
    </>
  );
}

const asObject = (value: unknown): JsonObject => (isObject(value) ? value : {});

/** The keys that a server cannot do without are shown without a click. */
function opened(field: Part): Part {
  return field.name === "command" || field.name === "url" ? { ...field, required: true } : field;
}

const PAUSE_MS = 300;

/** The text with the edits, and the engine's verdict on it; the last edits win. */
function useCheck(base: Base, edits: Edit[]) {
  const wanted = JSON.stringify(edits);
  const key = useDeferredValue(wanted);
  const [asked, setAsked] = useState(key);
  useEffect(() => {
    const timer = setTimeout(() => setAsked(key), PAUSE_MS);
    return () => clearTimeout(timer);
  }, [key]);
  const check = useQuery({
    queryKey: ["server-edit", base.digest, base.text, asked],
    enabled: asked !== "[]",
    queryFn: async ({ signal }) => {
      const body = { text: base.text, base: base.digest, edits: JSON.parse(asked) as Edit[] };
      const { data } = await api.POST("/api/v1/config/edit", { body, signal });
      return data as Schema<"Edited">; // a refusal is thrown
    },
    placeholderData: (before) => before,
    retry: false,
  });
  // Otherwise the answer belongs to the edits before the last ones, which must not be saved.
  return { ...check, current: asked === wanted && !check.isPlaceholderData };
}

type Check = ReturnType<typeof useCheck>;

interface VerdictProps {
  name: string;
  check: Check;
  changed: boolean;
  /** Problems outside of the form's fields. */
  others: string | undefined;
}

function Verdict({ name, check, changed, others }: VerdictProps) {
  const found = changed ? check.data : undefined;
  const fatal = found?.problems.filter((each) => each.fatal) ?? [];
  const changes = found?.changes.filter((each) => each.key.startsWith("mcp")) ?? [];
  return (
    <Section title={say.verdict}>
      <div className="grid gap-3" role="status">
        {!changed && <p className="text-muted">{say.noChange}</p>}
        {check.error && <p className="break-words text-bad">{sentence(check.error)}</p>}
        {changed && !found && check.isFetching && <p className="text-muted">{say.checking}</p>}
        {found && (
          <p className="flex items-center gap-2">
            <StatusDot tone={fatal.length ? "bad" : "good"} />
            {fatal.length ? say.problems(fatal.length) : say.good}
          </p>
        )}
        {others && <p className="break-words text-bad">{others}</p>}
        {changes.map((each) => (
          <p key={each.key} className="flex flex-wrap items-center gap-2">
            <code className="font-mono text-xs break-all">{each.key}</code>
            <Badge tone={each.takes_effect === "now" ? "good" : "warn"}>
              {say.effects[each.takes_effect]}
            </Badge>
          </p>
        ))}
        {found && <CodeBlock label={say.yaml} text={linesOf(found.text, found.places, name)} />}
      </div>
    </Section>
  );
}

interface PublishProps {
  before: string;
  name: string;
  base: Base;
  changed: boolean;
  /** Undefined until the engine has answered to the last edits. */
  edited: Schema<"Edited"> | undefined;
  drafts: readonly Schema<"SavedDraft">[];
}

function Publish({ before, name, base, changed, edited, drafts }: PublishProps) {
  const [removing, setRemoving] = useState(false);
  const saved = useSaved(before, name, base, drafts);
  return (
    <Section>
      <div className="grid gap-3">
        {edited?.in_order && (
          // What another text did says nothing about this one.
          <ServerTrial key={edited.text} server={name} text={edited.text} base={base.digest} />
        )}
        <div className="flex flex-wrap gap-2">
          <Button
            look="primary"
            disabled={edited === undefined}
            busy={saved.busy}
            onClick={() => edited && saved.save(edited.text)}
          >
            {edited && !edited.in_order ? say.anyway : say.toPublish}
          </Button>
          {before && (
            <Button icon="trash" onClick={() => setRemoving(true)}>
              {say.remove}
            </Button>
          )}
        </div>
        {removing && (
          <Confirm
            title={say.removeTitle(before)}
            about={say.removeAbout}
            confirm={say.remove}
            danger
            busy={saved.busy}
            onConfirm={saved.remove}
            onClose={() => setRemoving(false)}
          />
        )}
        <AskBeforeLeaving active={changed && !saved.busy && !saved.done} />
      </div>
    </Section>
  );
}

/** Keeps a text as a draft, and goes on to where drafts are published. */
function useSaved(before: string, name: string, base: Base, drafts: PublishProps["drafts"]) {
  const [{ draft }] = useChoices();
  const navigate = useNavigate();
  const taken = drafts.map((each) => each.id);
  const id = draft ?? draftId(before || name, taken);
  const saving = useSend("put", "/api/v1/drafts/{draft}", {
    stale: ["/api/v1/drafts", "/api/v1/drafts/{draft}"],
  });
  const editing = useSend("post", "/api/v1/config/edit");
  const save = (text: string, at = "mcp") =>
    saving.mutate(
      { path: { draft: id }, body: { text, base: base.digest } },
      { onSuccess: () => void navigate({ to: "/contexts", search: { draft: id, at } }) },
    );
  const remove = () => {
    const edits: Edit[] = [{ op: "remove", path: ["mcp", "servers", before] }];
    const body = { text: base.text, base: base.digest, edits };
    editing.mutate({ body }, { onSuccess: ({ text }) => save(text) });
  };
  return {
    save: (text: string) => save(text, `mcp.servers.${name}`),
    remove,
    busy: saving.isPending || editing.isPending,
    done: saving.isSuccess,
  };
}

/** What was typed here is kept nowhere until it is a draft. */
function AskBeforeLeaving({ active }: { active: boolean }) {
  const blocker = useBlocker({
    // A change of the address alone, such as another draft, is a loss as well.
    shouldBlockFn: () => active,
    enableBeforeUnload: active,
    withResolver: true,
  });
  if (blocker.status !== "blocked") return null;
  return (
    <Confirm
      title={say.leaveTitle}
      about={say.leaveAbout}
      confirm={say.leave}
      onConfirm={blocker.proceed}
      onClose={blocker.reset}
    />
  );
}
