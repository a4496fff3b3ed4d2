// The form: one control for each kind of value, whatever section it stands in.
import { type ReactNode, useEffect, useRef, useState } from "react";

import { Badge } from "../../parts/badge.tsx";
import { Button, IconButton } from "../../parts/button.tsx";
import { Prose } from "../../parts/code.tsx";
import { cx } from "../../parts/cx.ts";
import { Field as Labelled, NumberInput, Select, TextArea, TextInput } from "../../parts/field.tsx";
import { Icon } from "../../parts/icons.tsx";
import { words } from "../../words/contexts.ts";
import { Entries, Items, SimpleItems } from "./collections.tsx";
import type { Problem } from "./draft.ts";
import { removeAt, setAt, useForm } from "./form.ts";
import { at, dotted, isMapping, type Path } from "./outline.ts";
import {
  chosen,
  type Field,
  fieldsOf,
  type Kind,
  kindOf,
  labelOf,
  newValue,
  type Schema,
  unwrapped,
} from "./schema.ts";

const COMMIT_AFTER_MS = 300;
const LONG_TEXT = 48;

/** All keys of a section, below each other. */
export function Fields({
  path,
  section,
  without,
}: {
  path: Path;
  section: Schema;
  without?: string;
}) {
  const { root } = useForm();
  return (
    <div className="grid gap-4">
      {fieldsOf(root, section)
        .filter((each) => each.name !== without)
        .map((each) => (
          <Row key={each.name} path={[...path, each.name]} field={each} />
        ))}
    </div>
  );
}

/** A key with its label, its value and what the engine says about it. */
export function Row({ path, field }: { path: Path; field: Field }) {
  const { root, tree } = useForm();
  const kind = kindOf(root, field.schema);
  const value = at(tree, path);
  const label = labelOf(field.name, field.schema);
  const problem = useProblem(path);
  const about = unwrapped(root, field.schema).schema;
  if (isNested(kind) && fits(kind, value)) {
    return (
      <Fold path={path} label={label} schema={field.schema} summary={summaryOf(kind, value)}>
        <Nested path={path} kind={kind} schema={field.schema} label={label} />
      </Fold>
    );
  }
  return (
    <Marked path={path} whole>
      <Labelled
        label={label}
        hint={<Prose text={about.description} />}
        error={problem?.fatal ? problem.message : undefined}
        aside={<Aside path={path} field={field} />}
      >
        <Control path={path} schema={field.schema} required={field.required} label={label} />
      </Labelled>
      {problem && !problem.fatal && (
        <p className="mt-1 flex gap-1 text-xs text-warn">
          <Icon name="warning" size={14} />
          {problem.message}
        </p>
      )}
    </Marked>
  );
}

/** The control of one value, without a label of its own. */
export function Control(props: { path: Path; schema: Schema; required: boolean; label: string }) {
  const { path, schema, required, label } = props;
  const { root, tree, edit } = useForm();
  const kind = kindOf(root, schema);
  const value = at(tree, path);
  const plain = unwrapped(root, schema).schema;
  if (typeof value === "object" && value !== null && !fits(kind, value))
    return <InText path={path} />;
  if (plain.secret && isHole(value)) return <Hidden path={path} />;
  if (plain.reference && !Array.isArray(value) && kind.is === "text") {
    return <Reference path={path} reference={plain.reference} required={required} schema={plain} />;
  }
  switch (kind.is) {
    case "choice":
    case "switch":
      if (!fits(kind, value)) break; // such as ${VARIABLE}
      return <Choice path={path} kind={kind} required={required} schema={plain} />;
    case "number":
      if (!fits(kind, value)) break;
      return <Amount path={path} kind={kind} schema={plain} />;
    case "list":
      return <SimpleItems path={path} kind={kind} schema={plain} label={label} />;
    case "fixed":
      return <TextInput value={String(kind.value)} readOnly />;
    case "free":
      if (value !== undefined && !isSimple(value)) return <InText path={path} />;
      break;
  }
  return (
    <Words
      path={path}
      schema={plain}
      onValue={(text) =>
        edit(text === "" && !required ? removeAt(path) : setAt(path, parsed(kind, text)))
      }
    />
  );
}

/** Marks the row whose lines are lit, and brings it into view.
 * `whole`: it has no rows inside. */
export function Marked(props: { path: Path; whole?: boolean; children: ReactNode }) {
  const { path, whole = false, children } = props;
  const { active, follows } = useForm();
  const row = useRef<HTMLDivElement>(null);
  const key = dotted(path);
  const lit =
    active === key || (whole && (active.startsWith(`${key}[`) || active.startsWith(`${key}.`)));
  const comes = lit && follows;
  useEffect(() => {
    if (comes) row.current?.scrollIntoView({ block: "nearest" });
  }, [comes]);
  return (
    <div
      ref={row}
      data-path={JSON.stringify(path)}
      className={cx("-ml-3 border-l-2 pl-2.5", lit ? "border-accent" : "border-transparent")}
    >
      {children}
    </div>
  );
}

