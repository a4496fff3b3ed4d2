// Reads a JSON Schema as parts of a form. Pure. The schema may be a tool's, so its author is not
// trusted: whatever it says that a form cannot show becomes a part that is edited as JSON.

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
export type JsonObject = { [key: string]: Json };
export type Path = readonly (string | number)[];

/** A field of an object, or the schema of an item. */
export type Part = {
  readonly name: string;
  readonly title: string;
  readonly description: string;
  readonly required: boolean;
  /** Value that holds if none is given; undefined without one. */
  readonly standard: Json | undefined;
  readonly schema: JsonObject;
};

export type Shape =
  | { kind: "text"; format: TextFormat; least: number; most: number | undefined }
  | {
      kind: "number";
      whole: boolean;
      least: number | undefined;
      most: number | undefined;
      unit: string;
    }
  | { kind: "switch" }
  | { kind: "choice"; values: Json[] }
  | { kind: "object"; fields: Part[] }
  | { kind: "map"; item: JsonObject }
  | { kind: "list"; item: JsonObject }
  | { kind: "variants"; variants: { label: string; schema: JsonObject }[] }
  | { kind: "json" };
export type TextFormat = "text" | "secret" | "date" | "time" | "date-time";

const DEEPEST = 12;

export function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The value of an object's own key: a schema may name one `constructor`. */
export function own(object: JsonObject, key: string): Json | undefined {
  return Object.hasOwn(object, key) ? object[key] : undefined;
}

/** The schema with its reference replaced, and without the alternative `null`. */
export function resolved(schema: Json | undefined, root: JsonObject, depth = 0): JsonObject {
  if (!isObject(schema) || depth > DEEPEST) return {};
  const { $ref: reference, ...own } = schema;
  if (typeof reference === "string") {
    return { ...resolved(pointed(reference, root), root, depth + 1), ...own };
  }
  const { allOf, ...rest } = schema;
  if (Array.isArray(allOf) && allOf.length === 1) {
    return { ...resolved(allOf[0], root, depth + 1), ...rest };
  }
  for (const key of ["anyOf", "oneOf"]) {
    const given = schema[key];
    if (!Array.isArray(given)) continue;
    const others = given.filter((each) => !isObject(each) || each.type !== "null");
    if (others.length === given.length) continue;
    const { [key]: _, ...around } = schema;
    if (others.length !== 1) return { ...around, [key]: others };
    return { ...resolved(others[0], root, depth + 1), ...around };
  }
  return schema;
}

function pointed(reference: string, root: JsonObject): Json | undefined {
  if (reference === "#") return root;
  if (!reference.startsWith("#/")) return undefined;
  let found: Json | undefined = root;
  for (const part of reference.slice(2).split("/")) {
    const name = decodeURIComponent(part).replaceAll("~1", "/").replaceAll("~0", "~");
    found = isObject(found) ? own(found, name) : undefined;
  }
  return found;
}

/** The part of a form for a schema that `resolved` has returned. */
export function shapeOf(schema: JsonObject, root: JsonObject): Shape {
  if (Object.hasOwn(schema, "const")) return { kind: "choice", values: [schema.const ?? null] };
  const values = schema.enum;
  if (Array.isArray(values) && values.length > 0) {
    return { kind: "choice", values: values.filter((each) => each !== null) };
  }
  const variants = schema.oneOf ?? schema.anyOf;
  if (Array.isArray(variants) && variants.length > 0) return variantsOf(schema, variants, root);
  switch (typeOf(schema)) {
    case "string":
      return textOf(schema);
    case "integer":
    case "number":
      return numberOf(schema);
    case "boolean":
      return { kind: "switch" };
    case "array":
      return isObject(schema.items) ? { kind: "list", item: schema.items } : { kind: "json" };
    case "object":
      return objectOf(schema, root);
    default:
      return { kind: "json" };
  }
}

function typeOf(schema: JsonObject): string {
  const type = schema.type;
  if (typeof type === "string") return type;
  if (Array.isArray(type)) {
    const others = type.filter((each) => each !== "null");
    return others.length === 1 && typeof others[0] === "string" ? others[0] : "";
  }
  return isObject(schema.properties) ? "object" : "";
}

