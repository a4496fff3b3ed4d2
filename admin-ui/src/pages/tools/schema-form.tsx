// A form for the values of a JSON Schema. What it cannot show is edited as JSON at its place.
import { createContext, type ReactNode, useContext, useState } from "react";

import { Button, IconButton } from "../../parts/button.tsx";
import { cx } from "../../parts/cx.ts";
import { Field, NumberInput, Select, TextArea, TextInput } from "../../parts/field.tsx";
import { words } from "../../words/tools.ts";
import { JsonInput } from "./json-input.tsx";
import { Marked } from "./marked.tsx";
import {
  initial,
  isObject,
  type Json,
  type JsonObject,
  local,
  own,
  type Part,
  type Path,
  resolved,
  type Shape,
  shapeOf,
  variantOf,
  zoned,
} from "./schema.ts";
import { dotted } from "./server-form.ts";

interface Form {
  root: JsonObject;
  /** Undefined as a value leaves the part out. */
  onChange: (path: Path, value: Json | undefined) => void;
  /** Sentences of the engine by dotted path. */
  problems: ReadonlyMap<string, string>;
  /** True where secrets are references such as `${NAME}`, which are to be seen. */
  showsSecrets: boolean;
}

const Context = createContext<Form | null>(null);

function useForm(): Form {
  const form = useContext(Context);
  if (form === null) throw new Error("a part of a form stands outside of it");
  return form;
}

export interface SchemaFormProps {
  root: JsonObject;
  /** The fields, in their order. */
  fields: readonly Part[];
  value: JsonObject;
  onChange: Form["onChange"];
  problems?: Form["problems"];
  showsSecrets?: boolean;
}

const NONE: ReadonlyMap<string, string> = new Map();

export function SchemaForm(props: SchemaFormProps) {
  const { root, fields, value, onChange, problems = NONE, showsSecrets = false } = props;
  return (
    <Context value={{ root, onChange, problems, showsSecrets }}>
      <div className="grid gap-3">
        {fields.map((field) => (
          <PartEditor
            key={field.name}
            part={field}
            path={[field.name]}
            value={own(value, field.name)}
          />
        ))}
      </div>
    </Context>
  );
}

interface EditorProps {
  part: Part;
  path: Path;
  value: Json | undefined;
  hideLabel?: boolean;
  /** True for an item or entry: emptied, it stays where it is. */
  isItem?: boolean;
}

function PartEditor(props: EditorProps) {
  const { part, value } = props;
  const { root } = useForm();
  const shape = shapeOf(part.schema, root);
  if (!takes(shape, value)) return <JsonPart {...props} />;
  switch (shape.kind) {
    case "object":
      return <ObjectPart {...props} fields={shape.fields} />;
    case "map":
      return <MapPart {...props} item={shape.item} />;
    case "list":
      return <ListPart {...props} item={shape.item} />;
    case "variants":
      return <VariantsPart {...props} variants={shape.variants} />;
    case "json":
      return <JsonPart {...props} />;
    default:
      return <SimplePart {...props} shape={shape} />;
  }
}

/** False for a value that the part could not show: somebody wrote it as JSON. */
function takes(shape: Shape, value: Json | undefined): boolean {
  if (value === undefined) return true;
  switch (shape.kind) {
    case "text":
      return typeof value === "string";
    case "number":
      return typeof value === "number";
    case "switch":
      return typeof value === "boolean";
    case "choice":
      return shape.values.some((each) => JSON.stringify(each) === JSON.stringify(value));
    case "list":
      return Array.isArray(value);
    case "object":
    case "map":
      return isObject(value);
    default:
      return true;
  }
}

function useLabels({ part, path, hideLabel = false }: EditorProps) {
  const { problems } = useForm();
  return {
    label: <span className="font-mono text-xs">{part.name}</span>,
    hint: part.description && <Marked text={part.description} />,
    error: problems.get(dotted(path)),
    aside: part.required && !hideLabel && (
      <span className="text-xs text-muted">{words.form.required}</span>
    ),
    hideLabel,
  };
}