/** The engine's sentence about a key itself, or about a part of a value that has no row of its own. */
function useProblem(path: Path): Problem | undefined {
  const { problems } = useForm();
  const key = dotted(path);
  for (const [about, found] of problems) {
    if (about === key || about.startsWith(`${key}[`)) return found[0];
  }
  return undefined;
}

/** Whether and when a change takes effect, the prompt editor, and the way back to the default. */
function Aside({ path, field: { name, schema, required } }: { path: Path; field: Field }) {
  const { tree, readOnly, changes, edit, openPrompt } = useForm();
  const label = labelOf(name, schema);
  const effect = changes.get(dotted(path));
  const written = at(tree, path) !== undefined;
  return (
    <span className="flex h-5 items-center gap-1">
      {effect && <Badge tone="accent">{words.changed[effect]}</Badge>}
      {schema.placeholders && (
        <IconButton
          label={words.openPrompt(label)}
          icon="edit"
          small
          className="text-muted"
          onClick={() => openPrompt(path, placeholdersOf(tree, path, schema))}
        />
      )}
      {written && !required && !readOnly && (
        <IconButton
          label={words.reset(label)}
          icon="close"
          small
          className="text-muted"
          onClick={() => edit(removeAt(path))}
        />
      )}
    </span>
  );
}

/** A section inside of another one. It is open if something in it is written. */
export function Fold(props: {
  path: Path;
  label: ReactNode;
  /** What it holds, in a word or two. */
  summary: string;
  schema?: Schema;
  children: ReactNode;
  actions?: ReactNode;
}) {
  const { path, label, summary, schema, children, actions } = props;
  const { root, active, problems } = useForm();
  const key = dotted(path);
  const inside = active.startsWith(`${key}.`) || active.startsWith(`${key}[`);
  const [open, setOpen] = useState(inside);
  useEffect(() => {
    if (inside) setOpen(true); // the cursor is on one of its lines
  }, [inside]);
  const faulty = [...problems.keys()].some(
    (each) => each === key || each.startsWith(`${key}.`) || each.startsWith(`${key}[`),
  );
  return (
    <Marked path={path}>
      <div className="rounded-md border border-line">
        <div className="flex min-h-9 items-center gap-2 pr-2">
          <button
            type="button"
            aria-expanded={open}
            onClick={() => setOpen(!open)}
            className="flex min-h-9 min-w-0 flex-1 items-center gap-2 rounded-md px-2.5 text-left hover:bg-hover"
          >
            <span className="text-muted">
              <Icon name={open ? "down" : "right"} size={14} />
            </span>
            <span className="truncate font-medium">{label}</span>
            <span className="ml-auto flex shrink-0 items-center gap-2 text-xs text-muted">
              {faulty && (
                <span className="text-warn">
                  <Icon name="warning" size={14} />
                </span>
              )}
              {summary}
            </span>
          </button>
          {actions}
        </div>
        {open && (
          <div className="grid gap-4 border-t border-line px-3.5 pt-2.5 pb-3.5">
            {schema?.description && (
              <p className="text-xs text-muted">
                <Prose text={unwrapped(root, schema).schema.description} />
              </p>
            )}
            {children}
          </div>
        )}
      </div>
    </Marked>
  );
}

/** A value with values inside. */
export function Nested(props: { path: Path; kind: Kind; schema: Schema; label: string }) {
  const { path, kind, schema, label } = props;
  const { root, tree, readOnly, edit } = useForm();
  const value = at(tree, path);
  const { nullable } = unwrapped(root, schema);
  if (nullable && (value === undefined || value === null)) {
    return readOnly ? (
      <p className="text-muted">{words.notSet}</p>
    ) : (
      <div>
        <Button small icon="plus" onClick={() => edit(setAt(path, newValue(root, schema)))}>
          {words.addSection}
        </Button>
      </div>
    );
  }
  switch (kind.is) {
    case "section":
      return <Fields path={path} section={kind.schema} />;
    case "variant":
      return <Variant path={path} kind={kind} schema={schema} />;
    case "map":
      return <Entries path={path} kind={kind} reference={schema.reference} />;
    case "list":
      return <Items path={path} kind={kind} label={label} />;
    default:
      return <InText path={path} />;
  }
}

