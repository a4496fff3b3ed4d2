/** The greeting of the first of these contexts that has one in the file's tree. */
export function greetingOf(tree: unknown, contexts: readonly string[]): string | undefined {
  const sections = child(tree, "contexts");
  return contexts.map((each) => child(child(sections, each), "greeting")).find(isText);
}

const isText = (value: unknown): value is string => typeof value === "string" && value !== "";

function child(value: unknown, key: string): unknown {
  if (typeof value !== "object" || value === null || !Object.hasOwn(value, key)) return undefined;
  return Reflect.get(value, key);
}
