// Differences of values, in words.
import { at, dotted, isMapping, type Path } from "./outline.ts";

export type ValueChange =
  | { readonly kind: "changed" }
  /** The value, if it is short. */
  | { readonly kind: "added" | "removed"; readonly value: string }
  | { readonly kind: "value"; readonly before: string; readonly after: string }
  | {
      readonly kind: "items";
      readonly added: readonly string[];
      readonly removed: readonly string[];
    };

const MOST_SHOWN = 80;

/** How the value of a key differs; short values and items of lists are named. */
export function valueChange(key: string, before: unknown, after: unknown): ValueChange {
  const path = pathOf(after, key) ?? pathOf(before, key);
  if (!path) return { kind: "changed" };
  const [old, now] = [at(before, path), at(after, path)];
  if (now === undefined) return { kind: "removed", value: isShort(old) ? String(old) : "" };
  if (old === undefined) return { kind: "added", value: isShort(now) ? String(now) : "" };
  if (Array.isArray(old) && Array.isArray(now) && [...old, ...now].every(isShort)) {
    const [was, is] = [old.map(String), now.map(String)];
    return {
      kind: "items",
      added: is.filter((each) => !was.includes(each)),
      removed: was.filter((each) => !is.includes(each)),
    };
  }
  if (isShort(old) && isShort(now))
    return { kind: "value", before: String(old), after: String(now) };
  return { kind: "changed" };
}

/** The path of a key in the engine's writing. */
export function pathOf(tree: unknown, key: string, above: Path = []): Path | undefined {
  const parts = Array.isArray(tree) ? [...tree.keys()] : isMapping(tree) ? Object.keys(tree) : [];
  for (const part of parts) {
    const path = [...above, part];
    const here = dotted(path);
    if (here === key) return path;
    if (!key.startsWith(`${here}.`) && !key.startsWith(`${here}[`)) continue;
    const found = pathOf(at(tree, [part]), key, path);
    if (found) return found;
  }
  return undefined;
}

function isShort(value: unknown): boolean {
  return (
    ["string", "number", "boolean"].includes(typeof value) &&
    String(value).length <= MOST_SHOWN &&
    !String(value).includes("\n")
  );
}
