// The form of what is tried: configuration, context, provider, tools and the made-up caller. Its
// state is the address, but for the answers of tools that do not run.
import { useQuery } from "@tanstack/react-query";

import { api, type Schema, useGet } from "../../app/api.ts";
import { useMay } from "../../app/session.ts";
import { Checkbox, Field, LateInput, Select, TextInput } from "../../parts/field.tsx";
import { Fold } from "../../parts/fold.tsx";
import { momentText } from "../../parts/time.tsx";
import { words } from "../../words/try.ts";
import type { Search } from "./search.ts";
import { type Subject, subjectOf, type Tree, toolsIn, variablesIn } from "./subject.ts";

const text = words.options;
const VERSIONS = 20;

/** The answer of a tool that does not run. */
export interface Canned {
  message: string;
  failed: boolean;
}

export interface Chosen {
  readonly subject: Subject;
  readonly context: string;
  readonly variables: readonly string[];
  readonly tools: readonly string[];
  /** The order of its trial; null for the configuration in force. */
  readonly trial: Schema<"TrialOf"> | null;
  /** Changes whenever another trial is needed. */
  readonly key: string;
  readonly problems: number;
  readonly stale: boolean;
}

/** What the address names: a draft, a version, or the configuration in force. */
export function useChosen(search: Search) {
  const { draft, version } = search;
  const inForce = useGet("/api/v1/config", {}, { enabled: !draft && !version });
  const other = useQuery({
    queryKey: ["try", draft ?? "", version ?? ""],
    queryFn: () => (draft ? ofDraft(draft) : ofVersion(version ?? "")),
    enabled: Boolean(draft ?? version),
    staleTime: 0,
  });
  const query = draft || version ? other : inForce;
  const { data } = query;
  return { ...query, chosen: data && chosenOf(search, data) };
}

interface Read {
  tree?: Tree | undefined;
  problems?: readonly { fatal: boolean }[] | undefined;
  text?: string;
  base?: string;
  stale?: boolean;
  saved?: string;
}

function chosenOf(search: Search, read: Read): Chosen {
  const tree = read.tree ?? {};
  const subject = subjectOf(tree);
  const wanted = search.context ?? subject.usual;
  const context = subject.contexts.includes(wanted) ? wanted : subject.usual;
  const { draft, version } = search;
  let trial: Schema<"TrialOf"> | null = null;
  if (draft) trial = { text: read.text ?? "", base: read.base ?? "", version: null, context };
  else if (version) trial = { text: null, base: "", version, context };
  return {
    subject,
    context,
    variables: variablesIn(tree, context),
    tools: toolsIn(tree, context),
    trial,
    key: trial ? JSON.stringify([draft, read.saved, version, context]) : "",
    problems: (read.problems ?? []).filter(({ fatal }) => fatal).length,
    stale: read.stale ?? false,
  };
}

async function ofDraft(draft: string): Promise<Read> {
  const saved = await api.GET("/api/v1/drafts/{draft}", { params: { path: { draft } } });
  const { text = "", base = "", stale = false, saved_at = "" } = saved.data ?? {};
  const { data } = await api.POST("/api/v1/config/check", { body: { text, base } });
  return { ...data, text, base, stale, saved: saved_at };
}

async function ofVersion(version: string): Promise<Read> {
  const kept = await api.GET("/api/v1/config/versions/{version}", {
    params: { path: { version } },
  });
  const { text = "", digest: base = "" } = kept.data ?? {};
  return { ...(await api.POST("/api/v1/config/check", { body: { text, base } })).data };
}

export interface OptionsProps {
  search: Search;
  chosen: Chosen | undefined;
  onSearch: (change: Partial<Search>) => void;
  canned: Readonly<Record<string, Canned>>;
  onCanned: (tool: string, answer: Canned) => void;
}

export function Options(props: OptionsProps) {
  const { search, chosen, onSearch } = props;
  const contexts = chosen?.subject.contexts ?? [];
  const providers = chosen?.subject.providers ?? [];
  const modes = ["read_only", "canned", "real"] as const;
  const mode = search.tools ?? "read_only";
  return (
    <div className="grid content-start gap-3">
      <Configuration search={search} chosen={chosen} onSearch={onSearch} />
      <Field label={text.context}>
        <Select
          value={chosen?.context ?? ""}
          onValue={(context) => onSearch({ context })}
          options={contexts.map((each) => ({ value: each, label: each }))}
        />
      </Field>
      <Field label={text.provider}>
        <Select
          value={search.provider ?? ""}
          onValue={(provider) => onSearch({ provider: provider || undefined })}
          options={[
            { value: "", label: text.ofContext },
            ...withUnknown(providers, search.provider).map((each) => ({
              value: each,
              label: each,
            })),
          ]}
        />
      </Field>
      <Field label={text.tools} hint={text.toolHints[mode]}>
        <Select
          value={mode}
          onValue={(tools) => onSearch({ tools: tools === "read_only" ? undefined : tools })}
          options={modes.map((value) => ({ value, label: text.toolModes[value] }))}
        />
      </Field>
      {mode === "canned" && <Answers {...props} />}
      <Caller search={search} chosen={chosen} onSearch={onSearch} />
    </div>
  );
}

