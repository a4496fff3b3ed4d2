// Two people have changed the file: the merged text, with each conflict as the person decides.

export interface Conflict {
  /** Line in the merged text, from 1, where our lines stand. */
  readonly at: number;
  /** Line in the text that both began with. */
  readonly line: number;
  readonly base: string;
  readonly ours: string;
  readonly theirs: string;
}

export type Side = "ours" | "theirs" | "both";

/** The engine's merged text, which has our lines in all conflicts, with the chosen lines there. */
export function decided(
  withOurs: string,
  conflicts: readonly Conflict[],
  sides: readonly (Side | undefined)[],
): string {
  const lines = linesOf(withOurs);
  for (const [index, each] of [...conflicts.entries()].reverse()) {
    const side = sides[index] ?? "ours";
    const taken = side === "ours" ? each.ours : side === "theirs" ? each.theirs : both(each);
    lines.splice(each.at - 1, linesOf(each.ours).length, ...linesOf(taken));
  }
  return lines.join("");
}

function both({ ours, theirs }: Conflict): string {
  return theirs && !theirs.endsWith("\n") ? `${theirs}\n${ours}` : theirs + ours;
}

/** Lines with their ends, as the engine counts them (`str.splitlines`). */
function linesOf(text: string): string[] {
  return (
    text
      .match(/[^\n\r\v\f\x85\u2028\u2029]*(?:\r\n|[\n\r\v\f\x85\u2028\u2029]|$)/g)
      ?.filter(Boolean) ?? []
  );
}