function textOf(schema: JsonObject): Shape {
  const format = schema.format;
  const secret = format === "password" || schema.writeOnly === true || schema.secret === true;
  return {
    kind: "text",
    format: secret
      ? "secret"
      : format === "date" || format === "time" || format === "date-time"
        ? format
        : "text",
    least: numeric(schema.minLength) ?? 0,
    most: numeric(schema.maxLength),
  };
}

function numberOf(schema: JsonObject): Shape {
  return {
    kind: "number",
    whole: typeOf(schema) === "integer",
    least: numeric(schema.minimum) ?? numeric(schema.exclusiveMinimum),
    most: numeric(schema.maximum) ?? numeric(schema.exclusiveMaximum),
    unit: typeof schema.unit === "string" ? schema.unit : "",
  };
}

function numeric(value: Json | undefined): number | undefined {
  return typeof value === "number" ? value : undefined;
}

function objectOf(schema: JsonObject, root: JsonObject): Shape {
  const properties = schema.properties;
  if (isObject(properties) && Object.keys(properties).length > 0) {
    return { kind: "object", fields: fieldsOf(properties, schema.required, root) };
  }
  const more = schema.additionalProperties;
  if (isObject(more)) return { kind: "map", item: more };
  if (isObject(properties) || more === false) return { kind: "object", fields: [] };
  return { kind: "json" };
}

function fieldsOf(properties: JsonObject, required: Json | undefined, root: JsonObject): Part[] {
  const needed = Array.isArray(required) ? required : [];
  return Object.entries(properties).map(([name, given]) => {
    const schema = resolved(given, root);
    return {
      name,
      title: typeof schema.title === "string" ? schema.title : "",
      description: typeof schema.description === "string" ? schema.description : "",
      required: needed.includes(name),
      standard: schema.default,
      schema,
    };
  });
}

function variantsOf(schema: JsonObject, given: Json[], root: JsonObject): Shape {
  const { oneOf: _one, anyOf: _any, ...around } = schema;
  const variants = given.map((each, index) => {
    const found = { ...around, ...resolved(each, root) };
    return { label: variantLabel(found, index), schema: found };
  });
  const only = variants[0];
  return variants.length === 1 && only
    ? shapeOf(only.schema, root)
    : { kind: "variants", variants };
}

function variantLabel(schema: JsonObject, index: number): string {
  const title = schema.title;
  if (typeof title === "string" && title) return title;
  const properties = schema.properties;
  if (isObject(properties)) {
    const fixed = Object.values(properties).find((each) => isObject(each) && "const" in each);
    if (isObject(fixed)) return String(fixed.const);
    if (Object.keys(properties).length > 0) return Object.keys(properties).slice(0, 3).join(", ");
  }
  return "const" in schema ? String(schema.const) : typeOf(schema) || String(index + 1);
}

/** The first variant that could have this value; 0 if none could. */
export function variantOf(
  variants: { schema: JsonObject }[],
  value: Json,
  root: JsonObject,
): number {
  return Math.max(
    0,
    variants.findIndex(({ schema }) => fits(schema, value, root)),
  );
}

function fits(given: JsonObject, value: Json, root: JsonObject): boolean {
  const schema = resolved(given, root);
  const shape = shapeOf(schema, root);
  switch (shape.kind) {
    case "choice":
      return shape.values.some((each) => JSON.stringify(each) === JSON.stringify(value));
    case "text":
      return typeof value === "string";
    case "number":
      return typeof value === "number" && (!shape.whole || Number.isInteger(value));
    case "switch":
      return typeof value === "boolean";
    case "list":
      return Array.isArray(value);
    case "map":
      return isObject(value);
    case "object":
      return isObject(value) && shape.fields.every((each) => fieldFits(each, value, root));
    default:
      return true;
  }
}

function fieldFits(field: Part, value: JsonObject, root: JsonObject): boolean {
  const given = own(value, field.name);
  if (given === undefined) return !field.required;
  return shapeOf(field.schema, root).kind === "choice" ? fits(field.schema, given, root) : true;
}

