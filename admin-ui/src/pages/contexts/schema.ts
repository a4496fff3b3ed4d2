// The engine's JSON Schema of the configuration, read for a form: one kind of control for each kind
// of value, and nothing about any section by name.
import { at, isMapping, type Path } from "./outline.ts";

export interface Schema {
  readonly $ref?: string;
  readonly type?: string;
  readonly const?: unknown;
  readonly enum?: readonly unknown[];
  readonly anyOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly patternProperties?: Readonly<Record<string, Schema>>;
  readonly additionalProperties?: Schema | boolean;
  readonly propertyNames?: Schema;
  readonly items?: Schema;
  readonly required?: readonly string[];
  readonly default?: unknown;
  readonly title?: string;
  readonly description?: string;
  readonly pattern?: string;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly maxItems?: number;
  /** Added by the engine for forms. */
  readonly order?: number;
  readonly expected?: string;
  readonly unit?: string;
  readonly secret?: boolean;
  readonly reference?: string;
  /** Key at the top of the file whose value counts if this one is not set. */
  readonly inherits?: string;
  readonly placeholders?: Readonly<Record<string, string>>;
  readonly kind_key?: string;
}

export interface Root extends Schema {
  readonly $defs: Readonly<Record<string, Schema>>;
}

export interface Field {
  readonly name: string;
  readonly schema: Schema;
  readonly required: boolean;
}

/** How a value is edited. */
export type Kind =
  | { readonly is: "text" }
  | {
      readonly is: "number";
      readonly whole: boolean;
      readonly minimum?: number;
      readonly maximum?: number;
    }
  | { readonly is: "switch" }
  | { readonly is: "choice"; readonly values: readonly (string | number | boolean)[] }
  | { readonly is: "fixed"; readonly value: unknown }
  | { readonly is: "section"; readonly schema: Schema }
  | { readonly is: "variant"; readonly key: string; readonly sections: ReadonlyMap<string, Schema> }
  | { readonly is: "map"; readonly names: RegExp | undefined; readonly values: Schema }
  | { readonly is: "list"; readonly items: Schema; readonly most: number }
  /** Several shapes, or any: only the text can say it. */
  | { readonly is: "free" };

export function resolved(root: Root, schema: Schema): Schema {
  const name = schema.$ref?.split("/").at(-1);
  const target = name === undefined ? undefined : root.$defs[name];
  if (!target) return schema;
  const { $ref: _, ...own } = schema;
  return { ...resolved(root, target), ...own };
}

/** The schema without `null`, with what stands beside its alternatives; and whether it may be null. */
export function unwrapped(root: Root, schema: Schema): { schema: Schema; nullable: boolean } {
  const whole = resolved(root, schema);
  const branches = whole.anyOf?.filter((each) => each.type !== "null");
  const [only] = branches ?? [];
  if (!branches || !only || branches.length > 1) return { schema: whole, nullable: false };
  const { anyOf: _, ...beside } = whole;
  return { schema: { ...resolved(root, only), ...beside }, nullable: true };
}

export function kindOf(root: Root, wrapped: Schema): Kind {
  const { schema } = unwrapped(root, wrapped);
  if (schema.const !== undefined) return { is: "fixed", value: schema.const };
  if (schema.enum) return { is: "choice", values: schema.enum.filter(isSimple) };
  if (schema.kind_key && schema.oneOf) {
    return { is: "variant", key: schema.kind_key, sections: sectionsOf(root, schema) };
  }
  switch (schema.type) {
    case "string":
      return { is: "text" };
    case "integer":
    case "number":
      return { is: "number", whole: schema.type === "integer", ...bounds(schema) };
    case "boolean":
      return { is: "switch" };
    case "array":
      return { is: "list", items: schema.items ?? {}, most: schema.maxItems ?? Infinity };
    case "object":
      return objectKind(schema);
    default:
      return { is: "free" };
  }
}

/** The keys of a section, in the engine's order. */
export function fieldsOf(root: Root, section: Schema): Field[] {
  const { schema } = unwrapped(root, section);
  const required = new Set(schema.required);
  return Object.entries(schema.properties ?? {})
    .map(([name, inner]) => ({ name, schema: inner, required: required.has(name) }))
    .sort((one, two) => (one.schema.order ?? 0) - (two.schema.order ?? 0));
}

