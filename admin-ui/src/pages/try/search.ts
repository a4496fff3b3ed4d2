// The state of the page in its address: what is tried, as whom, and with which tools.

export const TOOL_MODES = ["real", "read_only", "canned"] as const;
export type ToolMode = (typeof TOOL_MODES)[number];

export interface Search {
  /** A written conversation if it is left out. */
  mode?: "call";
  /** A saved draft of one's own, or a version by its digest; neither: the one in force. */
  draft?: string;
  version?: string;
  context?: string;
  provider?: string;
  /** `real` if it is left out. */
  tools?: Exclude<ToolMode, "real">;
  /** Extension of Asterisk's dialplan, `EXTENSION@CONTEXT`, through which a call goes. */
  via?: string;
  number?: string;
  name?: string;
  variables?: Record<string, string>;
}

/** Take the parameters that make sense, and drop the others. */
export function search(raw: Record<string, unknown>): Search {
  const found: Search = {};
  if (raw.mode === "call") found.mode = "call";
  for (const key of ["draft", "version", "context", "provider", "via", "number", "name"] as const) {
    const text = textOf(raw[key]);
    if (text) found[key] = text;
  }
  if (found.draft) delete found.version;
  if (raw.tools === "read_only" || raw.tools === "canned") found.tools = raw.tools;
  const given = typeof raw.variables === "object" && raw.variables !== null ? raw.variables : {};
  const variables = Object.entries(given)
    .map(([name, value]) => [name, textOf(value)] as const)
    .filter(([, value]) => value);
  if (variables.length > 0) found.variables = Object.fromEntries(variables);
  return found;
}

/** A number in an address, such as a caller's, is read as a number: take it as text. */
function textOf(value: unknown): string {
  return typeof value === "string" || typeof value === "number" ? String(value) : "";
}