/** A name in the address that the list lacks is shown, so that it can be seen and changed. */
function withUnknown(known: readonly string[], chosen: string | undefined): readonly string[] {
  return chosen && !known.includes(chosen) ? [...known, chosen] : known;
}

type PartProps = Pick<OptionsProps, "search" | "chosen" | "onSearch">;

function Configuration({ search, chosen, onSearch }: PartProps) {
  const mayDraft = useMay("config.draft");
  const drafts = useGet("/api/v1/drafts", {}, { enabled: mayDraft }).data?.drafts ?? [];
  const listed = useGet(
    "/api/v1/config/versions",
    { query: { limit: VERSIONS } },
    { enabled: mayDraft },
  );
  const versions = (listed.data?.versions ?? []).filter((each) => !each.in_force);
  const options = [
    { value: "", label: text.inForce },
    ...drafts.map(({ id }) => ({ value: `draft:${id}`, label: text.draft(id) })),
    ...versions.map(({ digest, who, at }) => ({
      value: `version:${digest}`,
      label: `${text.version(digest, who)}, ${momentText(new Date(at), new Date())}`,
    })),
  ];
  const { draft, version } = search;
  const value = draft ? `draft:${draft}` : version ? `version:${version}` : "";
  if (!options.some((each) => each.value === value)) {
    options.push({ value, label: draft ? text.draft(draft) : text.version(version ?? "", "") });
  }
  return (
    <Field
      label={text.config}
      hint={chosen?.stale ? text.staleDraft : undefined}
      error={chosen?.trial && chosen.problems > 0 ? text.notInOrder(chosen.problems) : undefined}
    >
      <Select
        value={value}
        options={options}
        onValue={(next) => {
          const [kind, name] = next.split(":");
          onSearch({
            draft: kind === "draft" ? name : undefined,
            version: kind === "version" ? name : undefined,
          });
        }}
      />
    </Field>
  );
}

function Answers({ chosen, canned, onCanned }: OptionsProps) {
  const tools = useToolsToAnswer(chosen);
  if (tools.length === 0) return <p className="text-muted">{text.noTools}</p>;
  return (
    <div className="grid gap-2 border-l-2 border-line pl-3">
      {tools.map((tool) => {
        const answer = canned[tool] ?? { message: "", failed: false };
        return (
          <div key={tool} className="grid gap-1">
            <Field label={<span className="font-mono text-xs break-all">{tool}</span>}>
              <TextInput
                aria-label={text.answerOf(tool)}
                placeholder={text.answerPlaceholder}
                value={answer.message}
                maxLength={4_000}
                onChange={(event) => onCanned(tool, { ...answer, message: event.target.value })}
              />
            </Field>
            <Checkbox
              label={text.fails}
              aria-label={text.failsLabel(tool)}
              checked={answer.failed}
              onChecked={(failed) => onCanned(tool, { ...answer, failed })}
            />
          </div>
        );
      })}
    </div>
  );
}

/** The tools of the context, without those of the engine itself: they always run. */
function useToolsToAnswer(chosen: Chosen | undefined): readonly string[] {
  const context = chosen?.context ?? "";
  const listed = useGet("/api/v1/tools", { query: { context } }, { enabled: context !== "" });
  const inForce = (listed.data?.tools ?? []).map(({ name, kind }) => ({
    name: String(name),
    kind,
  }));
  const builtin = inForce.filter(({ kind }) => kind === "builtin").map(({ name }) => name);
  // A draft may have others; the one in force has also those that a pattern names.
  const names = chosen?.trial ? chosen.tools : inForce.map(({ name }) => name);
  return names.filter((name) => !builtin.includes(name));
}

function Caller({ search, chosen, onSearch }: PartProps) {
  const declared = chosen?.variables ?? [];
  const set = search.set ?? [];
  const given = (name: string) =>
    set.find((each) => each.startsWith(`${name}=`))?.slice(name.length + 1) ?? "";
  const change = (name: string, value: string) => {
    const others = set.filter((each) => !each.startsWith(`${name}=`));
    const next = value ? [...others, `${name}=${value}`] : others;
    onSearch({ set: next.length > 0 ? next : undefined });
  };
  return (
    <Fold title={text.caller} open={Boolean(search.number || search.name || set.length > 0)}>
      <div className="grid grid-cols-2 gap-2">
        <Field label={text.number}>
          <LateInput
            value={search.number ?? ""}
            maxLength={40}
            placeholder="+49 30 1234"
            onValue={(number) => onSearch({ number: numberOf(number) })}
          />
        </Field>
        <Field label={text.name}>
          <LateInput
            value={search.name ?? ""}
            maxLength={80}
            onValue={(name) => onSearch({ name: name || undefined })}
          />
        </Field>
      </div>
      {declared.map((name, index) => (
        <Field
          key={name}
          label={<span className="font-mono text-xs">{name}</span>}
          hint={index === declared.length - 1 ? text.variablesHint : undefined}
        >
          <LateInput
            value={given(name)}
            maxLength={1_000}
            onValue={(value) => change(name, value)}
          />
        </Field>
      ))}
    </Fold>
  );
}

/** Drop what no telephone number has; the engine takes the same characters. */
function numberOf(typed: string): string | undefined {
  return typed.replace(/[^0-9A-Za-z+*#_.-]/g, "") || undefined;
}