/** The section that a value of a kind is; the first one if its key is missing. */
export function chosen(
  kind: Kind & { is: "variant" },
  value: unknown,
): [string, Schema] | undefined {
  const name = isMapping(value) ? value[kind.key] : undefined;
  const [first] = kind.sections;
  const found = typeof name === "string" ? kind.sections.get(name) : undefined;
  return found && typeof name === "string" ? [name, found] : first;
}

/** The schema of the value at a path, by the kinds that the file names; undefined if none is known. */
export function schemaAt(root: Root, tree: unknown, path: Path): Schema | undefined {
  let schema: Schema = resolved(root, root);
  for (const [depth, part] of path.entries()) {
    const inner = step(root, schema, at(tree, path.slice(0, depth)), part);
    if (!inner) return undefined;
    schema = inner;
  }
  return schema;
}

/** The least value that a new entry begins with: its required keys. */
export function newValue(root: Root, schema: Schema, variant?: string): unknown {
  const kind = kindOf(root, schema);
  switch (kind.is) {
    case "text":
      return "";
    case "number":
      return kind.minimum ?? 0;
    case "switch":
      return false;
    case "choice":
      return kind.values[0];
    case "fixed":
      return kind.value;
    case "list":
      return [];
    case "map":
    case "free":
      return {};
    case "variant": {
      const [name, section] =
        (variant && entryOf(kind.sections, variant)) || chosen(kind, {}) || [];
      if (!section || name === undefined) return {};
      const value = newValue(root, section);
      return { [kind.key]: name, ...(isMapping(value) ? value : {}) };
    }
    case "section":
      return Object.fromEntries(
        fieldsOf(root, kind.schema)
          .filter((each) => each.required)
          .map((each) => [each.name, newValue(root, each.schema)]),
      );
  }
}

const ACRONYMS = new Set([
  "api",
  "id",
  "ip",
  "mcp",
  "oidc",
  "otlp",
  "rtp",
  "stt",
  "tls",
  "tts",
  "ui",
  "url",
]);

/** `pre_call_timeout_ms` → `Pre call timeout`; the unit stands beside the value. */
export function labelOf(name: string, schema: Schema): string {
  const words = name.split("_").filter(Boolean);
  if (schema.unit && !schema.unit.includes("/") && words.length > 1) words.pop();
  const text = words.map((each) => (ACRONYMS.has(each) ? each.toUpperCase() : each)).join(" ");
  return text.charAt(0).toUpperCase() + text.slice(1);
}

function entryOf(
  sections: ReadonlyMap<string, Schema>,
  name: string,
): [string, Schema] | undefined {
  const found = sections.get(name);
  return found && [name, found];
}

function step(
  root: Root,
  schema: Schema,
  value: unknown,
  part: string | number,
): Schema | undefined {
  const kind = kindOf(root, schema);
  switch (kind.is) {
    case "section":
      return kind.schema.properties?.[part];
    case "variant":
      return resolved(root, chosen(kind, value)?.[1] ?? {}).properties?.[part];
    case "map":
      return kind.values;
    case "list":
      return kind.items;
    default:
      return undefined;
  }
}

function sectionsOf(root: Root, schema: Schema): Map<string, Schema> {
  const key = schema.kind_key ?? "";
  const sections = new Map<string, Schema>();
  for (const branch of schema.oneOf ?? []) {
    const section = resolved(root, branch);
    const name = section.properties?.[key]?.const;
    if (typeof name === "string") sections.set(name, section);
  }
  return sections;
}

function objectKind(schema: Schema): Kind {
  if (schema.properties) return { is: "section", schema };
  const [pattern, values] = Object.entries(schema.patternProperties ?? {})[0] ?? [];
  if (pattern !== undefined && values) return { is: "map", names: nameRule(pattern), values };
  const more = schema.additionalProperties;
  if (!more || more === true) return { is: "free" };
  return { is: "map", names: nameRule(schema.propertyNames?.pattern), values: more };
}

function nameRule(pattern: string | undefined): RegExp | undefined {
  return pattern === undefined ? undefined : new RegExp(pattern, "u");
}

function bounds({ minimum, maximum }: Schema): { minimum?: number; maximum?: number } {
  return {
    ...(minimum === undefined ? {} : { minimum }),
    ...(maximum === undefined ? {} : { maximum }),
  };
}

function isSimple(value: unknown): value is string | number | boolean {
  return ["string", "number", "boolean"].includes(typeof value);
}
