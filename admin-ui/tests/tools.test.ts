import { expect, test } from "vitest";
import {
  draftId,
  editsOf,
  fitsTransport,
  linesOf,
  problemsOf,
  serversOf,
} from "../src/pages/tools/server-form.ts";
import {
  exampleId,
  filtered,
  payloadKind,
  type Tool,
  toolLines,
} from "../src/pages/tools/tool-lines.ts";

const tool = (name: string, more: Partial<Tool> = {}): Tool => ({
  name,
  kind: "mcp",
  origin: `mcp:shop:${name}`,
  server: "shop",
  effects: "read_only",
  approval: "",
  description: "",
  parameters: {},
  offered: true,
  why_not: "",
  contexts: ["demo"],
  ...more,
});

test("the list joins tools with their counts, and filters by all words", () => {
  const counts = { calls: 9, ok: 5, errors: 2, timeouts: 1, refused: 1, cancelled: 0, cached: 0 };
  const used = { ...counts, tool: "book", p50_ms: 40, p95_ms: 90, longest_ms: 95 };
  const tools = [
    tool("book", { description: "Books a Table." }),
    tool("look", { server: "crm", contexts: [] }),
    tool("gone", { offered: false, contexts: [] }),
  ];
  const lines = toolLines(tools, [{ ...used, last_day: "2026-11-22" }]);
  expect(lines[0]).toMatchObject({ calls: 9, failures: 3, p95: 90, lastDay: "2026-11-22" });
  expect(lines[1]).toMatchObject({ calls: 0, failures: 0, p95: null });
  const names = (wanted: Parameters<typeof filtered>[1]) =>
    filtered(lines, wanted).map((each) => each.tool.name);
  expect(names({ q: "table book" })).toEqual(["book"]);
  expect(names({ q: "mcp:shop" })).toHaveLength(3);
  expect(names({ server: "crm" })).toEqual(["look"]);
  expect(names({ context: "demo" })).toEqual(["book"]);
  expect(names({ missing: true })).toEqual(["gone"]);
});

test("the payload of a provider is that of its brain, its type, or of the rules", () => {
  const kinds = ["pipeline", "openai_realtime", "openai"];
  const brain = (type: string) => ({ type: "pipeline", parts: [{ part: "brain", type }] });
  expect(payloadKind(brain("openai"), kinds)).toBe("openai");
  expect(payloadKind(brain("rules"), kinds)).toBe("pipeline");
  expect(payloadKind({ type: "openai_realtime", parts: [] }, kinds)).toBe("openai_realtime");
  expect(payloadKind(undefined, ["gemini"])).toBe("gemini");
});

test("ids are made of labels, and are not taken", () => {
  expect(exampleId("Rain in Ålesund!", [])).toBe("rain-in-a-lesund");
  expect(exampleId("…", ["example"])).toBe("example-2");
  expect(exampleId("a".repeat(99), [])).toMatch(/^a{34}$/);
  expect(draftId("shop_two", ["mcp-shop-two"])).toBe("mcp-shop-two-2");
});

test("a server is renamed and set, without the keys of the other transport", () => {
  const section = { transport: "http", url: "https://crm.example/mcp", command: ["node"], env: {} };
  expect(editsOf("shop", "crm", section)).toEqual([
    { op: "rename", path: ["mcp", "servers", "shop"], key: "crm" },
    {
      op: "set",
      path: ["mcp", "servers", "crm"],
      value: { transport: "http", url: "https://crm.example/mcp" },
    },
  ]);
  expect(editsOf("", "crm", {})).toHaveLength(1);
  expect(fitsTransport("command", {})).toBe(true);
  expect(fitsTransport("url", {})).toBe(false);
  expect(serversOf({ mcp: { servers: { shop: section, odd: null } } })).toEqual({ shop: section });
  expect(serversOf({})).toEqual({});
});

test("the engine's problems stand at their fields, those elsewhere at the top", () => {
  const at = (key: string, message: string, fatal = true) => ({
    ...{ file: "agent.yaml", line: 3, column: 1, end_line: 3, end_column: 9 },
    ...{ key, message, fatal },
  });
  const found = problemsOf("shop", [
    at("mcp.servers.shop.auth.token", "it is empty"),
    at("mcp.servers.shop.command[0]", "expected a text"),
    at("mcp.servers.shop", "needs `command`"),
    at("mcp.servers.shopping.url", "no URL"),
    at("mcp.servers.shop.url", "only a warning", false),
  ]);
  expect(Object.fromEntries(found)).toEqual({
    "auth.token": "it is empty",
    "command[0]": "expected a text",
    "": "needs `command`; mcp.servers.shopping.url: no URL",
  });
});

test("the lines of a server are those of its keys, however deep", () => {
  const text = "mcp:\n  servers:\n    shop:\n      env:\n        A: b\n    crm: {}\n";
  const places: Parameters<typeof linesOf>[1] = {
    "mcp.servers.shop": [3, 5, 3, 9],
    "mcp.servers.shop.env": [4, 7, 4, 10],
    "mcp.servers.shop.env.A": [5, 9, 5, 13],
    "mcp.servers.crm": [6, 5, 6, 12],
  };
  expect(linesOf(text, places, "shop")).toBe("shop:\n  env:\n    A: b");
  expect(linesOf(text, places, "sho")).toBe("");
});
