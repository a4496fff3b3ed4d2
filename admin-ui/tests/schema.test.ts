import { expect, test } from "vitest";

import {
  initial,
  type JsonObject,
  local,
  missing,
  put,
  resolved,
  type Shape,
  shapeOf,
  variantOf,
  zoned,
} from "../src/pages/tools/schema.ts";

const shape = (schema: JsonObject, root: JsonObject = schema): Shape =>
  shapeOf(resolved(schema, root), root);

test("each kind of schema has a part of the form; the others are edited as JSON", () => {
  const kinds: [JsonObject, Shape["kind"]][] = [
    [{ type: "string" }, "text"],
    [{ type: "integer" }, "number"],
    [{ type: ["number", "null"] }, "number"],
    [{ type: "boolean" }, "switch"],
    [{ enum: ["a", "b", null] }, "choice"],
    [{ const: 4 }, "choice"],
    [{ type: "array", items: { type: "string" } }, "list"],
    [{ properties: { a: {} } }, "object"],
    [{ type: "object", additionalProperties: { type: "string" } }, "map"],
    [{ anyOf: [{ type: "string" }, { type: "null" }] }, "text"],
    [{ oneOf: [{ type: "string" }, { type: "integer" }] }, "variants"],
    [{ allOf: [{ type: "string" }] }, "text"],
    [{ allOf: [{ type: "object" }, { required: ["a"] }] }, "json"],
    [{ type: "object" }, "json"],
    [{ type: "array" }, "json"],
    [{ type: ["string", "integer"] }, "json"],
    [{ $ref: "https://elsewhere.example/schema" }, "json"],
    [{}, "json"],
  ];
  expect(kinds.map(([schema]) => shape(schema).kind)).toEqual(kinds.map(([, kind]) => kind));
});

test("texts keep their format and bounds, secrets are secret, numbers have a unit", () => {
  expect(shape({ type: "string", format: "date", maxLength: 10 })).toMatchObject({
    format: "date",
    most: 10,
  });
  expect(shape({ type: "string", writeOnly: true })).toMatchObject({ format: "secret" });
  expect(shape({ type: "integer", minimum: 1, maximum: 9, unit: "ms" })).toEqual({
    kind: "number",
    whole: true,
    least: 1,
    most: 9,
    unit: "ms",
  });
});

test("references are followed, also those of a schema that contains itself", () => {
  const root: JsonObject = {
    $defs: { node: { type: "object", properties: { next: { $ref: "#/$defs/node" } } } },
    properties: { first: { $ref: "#/$defs/node", description: "the first" } },
    required: ["first"],
  };
  const whole = shape(root);
  const first = whole.kind === "object" ? whole.fields[0] : undefined;
  expect(first).toMatchObject({ name: "first", description: "the first", required: true });
  expect(initial(root, root)).toEqual({ first: {} });
  const loop: JsonObject = { $ref: "#" };
  expect(shape(loop).kind).toBe("json");
  const endless: JsonObject = {
    type: "object",
    properties: { again: { $ref: "#" } },
    required: ["again"],
  };
  expect(JSON.stringify(initial(endless, endless)).length).toBeLessThan(1_000);
});

test("a form begins with what is required and has a value, and says what is missing", () => {
  const root: JsonObject = {
    type: "object",
    required: ["city", "party", "kind", "guests"],
    properties: {
      city: { type: "string" },
      party: { type: "integer", default: 2 },
      kind: { const: "table" },
      note: { type: "string", default: "none" },
      guests: {
        type: "array",
        items: { type: "object", required: ["name"], properties: { name: { type: "string" } } },
      },
    },
  };
  expect(initial(root, root)).toEqual({ party: 2, kind: "table", guests: [] });
  expect(missing(root, { party: 2, kind: "table", guests: [{}, { name: "Ada" }] }, root)).toEqual([
    ["city"],
    ["guests", 0, "name"],
  ]);
});

test("the variant is the one that the value fits", () => {
  const root: JsonObject = {
    oneOf: [
      { properties: { by: { const: "phone" }, number: { type: "string" } }, required: ["by"] },
      { properties: { by: { const: "mail" } }, required: ["by"] },
    ],
  };
  const found = shape(root);
  if (found.kind !== "variants") throw new Error(found.kind);
  expect(found.variants.map((each) => each.label)).toEqual(["phone", "mail"]);
  expect(variantOf(found.variants, { by: "mail" }, root)).toBe(1);
  expect(variantOf(found.variants, 7, root)).toBe(0);
  const first = found.variants[0];
  expect(first && initial(first.schema, root)).toEqual({ by: "phone" });
});

test("a value is put at its place, and nothing else changes", () => {
  const whole = { a: { b: [1, 2, 3] }, c: true };
  expect(put(whole, ["a", "b", 1], 9)).toEqual({ a: { b: [1, 9, 3] }, c: true });
  expect(put(whole, ["a", "b", 0], undefined)).toEqual({ a: { b: [2, 3] }, c: true });
  expect(put(whole, ["c"], undefined)).toEqual({ a: { b: [1, 2, 3] } });
  expect(put(undefined, ["x", 0, "y"], null)).toEqual({ x: [{ y: null }] });
  expect(Object.keys(put({ z: 1, a: 2 }, ["z"], 3) ?? {})).toEqual(["z", "a"]);
  expect(whole).toEqual({ a: { b: [1, 2, 3] }, c: true });
});

test("names of a schema that objects have by themselves are ordinary names", () => {
  const root: JsonObject = JSON.parse(
    '{"type":"object","required":["constructor"],"properties":{"constructor":{"type":"string"},"__proto__":{"type":"string"}}}',
  );
  expect(missing(root, {}, root)).toEqual([["constructor"]]);
  const made = put({}, ["__proto__"], "text");
  expect(JSON.stringify(made)).toBe('{"__proto__":"text"}');
  expect(resolved({ $ref: "#/constructor" }, root)).toEqual({});
});

test("a moment has the zone of the machine, and comes back as it was", () => {
  expect(zoned("")).toBe("");
  const moment = zoned("2026-11-23T10:30");
  expect(moment).toMatch(/^2026-11-23T10:30:00[+-]\d\d:\d\d$/);
  expect(local(moment)).toBe("2026-11-23T10:30:00");
  expect(local("soon")).toBe("");
});