/** A section whose keys depend on its kind. A kind alone, such as `stt: whisper`, is a text. */
function Variant({
  path,
  kind,
  schema,
}: {
  path: Path;
  kind: Kind & { is: "variant" };
  schema: Schema;
}) {
  const { root, tree, readOnly, edit } = useForm();
  const value = at(tree, path);
  const short = typeof value === "string" ? value : undefined;
  const [name, section] = chosen(kind, short === undefined ? value : { [kind.key]: short }) ?? [];
  if (name === undefined || !section) return <InText path={path} />;
  return (
    <>
      <Marked path={[...path, kind.key]}>
        <Labelled label={labelOf(kind.key, {})} hint={words.changeKind}>
          <Select
            value={name}
            disabled={readOnly}
            options={[...kind.sections.keys()].map((each) => ({ value: each, label: each }))}
            onValue={(next) => edit(setAt(path, newValue(root, schema, next)))}
          />
        </Labelled>
      </Marked>
      {short === undefined && <Fields path={path} section={section} without={kind.key} />}
    </>
  );
}

function Choice(props: {
  path: Path;
  kind: Kind & { is: "choice" | "switch" };
  required: boolean;
  schema: Schema;
}) {
  const { path, kind, required, schema } = props;
  const { tree, readOnly, edit } = useForm();
  const value = at(tree, path);
  const values = kind.is === "switch" ? [true, false] : kind.values;
  const options = values.map((each) => ({ value: String(each), label: shown(each) }));
  return (
    <Select
      value={value === undefined ? "" : String(value)}
      disabled={readOnly}
      options={[
        ...(required && value !== undefined ? [] : [{ value: "", label: standard(schema) }]),
        ...options,
      ]}
      onValue={(next) => {
        const found = values.find((each) => String(each) === next);
        edit(found === undefined ? removeAt(path) : setAt(path, found));
      }}
    />
  );
}

function Reference(props: { path: Path; reference: string; required: boolean; schema: Schema }) {
  const { path, reference, required, schema } = props;
  const { tree, readOnly, edit, names } = useForm();
  const value = at(tree, path);
  const known = names(reference);
  const current = typeof value === "string" ? value : "";
  const options = known.map((each) => ({ value: each, label: each }));
  const { inherits } = schema;
  const unset = inherits ? words.inherited(inherits, at(tree, [inherits])) : standard(schema);
  if (current && !known.includes(current)) {
    options.push({ value: current, label: words.unknownName(current) });
  }
  return (
    <Select
      value={current}
      disabled={readOnly}
      options={[...(required && current ? [] : [{ value: "", label: unset }]), ...options]}
      onValue={(next) => edit(next ? setAt(path, next) : removeAt(path))}
    />
  );
}

function Amount({
  path,
  kind,
  schema,
}: {
  path: Path;
  kind: Kind & { is: "number" };
  schema: Schema;
}) {
  const { tree, readOnly, edit } = useForm();
  const value = at(tree, path);
  const given = typeof value === "number" ? value : null;
  const typed = useTyped(given, (next) => edit(next === null ? removeAt(path) : setAt(path, next)));
  return (
    <NumberInput
      value={typed.value}
      onValue={typed.change}
      onBlur={typed.commit}
      readOnly={readOnly}
      step={kind.whole ? 1 : "any"}
      placeholder={placeholder(schema)}
      {...(kind.minimum === undefined ? {} : { min: kind.minimum })}
      {...(kind.maximum === undefined ? {} : { max: kind.maximum })}
      {...(schema.unit ? { unit: schema.unit } : {})}
    />
  );
}

/** A text; of several lines where it has them, or is long. */
export function Words(props: {
  path: Path;
  schema: Schema;
  label?: string;
  onValue: (text: string) => void;
}) {
  const { path, schema, label, onValue } = props;
  const { tree, readOnly } = useForm();
  const value = at(tree, path);
  const given = value === undefined || value === null ? "" : String(value);
  const typed = useTyped(given, onValue);
  const long = `${given || schema.default || ""}`;
  const isLong =
    schema.placeholders !== undefined || long.length > LONG_TEXT || long.includes("\n");
  const common = {
    value: typed.value,
    readOnly,
    onBlur: typed.commit,
    placeholder: placeholder(schema),
    ...(label ? { "aria-label": label } : {}),
  };
  if (!isLong)
    return <TextInput {...common} onChange={(event) => typed.change(event.target.value)} />;
  const lines = typed.value
    .split("\n")
    .reduce((sum, line) => sum + 1 + Math.floor(line.length / 60), 0);
  return (
    <TextArea
      {...common}
      rows={Math.max(2, Math.min(lines, 12))}
      onChange={(event) => typed.change(event.target.value)}
      className="resize-y"
    />
  );
}

/** A literal secret. It has no way to the page; it can be replaced. */
function Hidden({ path }: { path: Path }) {
  const { readOnly, edit } = useForm();
  return (
    <div className="flex items-center gap-2 rounded-md bg-warn-soft px-2 py-1 text-warn">
      <Icon name="key" size={14} />
      <span className="flex-1 text-xs">
        {words.literalSecret} {words.secretHint}
      </span>
      {!readOnly && (
        <Button small onClick={() => edit(setAt(path, ""))}>
          {words.replaceSecret}
        </Button>
      )}
    </div>
  );
}

