// Form and YAML side by side: one draft, one history, each lighting the other.
import { type KeyboardEvent, useEffect, useMemo, useRef, useState } from "react";

import { useGet } from "../../app/api.ts";
import { useMay } from "../../app/session.ts";
import { Button } from "../../parts/button.tsx";
import { Prose } from "../../parts/code.tsx";
import { cx } from "../../parts/cx.ts";
import { words } from "../../words/contexts.ts";
import { EntryActions } from "./collections.tsx";
import type { Draft, State } from "./draft.ts";
import type { YamlEditor } from "./editor.ts";
import { Fields, Nested, Row } from "./fields.tsx";
import { type Effect, type Form, FormProvider, setAt, useForm } from "./form.ts";
import { PartsSelect, PartsTree } from "./navigation.tsx";
import { at, type Block, blockAt, blockOf, dotted, isMapping, type Path } from "./outline.ts";
import { PromptDialog } from "./prompt.tsx";
import { kindOf, type Root, schemaAt, unwrapped } from "./schema.ts";
import { type Group, groupsOf, type Part, partOf, singleValues } from "./sections.ts";
import { UsedBy } from "./used-by.tsx";
import { YamlPane } from "./yaml-pane.tsx";

export interface WorkbenchProps {
  draft: Draft;
  state: State;
  root: Root;
  readOnly: boolean;
  /** False for a scope of some contexts: there is no text for them. */
  hasText: boolean;
  /** Key of the part that is shown; empty for the first one. */
  part: string | undefined;
  onPart: (part: Part, replace: boolean) => void;
  editor: React.RefObject<YamlEditor | null>;
}

interface Active {
  readonly path: Path;
  /** Where the person is: the other side follows. */
  readonly from: "form" | "text";
}

export function Workbench(props: WorkbenchProps) {
  const { draft, state, root, readOnly, hasText, part: wanted, onPart, editor } = props;
  const { tree } = state.verdict;
  const groups = useMemo(() => groupsOf(root, tree), [root, tree]);
  const parts = groups.flatMap((each) => each.parts);
  const part =
    parts.find((each) => each.key === wanted) ?? (wanted === undefined ? parts[0] : undefined);
  const [active, setActive] = useState<Active>();
  const [side, setSide] = useState<Side>("values");
  const [prompt, setPrompt] = useState<Prompt>();
  const form = useFormOf(props, active, setPrompt);
  const onCursor = (line: number, column: number) => {
    const block = blockAt(draft.state().blocks, line, column);
    if (!block || dotted(block.path) === form.active) return;
    setActive({ path: block.path, from: "text" });
    const holder = partOf(groups, block.path);
    if (holder && holder.key !== part?.key) onPart(holder, true);
  };
  const openPart = (next: Part, replace: boolean) => {
    setActive(undefined); // its key is of another part, or has another name now
    onPart(next, replace);
  };
  useLight(active, state, editor);
  return (
    <FormProvider value={form}>
      {hasText && <Sides side={side} onSide={setSide} />}
      <div
        className={cx(
          "grid min-h-0 flex-1 grid-cols-[12rem_minmax(0,9fr)_minmax(0,11fr)] border-t border-line",
          "max-[75rem]:grid-cols-2 max-[56.25rem]:grid-cols-1",
          !hasText && "grid-cols-[12rem_minmax(0,1fr)] max-[75rem]:grid-cols-1",
        )}
      >
        <PartsTree groups={groups} current={part} onOpen={(each) => openPart(each, false)} />
        <FormPane
          hidden={hasText && side === "text"}
          groups={groups}
          part={part}
          wanted={wanted}
          editor={editor}
          onPart={openPart}
          onFocus={(path) => setActive({ path, from: "form" })}
        />
        {hasText && (
          <YamlPane
            key={state.base} // after a merge, undo must not take the others' change back
            draft={draft}
            state={state}
            readOnly={readOnly}
            editor={editor}
            onCursor={onCursor}
            className={side === "values" ? NARROW_HIDDEN : ""}
          />
        )}
      </div>
      {prompt && <PromptOf prompt={prompt} onClose={() => setPrompt(undefined)} />}
    </FormProvider>
  );
}

interface Prompt {
  readonly path: Path;
  readonly placeholders: ReadonlyMap<string, string>;
}