function SimplePart(props: EditorProps & { shape: Shape }) {
  const { part, path, value, shape, isItem = false } = props;
  const { onChange, showsSecrets } = useForm();
  const standard = shown(part.standard);
  const set = (next: Json | undefined) => onChange(path, isItem ? (next ?? null) : next);
  let input: ReactNode = null;
  if (shape.kind === "number") {
    input = (
      <NumberInput
        value={typeof value === "number" ? value : null}
        onValue={(next) => set(next ?? undefined)}
        step={shape.whole ? 1 : "any"}
        min={shape.least}
        max={shape.most}
        unit={shape.unit}
        placeholder={standard}
      />
    );
  } else if (shape.kind === "switch") {
    input = <Choice values={[true, false]} part={part} value={value} onValue={set} />;
  } else if (shape.kind === "choice") {
    input = <Choice values={shape.values} part={part} value={value} onValue={set} />;
  } else if (shape.kind === "text") {
    input = (
      <TextPart
        shape={shape}
        value={typeof value === "string" ? value : ""}
        placeholder={standard}
        plain={showsSecrets}
        onValue={(text) => set(text === "" && !isItem ? undefined : text)}
      />
    );
  }
  return <Field {...useLabels(props)}>{input}</Field>;
}

function shown(standard: Json | undefined): string | undefined {
  if (standard === undefined || standard === null || standard === "") return undefined;
  return words.form.standard(typeof standard === "string" ? standard : JSON.stringify(standard));
}

interface TextPartProps {
  shape: Extract<Shape, { kind: "text" }>;
  value: string;
  placeholder: string | undefined;
  plain: boolean;
  onValue: (text: string) => void;
}

const LONG = 200;

function TextPart({ shape, value, placeholder, plain, onValue }: TextPartProps) {
  const common = { placeholder, maxLength: shape.most, spellCheck: false };
  switch (shape.format) {
    case "date":
    case "time":
      return (
        <TextInput
          type={shape.format}
          step={shape.format === "time" ? 1 : undefined}
          value={value}
          onChange={(event) => onValue(event.target.value)}
        />
      );
    case "date-time":
      return (
        <TextInput
          type="datetime-local"
          step={1}
          value={local(value)}
          onChange={(event) => onValue(zoned(event.target.value))}
        />
      );
    case "secret":
      return (
        <TextInput
          {...common}
          type={plain ? "text" : "password"}
          autoComplete="off"
          value={value}
          onChange={(event) => onValue(event.target.value)}
        />
      );
    default:
      return value.includes("\n") || (shape.most ?? 0) > LONG ? (
        <TextArea {...common} value={value} onChange={(event) => onValue(event.target.value)} />
      ) : (
        <TextInput {...common} value={value} onChange={(event) => onValue(event.target.value)} />
      );
  }
}

interface ChoiceProps {
  values: readonly Json[];
  part: Part;
  value: Json | undefined;
  onValue: (value: Json | undefined) => void;
}

function Choice({ values, part, value, onValue }: ChoiceProps) {
  const at = values.findIndex((each) => JSON.stringify(each) === JSON.stringify(value));
  const none = { value: "", label: shown(part.standard) ?? words.form.leftOut };
  const options = values.map((each, index) => ({
    value: String(index),
    label: typeof each === "string" ? each : JSON.stringify(each),
  }));
  return (
    <Select
      value={at < 0 ? "" : String(at)}
      onValue={(chosen) => onValue(chosen === "" ? undefined : values[Number(chosen)])}
      options={part.required && at >= 0 ? options : [none, ...options]}
    />
  );
}