function InText({ path }: { path: Path }) {
  const { showInText } = useForm();
  return (
    <div className="flex flex-wrap items-center gap-2 text-xs text-muted">
      {words.onlyText}
      <Button small look="quiet" icon="right" onClick={() => showInText(path)}>
        {words.showInText}
      </Button>
    </div>
  );
}

/** What is being typed: it counts after a pause, or when the field is left. */
export function useTyped<T>(given: T, onValue: (value: T) => void) {
  const { pending, refusals } = useForm();
  const [typed, setTyped] = useState<{ value: T } | null>(null);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  const waiting = useRef<{ value: T } | null>(null);
  const commit = () => {
    clearTimeout(timer.current);
    if (waiting.current) onValue(waiting.current.value);
    waiting.current = null;
  };
  const latest = useRef(commit);
  latest.current = commit;
  // A field that goes away, such as at a jump to another part, does not take its last words with it.
  useEffect(() => () => latest.current(), []);
  const shownFor = useRef({ given, refusals });
  const { current: shown } = shownFor;
  if ((shown.given !== given || shown.refusals !== refusals) && !pending) {
    shownFor.current = { given, refusals };
    // The engine's text has come back with all edits, or as it was because they were refused: it
    // counts, except for what was typed since.
    if (typed && !waiting.current) setTyped(null);
  }
  return {
    value: typed ? typed.value : given,
    change: (value: T) => {
      setTyped({ value });
      waiting.current = { value };
      clearTimeout(timer.current);
      timer.current = setTimeout(() => latest.current(), COMMIT_AFTER_MS);
    },
    commit,
  };
}

function placeholdersOf(tree: unknown, path: Path, schema: Schema): Map<string, string> {
  const beside = at(tree, path.slice(0, -1));
  const found = new Map(Object.entries(schema.placeholders ?? {}));
  if (!isMapping(beside)) return found;
  // A context's own: the channel variables that it lists, and the results of its pre-call tools.
  for (const name of Array.isArray(beside.variables) ? beside.variables : [])
    found.set(String(name), "");
  for (const step of Array.isArray(beside.pre_call) ? beside.pre_call : []) {
    if (isMapping(step) && typeof step.save_as === "string")
      found.set(step.save_as, String(step.tool ?? ""));
  }
  return found;
}

/** What a folded section holds: its kind, or how many of its keys are written. */
export function summaryOf(kind: Kind, value: unknown): string {
  if (typeof value === "string") return value;
  if (kind.is === "variant" && isMapping(value)) return String(value[kind.key] ?? "");
  const count = typeof value === "object" && value !== null ? Object.keys(value).length : 0;
  return words.setCount(count);
}

/** True for a value that the control of a kind can show. */
function fits(kind: Kind, value: unknown): boolean {
  if (value === undefined || value === null) return true;
  switch (kind.is) {
    case "number":
      return typeof value === "number";
    case "switch":
      return typeof value === "boolean";
    case "choice":
      return kind.values.some((each) => each === value);
    case "section":
    case "map":
      return isMapping(value);
    case "variant":
      return isMapping(value) || (typeof value === "string" && kind.sections.has(value));
    case "list":
      return Array.isArray(value);
    default:
      return isSimple(value);
  }
}

/** What was typed in place of a number or a choice: its value, or a reference such as `${PORT}`. */
function parsed(kind: Kind, text: string): unknown {
  if (kind.is === "number")
    return text.trim() && Number.isFinite(Number(text)) ? Number(text) : text;
  if (kind.is === "switch") return text === "true" ? true : text === "false" ? false : text;
  if (kind.is === "choice") return kind.values.find((each) => String(each) === text) ?? text;
  return text;
}

function isNested(kind: Kind): boolean {
  if (kind.is === "list") return kind.items.$ref !== undefined || kind.items.oneOf !== undefined;
  return ["section", "variant", "map"].includes(kind.is);
}

function isSimple(value: unknown): boolean {
  return ["string", "number", "boolean"].includes(typeof value);
}

function isHole(value: unknown): boolean {
  return typeof value === "string" && /^«secret:\d+»$/.test(value);
}

function shown(value: unknown): string {
  return value === true ? words.on : value === false ? words.off : String(value);
}

function standard(schema: Schema): string {
  const value = schema.default;
  return value === undefined || value === null || value === ""
    ? words.noDefault
    : words.isDefault(shown(value));
}

function placeholder(schema: Schema): string | undefined {
  const value = schema.default;
  if (value === undefined || value === null || value === "" || typeof value === "object")
    return undefined;
  return shown(value);
}
