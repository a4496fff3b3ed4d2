// What can be chosen of a configuration, from its values as they are written.

/** Values of a configuration file: `tree` of the API. */
export type Tree = Readonly<Record<string, unknown>>;

export interface Subject {
  readonly contexts: readonly string[];
  /** The context that answers if none is chosen. */
  readonly usual: string;
  readonly providers: readonly string[];
  /** Extensions of Asterisk that may be called from a browser; patterns. */
  readonly extensions: readonly string[];
}

export function subjectOf(tree: Tree): Subject {
  const contexts = Object.keys(section(tree.contexts));
  const usual = typeof tree.default_context === "string" ? tree.default_context : "";
  const admin = section(section(tree.admin).ui);
  return {
    contexts,
    usual: contexts.includes(usual) ? usual : (contexts[0] ?? ""),
    providers: Object.keys(section(tree.providers)),
    extensions: texts(admin.extensions),
  };
}

/** Names of the channel variables that a context declares. */
export function variablesIn(tree: Tree, context: string): string[] {
  return texts(section(section(tree.contexts)[context]).variables);
}

/** Names of the tools of a context; patterns are left out. */
export function toolsIn(tree: Tree, context: string): string[] {
  const named = texts(section(section(tree.contexts)[context]).tools);
  return named.filter((name) => !name.includes("*"));
}

function section(value: unknown): Tree {
  return typeof value === "object" && value !== null && !Array.isArray(value)
    ? Object.fromEntries(Object.entries(value))
    : {};
}

function texts(value: unknown): string[] {
  return Array.isArray(value) ? value.filter((each) => typeof each === "string") : [];
}
