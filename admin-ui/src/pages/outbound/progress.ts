// How far the people of a campaign are, from the engine's counts.

/** States and outcomes, as `people` of a campaign counts them, in the order of the page. */
export const WHATS = [
  "answered",
  "busy",
  "no_answer",
  "declined",
  "unavailable",
  "unknown_number",
  "redirected",
  "cancelled",
  "not_called",
  "refused",
  "failed",
  "interrupted",
  "dialling",
  "claimed",
  "pending",
] as const;
export type What = (typeof WHATS)[number];

/** `open`: not called to the end; `bad`: by a fault of ours, or by a rule. */
export type Kind = "good" | "missed" | "bad" | "live" | "open";

const BAD: readonly string[] = ["refused", "failed", "interrupted"];

export interface Part {
  what: string;
  count: number;
  kind: Kind;
}

export interface Progress {
  total: number;
  /** People who are not called any more. */
  done: number;
  waiting: number;
  /** Those of whom there is at least one. */
  parts: readonly Part[];
}

export function progressOf(people: Readonly<Record<string, number>>): Progress {
  const place = (what: string) => {
    const at = (WHATS as readonly string[]).indexOf(what);
    return at < 0 ? WHATS.indexOf("dialling") : at; // an outcome of a newer engine
  };
  const parts = Object.entries(people)
    .filter(([, count]) => count > 0)
    .map(([what, count]) => ({ what, count, kind: kindOf(what) }))
    .sort((one, other) => place(one.what) - place(other.what));
  const count = (...kinds: Kind[]) =>
    parts.reduce((sum, part) => sum + (kinds.includes(part.kind) ? part.count : 0), 0);
  return {
    total: count("good", "missed", "bad", "live", "open"),
    done: count("good", "missed", "bad"),
    waiting: count("open"),
    parts,
  };
}

function kindOf(what: string): Kind {
  if (what === "pending" || what === "claimed") return "open";
  if (what === "dialling") return "live";
  if (what === "answered") return "good";
  return BAD.includes(what) ? "bad" : "missed";
}

/** The state that people see: a campaign is finished when nobody waits any more. */
export function stateOf(
  campaign: { state: "paused" | "running" | "cancelled" },
  { total, done }: Progress,
): "paused" | "running" | "cancelled" | "finished" {
  const { state } = campaign;
  return state !== "cancelled" && total > 0 && done === total ? "finished" : state;
}
