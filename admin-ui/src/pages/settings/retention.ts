// How long things are kept, from the values of the configuration file.
export interface Kept {
  what: "calls" | "audit" | "recordings";
  /** The context, of recordings. */
  context: string;
  /** The key in the file. */
  key: string;
  /** Days, or months for the audit; 0: for ever. */
  count: number;
}

type Tree = Readonly<Record<string, unknown>>;

/** Reads `calls.keep_days`, `admin.ui.audit_months` and each context's `recording.keep_days`. */
export function keptFor(tree: Tree): Kept[] {
  const kept: Kept[] = [
    {
      what: "calls",
      context: "",
      key: "calls.keep_days",
      count: count(tree, "calls", "keep_days"),
    },
    {
      what: "audit",
      context: "",
      key: "admin.ui.audit_months",
      count: count(tree, "admin", "ui", "audit_months"),
    },
  ];
  const contexts = inside(tree, "contexts");
  for (const context of isTree(contexts) ? Object.keys(contexts) : []) {
    const days = count(tree, "contexts", context, "recording", "keep_days");
    const key = `contexts.${context}.recording.keep_days`;
    if (days > 0) kept.push({ what: "recordings", context, key, count: days });
  }
  return kept;
}

function isTree(value: unknown): value is Tree {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function inside(tree: unknown, ...path: string[]): unknown {
  return path.reduce<unknown>((value, key) => (isTree(value) ? value[key] : undefined), tree);
}

function count(tree: Tree, ...path: string[]): number {
  const value = Number(inside(tree, ...path));
  return Number.isFinite(value) && value > 0 ? value : 0;
}
