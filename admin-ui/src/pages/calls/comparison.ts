// Two calls side by side, by their numbers.
import type { components } from "../../api/generated.ts";
import { median, type Stage } from "../../conversation/waits.ts";

type CallRecord = components["schemas"]["CallRecord"];

export type Measure =
  | "context"
  | "provider"
  | "config"
  | "end"
  | "duration"
  | "turns"
  | "interruptions"
  | "wait_median"
  | "wait_longest"
  | Stage
  | "tools"
  | "tools_failed"
  | "tool_longest"
  | "silences"
  | "troubles"
  | "cost";

export type Kind = "text" | "ms" | "count" | "money";

export interface Compared {
  measure: Measure;
  kind: Kind;
  one: string | number | null;
  other: string | number | null;
}

const largest = (values: readonly number[]) => (values.length ? Math.max(...values) : null);

function numbersOf(call: CallRecord): Record<Measure, string | number | null> {
  const { row, turns, tools, marks } = call;
  const waits = turns.flatMap((turn) => turn.answer_ms ?? turn.waited.total ?? []);
  const stage = (name: Stage) => median(turns.flatMap((turn) => turn.waited[name] ?? []));
  const ran = tools.flatMap((use) => (use.end_ms === null ? [] : use.end_ms - use.begin_ms));
  return {
    context: row.context,
    provider: row.provider,
    config: row.config,
    end: [row.outcome, row.reason].filter(Boolean).join(": "),
    duration: row.duration_ms,
    turns: row.turns,
    interruptions: row.interruptions,
    wait_median: median(waits),
    wait_longest: largest(waits),
    endpoint: stage("endpoint"),
    stt: stage("stt"),
    brain: stage("brain"),
    tts: stage("tts"),
    wire: stage("wire"),
    tools: tools.length,
    tools_failed: tools.filter((use) => ["error", "timeout"].includes(use.status)).length,
    tool_longest: largest(ran),
    silences: marks.filter((mark) => mark.kind === "silence").length,
    troubles: call.troubles.length,
    cost: row.cost,
  };
}

const KINDS: Record<Measure, Kind> = {
  context: "text",
  provider: "text",
  config: "text",
  end: "text",
  duration: "ms",
  turns: "count",
  interruptions: "count",
  wait_median: "ms",
  wait_longest: "ms",
  endpoint: "ms",
  stt: "ms",
  brain: "ms",
  tts: "ms",
  wire: "ms",
  tools: "count",
  tools_failed: "count",
  tool_longest: "ms",
  silences: "count",
  troubles: "count",
  cost: "money",
};

/** All measures of two calls, in the order of the page. */
export function compared(one: CallRecord, other: CallRecord): Compared[] {
  const first = numbersOf(one);
  const second = numbersOf(other);
  return (Object.keys(KINDS) as Measure[]).map((measure) => ({
    measure,
    kind: KINDS[measure],
    one: first[measure],
    other: second[measure],
  }));
}

/** How much more the other call has; null where that means nothing. */
export function difference({ kind, one, other }: Compared): number | null {
  if (kind === "text" || typeof one !== "number" || typeof other !== "number") return null;
  return other - one;
}
