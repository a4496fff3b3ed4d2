// The rows of the list of tools: each tool with what calls made of it in the last days. Pure.
import type { components } from "../../api/generated.ts";
import type { Search } from "./search.ts";

type Schemas = components["schemas"];
export type Tool = Schemas["Tool"];
export type Totals = Schemas["ToolTotals"];

export interface ToolLine {
  tool: Tool;
  calls: number;
  /** Errors and timeouts. */
  failures: number;
  p50: number | null;
  p95: number | null;
  /** ISO date; empty if it was not used. */
  lastDay: string;
}

export function toolLines(tools: readonly Tool[], totals: readonly Totals[]): ToolLine[] {
  const used = new Map(totals.map((each) => [each.tool, each]));
  return tools.map((tool) => {
    const counts = used.get(tool.name);
    return {
      tool,
      calls: counts?.calls ?? 0,
      failures: counts ? counts.errors + counts.timeouts : 0,
      p50: counts ? counts.p50_ms : null,
      p95: counts ? counts.p95_ms : null,
      lastDay: counts?.last_day ?? "",
    };
  });
}

export function filtered(lines: readonly ToolLine[], wanted: Search): ToolLine[] {
  const words = (wanted.q ?? "").toLowerCase().split(/\s+/).filter(Boolean);
  return lines.filter(({ tool }) => {
    const text = `${tool.name} ${tool.origin} ${tool.description}`.toLowerCase();
    return (
      words.every((word) => text.includes(word)) &&
      (wanted.kind === undefined || tool.kind === wanted.kind) &&
      (wanted.server === undefined || tool.server === wanted.server) &&
      (wanted.effects === undefined || tool.effects === wanted.effects) &&
      (wanted.context === undefined || tool.contexts.includes(wanted.context)) &&
      (!wanted.missing || !tool.offered)
    );
  });
}

/** The values of a filter that some tool has, in order. */
export function valuesOf(tools: readonly Tool[], of: (tool: Tool) => readonly string[]): string[] {
  return [...new Set(tools.flatMap(of))]
    .filter(Boolean)
    .sort((one, other) => one.localeCompare(other));
}

type ProviderPart = Pick<Schemas["ProviderPart"], "part" | "type">;

/**
 * The kind whose payload the model of a provider gets: its type, of a pipeline that of its brain,
 * or the limits of `pipeline` where neither has its own.
 */
export function payloadKind(
  provider: { type: string; parts: readonly ProviderPart[] } | undefined,
  kinds: readonly string[],
): string | undefined {
  const brain = provider?.parts.find((each) => each.part === "brain");
  const wanted = [brain?.type, provider?.type, "pipeline"];
  return wanted.find((each) => each !== undefined && kinds.includes(each)) ?? kinds[0];
}

/** An id for a saved example that no other one has: from its label, or a number. */
export function exampleId(label: string, taken: readonly string[]): string {
  const plain = label
    .normalize("NFKD")
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "-");
  const begin = plain.replace(/^-+|-+$/g, "").slice(0, 34) || "example";
  for (let number = 1; ; number++) {
    const id = number === 1 ? begin : `${begin}-${number}`;
    if (!taken.includes(id)) return id;
  }
}