function PromptOf({ prompt, onClose }: { prompt: Prompt; onClose: () => void }) {
  const { tree, readOnly, edit } = useForm();
  const { path, placeholders } = prompt;
  return (
    <PromptDialog
      name={dotted(path)}
      text={String(at(tree, path) ?? "")}
      placeholders={placeholders}
      readOnly={readOnly}
      onText={(text) => edit(setAt(path, text))}
      onClose={onClose}
    />
  );
}

/** What the fields of the form share. */
function useFormOf(
  { draft, state, root, readOnly, editor }: WorkbenchProps,
  active: Active | undefined,
  onPrompt: (prompt: Prompt) => void,
): Form {
  const { tree } = state.verdict;
  const names = useNames(tree);
  return {
    root,
    tree,
    readOnly,
    pending: state.pending,
    refusals: state.refusals,
    active: active ? dotted(active.path) : "",
    follows: active?.from === "text",
    problems: useByKey(state),
    changes: useChanges(state),
    edit: (...edits) => draft.edit(...edits),
    names,
    showInText: (path) => {
      const block = blockOf(state.blocks, path);
      if (block) editor.current?.jump(block.from, block.column);
    },
    openPrompt: (path, placeholders) => onPrompt({ path, placeholders }),
  };
}

const NARROW_HIDDEN = "max-[56.25rem]:hidden";
const SIDES = ["values", "text"] as const;
type Side = (typeof SIDES)[number];

/** Where there is room for one side only: which one. */
function Sides({ side, onSide }: { side: Side; onSide: (side: Side) => void }) {
  return (
    <div className="hidden gap-1 px-4 pb-2 max-[56.25rem]:flex">
      {SIDES.map((each) => (
        <Button
          key={each}
          small
          look={each === side ? "plain" : "quiet"}
          aria-pressed={each === side}
          onClick={() => onSide(each)}
        >
          {words[each]}
        </Button>
      ))}
    </div>
  );
}

interface FormPaneProps {
  /** Behind the text, on a narrow screen. */
  hidden: boolean;
  groups: readonly Group[];
  part: Part | undefined;
  wanted: string | undefined;
  editor: React.RefObject<YamlEditor | null>;
  onPart: (part: Part, replace: boolean) => void;
  onFocus: (path: Path) => void;
}

function FormPane({ hidden, groups, part, wanted, editor, onPart, onFocus }: FormPaneProps) {
  const pane = useRef<HTMLDivElement>(null);
  // biome-ignore lint/correctness/useExhaustiveDependencies: another part begins at its top
  useEffect(() => {
    pane.current?.scrollTo(0, 0);
  }, [part?.key]);
  const onKeyDown = (event: KeyboardEvent) => {
    if (!(event.ctrlKey || event.metaKey) || event.key.toLowerCase() !== "z") return;
    // React brings the keys of a dialog here, too; its fields have the browser's undo.
    if (!(event.target instanceof Node && event.currentTarget.contains(event.target))) return;
    event.preventDefault(); // the browser's own undo knows one field only
    if (event.shiftKey) editor.current?.redo();
    else editor.current?.undo();
  };
  return (
    <section
      ref={pane}
      aria-label={words.form}
      onKeyDown={onKeyDown}
      onFocus={(event) => {
        const path = event.target.closest<HTMLElement>("[data-path]")?.dataset.path;
        if (path) onFocus(JSON.parse(path));
      }}
      className={cx(
        "min-h-0 min-w-0 overflow-y-auto px-6 pt-4 pb-16 phone:px-4",
        hidden && NARROW_HIDDEN,
      )}
    >
      <div className="mx-auto max-w-2xl">
        <PartsSelect groups={groups} current={part} onOpen={(each) => onPart(each, false)} />
        {part ? (
          <PartForm key={part.key} part={part} groups={groups} onPart={onPart} />
        ) : (
          <p className="py-8 text-center text-muted">{words.noPart(wanted ?? "")}</p>
        )}
      </div>
    </section>
  );
}