function JsonPart(props: EditorProps) {
  const { path, value, part } = props;
  const { onChange } = useForm();
  const labels = useLabels(props);
  const hint = (
    <>
      <Marked text={part.description} /> {words.form.asJson}
    </>
  );
  return (
    <Field {...labels} hint={hint}>
      <JsonInput value={value} rows={3} onValue={(next) => onChange(path, next)} />
    </Field>
  );
}

/** A part with parts of its own. It has a heading, and a button that adds or removes it. */
function Group(props: EditorProps & { children: ReactNode }) {
  const { part, path, value, hideLabel, isItem, children } = props;
  const { root, onChange, problems } = useForm();
  const error = problems.get(dotted(path));
  if (value === undefined && !part.required) {
    return (
      <div>
        <Button small icon="plus" onClick={() => onChange(path, initial(part.schema, root) ?? {})}>
          <span>{words.form.add(part.name)}</span>
        </Button>
        {part.description && (
          <p className="mt-1 text-xs text-muted">
            <Marked text={part.description} />
          </p>
        )}
        {error && <p className="mt-1 text-xs text-bad">{error}</p>}
      </div>
    );
  }
  return (
    <fieldset
      aria-label={part.name}
      className={cx("min-w-0", !hideLabel && "border-l-2 border-line pl-3")}
    >
      <div className={cx("flex min-h-6 items-center gap-2", hideLabel && "sr-only")}>
        <span className="font-mono text-xs font-medium">{part.name}</span>
        {part.required ? (
          !isItem && <span className="text-xs text-muted">{words.form.required}</span>
        ) : (
          <IconButton
            label={words.form.remove(part.name)}
            icon="close"
            small
            onClick={() => onChange(path, undefined)}
          />
        )}
      </div>
      {part.description && (
        <p className="mb-2 text-xs text-muted">
          <Marked text={part.description} />
        </p>
      )}
      {error && (
        <p role="alert" className="mb-2 text-xs text-bad">
          {error}
        </p>
      )}
      {children}
    </fieldset>
  );
}

function ObjectPart(props: EditorProps & { fields: readonly Part[] }) {
  const { fields, path } = props;
  const value = isObject(props.value) ? props.value : {};
  const known = new Set(fields.map((each) => each.name));
  const others = Object.keys(value).filter((name) => !known.has(name));
  return (
    <Group {...props}>
      <div className="grid gap-3">
        {[...fields, ...others.map(unknownPart)].map((field) => (
          <PartEditor
            key={field.name}
            part={field}
            path={[...path, field.name]}
            value={own(value, field.name)}
          />
        ))}
      </div>
    </Group>
  );
}

const unknownPart = (name: string): Part => ({
  name,
  title: "",
  description: words.form.extra,
  required: false,
  standard: undefined,
  schema: {},
});

function itemPart(name: string, item: JsonObject, root: JsonObject): Part {
  return { ...unknownPart(name), description: "", required: true, schema: resolved(item, root) };
}

function ListPart(props: EditorProps & { item: JsonObject }) {
  const { item, path } = props;
  const { root, onChange } = useForm();
  const items = Array.isArray(props.value) ? props.value : [];
  const part = (index: number) => itemPart(words.form.item(index + 1), item, root);
  const compact = ["text", "number", "switch", "choice"].includes(
    shapeOf(resolved(item, root), root).kind,
  );
  return (
    <Group {...props}>
      <ol className="grid gap-1.5">
        {items.map((each, index) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: items have no identity but their place
          <li key={index} className="flex items-start gap-1">
            <div className="min-w-0 flex-1">
              <PartEditor
                part={part(index)}
                path={[...path, index]}
                value={each === null ? undefined : each}
                hideLabel={compact}
                isItem
              />
            </div>
            <IconButton
              label={words.form.remove(part(index).name)}
              icon="close"
              onClick={() => onChange([...path, index], undefined)}
            />
          </li>
        ))}
      </ol>
      <Button
        small
        icon="plus"
        className="mt-1.5"
        onClick={() => onChange([...path, items.length], initial(item, root) ?? empty(item, root))}
      >
        {words.form.addItem}
      </Button>
    </Group>
  );
}

