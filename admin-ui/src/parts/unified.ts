// Reads a unified diff, as the engine gives it.
export interface DiffLine {
  kind: "same" | "added" | "removed" | "gap";
  /** Number in the old text; null where the line is not in it. */
  old: number | null;
  new: number | null;
  text: string;
}

const HUNK = /^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@/;

/** The lines with their numbers; between two parts of the text stands a gap. */
export function parseUnified(lines: readonly string[]): DiffLine[] {
  const parsed: DiffLine[] = [];
  let [before, after, inside] = [0, 0, false];
  for (const line of lines) {
    const hunk = HUNK.exec(line);
    if (hunk) {
      if (inside) parsed.push({ kind: "gap", old: null, new: null, text: "" });
      [before, after, inside] = [Number(hunk[1]), Number(hunk[2]), true];
      continue;
    }
    if (!inside) continue; // the names of the files
    const text = line.slice(1);
    if (line.startsWith("+")) parsed.push({ kind: "added", old: null, new: after++, text });
    else if (line.startsWith("-")) parsed.push({ kind: "removed", old: before++, new: null, text });
    else if (!line.startsWith("\\")) {
      parsed.push({ kind: "same", old: before++, new: after++, text });
    }
  }
  return parsed;
}