function PartForm({
  part,
  groups,
  onPart,
}: Pick<FormPaneProps, "groups" | "onPart"> & { part: Part }) {
  const { root, tree } = useForm();
  const { path } = part;
  if (path.length === 0) {
    return (
      <>
        <Head title={words.general} />
        <div className="grid gap-4">
          {singleValues(root).map((each) => (
            <Row key={each.name} path={[each.name]} field={each} />
          ))}
        </div>
      </>
    );
  }
  const schema = schemaAt(root, tree, path) ?? {};
  const kind = kindOf(root, schema);
  const group = groups.find((each) => each.name === path[0] && path.length === 2);
  const about = unwrapped(root, schema).schema.description;
  return (
    <>
      <Head title={part.label} {...(about ? { about } : {})}>
        {group && <GroupActions part={part} group={group} onPart={onPart} />}
      </Head>
      {path[0] === "contexts" && <UsedBy context={part.label} />}
      {kind.is === "section" ? (
        <Fields path={path} section={kind.schema} />
      ) : (
        <div className="grid gap-4">
          <Nested path={path} kind={kind} schema={schema} label={part.label} />
        </div>
      )}
    </>
  );
}

function GroupActions({
  part,
  group,
  onPart,
}: {
  part: Part;
  group: Group;
  onPart: FormPaneProps["onPart"];
}) {
  const { root, readOnly } = useForm();
  const kind = group.field && kindOf(root, group.field.schema);
  if (readOnly || kind?.is !== "map") return null;
  const open = (name: string | undefined) => {
    if (name === undefined) return;
    const path = [group.name, name];
    onPart({ key: dotted(path), path, label: name }, true);
  };
  return (
    <EntryActions
      path={part.path}
      names={group.parts.map((each) => each.label)}
      rule={kind.names}
      onRenamed={open}
      onRemoved={() => open(group.parts.find((each) => each.key !== part.key)?.label)}
    />
  );
}

function Head({
  title,
  about,
  children,
}: {
  title: string;
  about?: string;
  children?: React.ReactNode;
}) {
  return (
    <div className="mb-4">
      <div className="flex items-center justify-between gap-3">
        <h2 className="truncate text-lg">{title}</h2>
        {children}
      </div>
      {about && (
        <p className="text-xs text-muted">
          <Prose text={about} />
        </p>
      )}
    </div>
  );
}

/** Lights the lines of the active key; scrolls to them only if the person is in the form. */
function useLight(
  active: Active | undefined,
  state: State,
  editor: React.RefObject<YamlEditor | null>,
) {
  const { blocks, checked } = state;
  const shown = useRef<readonly [Active | undefined, Block | undefined]>([undefined, undefined]);
  useEffect(() => {
    if (!checked) return; // the lines of an older text
    const block = active && blockOf(blocks, active.path);
    // Once: whoever has scrolled on since is not pulled back by the next verdict.
    const [before, written] = shown.current;
    const isNews = active !== before || block?.key !== written?.key;
    editor.current?.light(block ? [block.from, block.to] : null, isNews && active?.from === "form");
    shown.current = [active, block];
  }, [active, blocks, checked, editor]);
}

function useByKey({ verdict }: State): Form["problems"] {
  return useMemo(() => {
    const found = new Map<string, (typeof verdict.problems)[number][]>();
    for (const each of verdict.problems)
      found.set(each.key, [...(found.get(each.key) ?? []), each]);
    return found;
  }, [verdict]);
}

function useChanges({ verdict }: State): ReadonlyMap<string, Effect> {
  return useMemo(
    () => new Map(verdict.changes.map((each) => [each.key, each.takes_effect])),
    [verdict],
  );
}

const PLACES: Readonly<Record<string, Path>> = {
  destinations: ["tools", "transfer", "destinations"],
};

/** The names that references may take: those of the draft, and tools that need no entry. */
function useNames(tree: unknown): Form["names"] {
  const enabled = useMay("tools.read");
  const tools = useGet("/api/v1/tools", {}, { enabled, staleTime: 60_000 });
  return (reference) => {
    const entries = at(tree, PLACES[reference] ?? [reference]);
    const own = isMapping(entries) ? Object.keys(entries) : [];
    if (reference !== "tools") return own;
    const known = (tools.data?.tools ?? []).map((each) => String(Object(each).name ?? ""));
    return [...new Set([...own, ...known])].filter(Boolean).sort();
  };
}
