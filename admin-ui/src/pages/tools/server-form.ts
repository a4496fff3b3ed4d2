// What the form of an MCP server shows, and the edits of the configuration that it makes. Pure.
import type { components } from "../../api/generated.ts";
import { isObject, type JsonObject, own, type Path } from "./schema.ts";

export type Edit = components["schemas"]["Edits"]["edits"][number];
type Problem = components["schemas"]["Problem"];

const LOCAL = ["command", "env", "cwd"];
const REMOTE = ["url", "headers", "auth", "plain_http"];
/** The keys that most servers need; the others are folded. */
export const ESSENTIAL = ["transport", ...LOCAL, ...REMOTE, "start", "required", "enabled"];
export const SERVER_NAME = /^[a-z][a-z0-9_]{0,40}$/;

/** The keys that a server with this transport may have. */
export function fitsTransport(key: string, section: JsonObject): boolean {
  const remote = (own(section, "transport") ?? "stdio") !== "stdio";
  return !(remote ? LOCAL : REMOTE).includes(key);
}

/** The section without the keys of the other transport, which the engine would refuse. */
export function cleaned(section: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(section).filter(([key]) => fitsTransport(key, section)));
}

/** The sections of the servers, as the file has them. */
export function serversOf(tree: unknown): Record<string, JsonObject> {
  const mcp = isObject(tree) ? own(tree, "mcp") : undefined;
  const servers = isObject(mcp) ? own(mcp, "servers") : undefined;
  if (!isObject(servers)) return {};
  return Object.fromEntries(
    Object.entries(servers).flatMap(([name, each]) =>
      isObject(each) ? [[name, each] as const] : [],
    ),
  );
}

/**
 * The edits that give a server this name and section. `before` is its name in the file; empty for a
 * new one. The engine compares the section with the one in the file: only what differs is written.
 */
export function editsOf(before: string, name: string, section: JsonObject): Edit[] {
  const edits: Edit[] = [];
  if (before && before !== name) {
    edits.push({ op: "rename", path: ["mcp", "servers", before], key: name });
  }
  edits.push({ op: "set", path: ["mcp", "servers", name], value: cleaned(section) });
  return edits;
}

/** The problems with a server's section, by the dotted path within it; others under "". */
export function problemsOf(name: string, problems: readonly Problem[]): Map<string, string> {
  const prefix = `mcp.servers.${name}`;
  const found = new Map<string, string>();
  for (const { key, message, fatal } of problems) {
    if (!fatal) continue;
    const own = key === prefix || key.startsWith(`${prefix}.`) || key.startsWith(`${prefix}[`);
    const place = own ? key.slice(prefix.length).replace(/^\./, "") : "";
    const before = found.get(place);
    const text = own ? message : `${key}: ${message}`;
    found.set(place, before === undefined ? text : `${before}; ${text}`);
  }
  return found;
}

/** A path as the engine writes it: `auth.token`, `tools[0].name`. */
export function dotted(path: Path): string {
  return path.reduce<string>(
    (before, part) =>
      typeof part === "number" ? `${before}[${part}]` : before ? `${before}.${part}` : part,
    "",
  );
}

/** An id for a draft that no other one has. */
export function draftId(server: string, taken: readonly string[]): string {
  const begin = `mcp-${server.replaceAll("_", "-")}`.replace(/-+$/, "").slice(0, 56);
  for (let number = 1; ; number++) {
    const id = number === 1 ? begin : `${begin}-${number}`;
    if (!taken.includes(id)) return id;
  }
}

type Places = components["schemas"]["Edited"]["places"];

/** The lines of a server in a text of the file, as far to the left as they go. */
export function linesOf(text: string, places: Places, name: string): string {
  const key = `mcp.servers.${name}`;
  const inside = Object.entries(places).filter(
    ([each]) => each === key || each.startsWith(`${key}.`) || each.startsWith(`${key}[`),
  );
  if (inside.length === 0) return "";
  const first = Math.min(...inside.map(([, place]) => place[0]));
  const last = Math.max(...inside.map(([, place]) => place[2]));
  const lines = text.split(/\r?\n/).slice(first - 1, last);
  const indents = lines.filter((line) => line.trim() !== "").map((line) => line.search(/\S/));
  const indent = Math.min(...indents);
  return lines.map((line) => line.slice(indent)).join("\n");
}