/** The value that a required part begins with; undefined if the person must give it. */
export function initial(given: JsonObject, root: JsonObject, depth = 0): Json | undefined {
  const schema = resolved(given, root);
  if (schema.default !== undefined && schema.default !== null) return schema.default;
  const shape = shapeOf(schema, root);
  if (depth > DEEPEST) return undefined;
  if (shape.kind === "choice" && shape.values.length === 1) return shape.values[0];
  if (shape.kind === "list") return [];
  if (shape.kind === "map") return {};
  if (shape.kind === "variants") {
    const first = shape.variants[0];
    return first ? initial(first.schema, root, depth + 1) : undefined;
  }
  if (shape.kind !== "object") return undefined;
  const begun = shape.fields
    .filter((field) => field.required)
    .flatMap((field) => {
      const value = initial(field.schema, root, depth + 1);
      return value === undefined ? [] : [[field.name, value] as const];
    });
  return Object.fromEntries(begun);
}

/** Paths of the required values that are not given. The engine is the judge of all else. */
export function missing(given: JsonObject, value: Json | undefined, root: JsonObject): Path[] {
  const schema = resolved(given, root);
  const shape = shapeOf(schema, root);
  if (shape.kind === "object" && isObject(value)) {
    return shape.fields.flatMap((field) => {
      const inner = own(value, field.name);
      if (inner === undefined || inner === "") return field.required ? [[field.name]] : [];
      return missing(field.schema, inner, root).map((path) => [field.name, ...path]);
    });
  }
  if (shape.kind === "list" && Array.isArray(value)) {
    return value.flatMap((item, index) =>
      missing(shape.item, item, root).map((path) => [index, ...path]),
    );
  }
  if (shape.kind === "variants" && value !== undefined) {
    const chosen = shape.variants[variantOf(shape.variants, value, root)];
    return chosen ? missing(chosen.schema, value, root) : [];
  }
  return [];
}

/** The value with another one at a place below it; undefined removes a key or an item. */
export function put(
  whole: Json | undefined,
  path: Path,
  value: Json | undefined,
): Json | undefined {
  const [first, ...others] = path;
  if (first === undefined) return value;
  if (typeof first === "number") {
    const items = Array.isArray(whole) ? [...whole] : [];
    const next = put(items[first], others, value);
    if (next === undefined) items.splice(first, 1);
    else items[first] = next;
    return items;
  }
  const found = isObject(whole) ? whole : {};
  const next = put(own(found, first), others, value);
  // Not by assignment: a tool may call an argument `__proto__`.
  const entries = Object.entries(found);
  if (next === undefined) return Object.fromEntries(entries.filter(([key]) => key !== first));
  if (!Object.hasOwn(found, first)) return Object.fromEntries([...entries, [first, next]]);
  return Object.fromEntries(entries.map(([key, each]) => [key, key === first ? next : each]));
}

/** The value as JSON for people; undefined as an empty text. */
export function pretty(value: Json | undefined): string {
  return value === undefined ? "" : JSON.stringify(value, null, 2);
}

/** A text of JSON as a value, or the parser's message. */
export function parsed(text: string): { value: Json } | { problem: string } {
  try {
    const value: Json = JSON.parse(text);
    return { value };
  } catch (error) {
    return { problem: error instanceof Error ? error.message : String(error) };
  }
}

/** RFC 3339 with the zone of this machine, from the text of an `<input type="datetime-local">`. */
export function zoned(local: string): string {
  const moment = new Date(local);
  if (local === "" || Number.isNaN(moment.getTime())) return "";
  const minutes = -moment.getTimezoneOffset();
  const sign = minutes < 0 ? "-" : "+";
  const two = (part: number) => String(Math.floor(part)).padStart(2, "0");
  const zone = `${sign}${two(Math.abs(minutes) / 60)}:${two(Math.abs(minutes) % 60)}`;
  return `${local.length === 16 ? `${local}:00` : local}${zone}`;
}

/** The text for an `<input type="datetime-local">`, from RFC 3339; empty if it is none. */
export function local(value: string): string {
  const moment = new Date(value);
  if (Number.isNaN(moment.getTime())) return "";
  const shifted = new Date(moment.getTime() - moment.getTimezoneOffset() * 60_000);
  return shifted.toISOString().slice(0, 19);
}
