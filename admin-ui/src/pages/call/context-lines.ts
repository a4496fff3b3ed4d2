// The lines of one context in the text of a configuration. Pure.

export interface ContextLines {
  /** Number of the first line, from 1. */
  readonly first: number;
  readonly lines: readonly string[];
}

/**
 * Find a context by the indentation of its lines. Undefined if it is written in another way, such as
 * in braces; the file is valid all the same.
 */
export function contextLines(text: string, context: string): ContextLines | undefined {
  const lines = text.split("\n");
  const root = lines.findIndex((line) => /^contexts:\s*(#.*)?$/.test(line));
  if (root < 0) return undefined;
  const names = [`${context}:`, `"${context}":`, `'${context}':`];
  for (let at = root + 1; at < lines.length; at += 1) {
    const line = lines[at] ?? "";
    if (isBlank(line)) continue;
    const depth = indent(line);
    if (depth === 0) return undefined;
    const name = names.find((each) => line.trimStart().startsWith(each));
    if (!name) continue;
    const end = lines.findIndex(
      (each, index) => index > at && !isBlank(each) && indent(each) <= depth,
    );
    const found = lines.slice(at, end < 0 ? lines.length : end);
    while (found.length > 1 && isBlank(found.at(-1) ?? "")) found.pop();
    return { first: at + 1, lines: found };
  }
  return undefined;
}

function indent(line: string): number {
  return line.length - line.trimStart().length;
}

function isBlank(line: string): boolean {
  return /^\s*(#.*)?$/.test(line);
}