/** The value of a new item that the person has not given yet. */
function empty(item: JsonObject, root: JsonObject): Json {
  return shapeOf(resolved(item, root), root).kind === "text" ? "" : null;
}

function MapPart(props: EditorProps & { item: JsonObject }) {
  const { item, path } = props;
  const { root, onChange } = useForm();
  const value = isObject(props.value) ? props.value : {};
  const entries = Object.entries(value);
  const add = () => {
    let name = "NAME";
    for (let number = 2; Object.hasOwn(value, name); number++) name = `NAME_${number}`;
    onChange([...path, name], initial(item, root) ?? empty(item, root));
  };
  return (
    <Group {...props}>
      <div className="grid gap-1.5">
        {entries.map(([name, each], index) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: the name is what is being typed
          <div key={index} className="grid grid-cols-[minmax(0,2fr)_minmax(0,3fr)_auto] gap-1">
            <KeyInput
              name={name}
              taken={(next) => Object.hasOwn(value, next)}
              onRename={(next) => onChange(path, renamed(value, name, next))}
            />
            <PartEditor
              part={itemPart(name, item, root)}
              path={[...path, name]}
              value={each === null ? undefined : each}
              hideLabel
              isItem
            />
            <IconButton
              label={words.form.remove(name)}
              icon="close"
              onClick={() => onChange([...path, name], undefined)}
            />
          </div>
        ))}
      </div>
      <Button small icon="plus" className="mt-1.5" onClick={add}>
        {words.form.addEntry}
      </Button>
    </Group>
  );
}

function renamed(value: JsonObject, name: string, next: string): JsonObject {
  const entries = Object.entries(value);
  return Object.fromEntries(entries.map(([key, each]) => [key === name ? next : key, each]));
}

interface KeyInputProps {
  name: string;
  taken: (name: string) => boolean;
  onRename: (name: string) => void;
}

/** The name of an entry. One that is empty or taken stays here until it can be used. */
function KeyInput({ name, taken, onRename }: KeyInputProps) {
  const [typed, setTyped] = useState(name);
  const isTaken = typed !== name && taken(typed);
  return (
    <Field label={words.form.key} hideLabel error={isTaken ? words.form.taken : undefined}>
      <TextInput
        className="font-mono text-xs"
        spellCheck={false}
        value={typed}
        onChange={(event) => {
          const next = event.target.value;
          setTyped(next);
          if (next !== "" && !taken(next)) onRename(next);
        }}
        onBlur={() => setTyped(name)}
      />
    </Field>
  );
}

function VariantsPart(props: EditorProps & { variants: { label: string; schema: JsonObject }[] }) {
  const { part, path, value, variants } = props;
  const { root, onChange } = useForm();
  const [chosen, setChosen] = useState<number | null>(null);
  const fitting = value === undefined ? -1 : variantOf(variants, value, root);
  const at = value === undefined ? -1 : (chosen ?? fitting);
  const variant = variants[at];
  const options = variants.map((each, index) => ({ value: String(index), label: each.label }));
  const choose = (id: string) => {
    const next = id === "" ? undefined : variants[Number(id)];
    setChosen(next ? Number(id) : null);
    onChange(path, next && (initial(next.schema, root) ?? empty(next.schema, root)));
  };
  return (
    <div className="grid gap-2">
      <Field {...useLabels(props)}>
        <Select
          value={at < 0 ? "" : String(at)}
          onValue={choose}
          options={[{ value: "", label: words.form.leftOut }, ...options]}
        />
      </Field>
      {variant && (
        <PartEditor
          part={{
            ...part,
            name: variant.label,
            description: "",
            required: true,
            schema: variant.schema,
          }}
          path={path}
          value={value === null ? undefined : value}
          isItem
        />
      )}
    </div>
  );
}
