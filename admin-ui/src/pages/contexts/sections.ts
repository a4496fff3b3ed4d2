// The parts of the file as the page lists them: each entry of a map of sections by itself, such as
// one context; every other section as a whole; and the single values at the top of the file.
import { at, dotted, isMapping, type Path } from "./outline.ts";
import { type Field, fieldsOf, kindOf, labelOf, type Root } from "./schema.ts";

export interface Part {
  /** In the address: `contexts.demo`; empty for the single values at the top. */
  readonly key: string;
  readonly path: Path;
  readonly label: string;
}

export interface Group {
  readonly name: string;
  readonly label: string;
  readonly field: Field | undefined;
  readonly parts: readonly Part[];
}

const FIRST = "contexts";

/** Maps of sections as groups of their own, contexts first; then one group with all the rest. */
export function groupsOf(root: Root, tree: unknown): Group[] {
  const fields = fieldsOf(root, root);
  const maps = fields.filter((each) => isMapOfSections(root, each));
  maps.sort((one, two) => Number(two.name === FIRST) - Number(one.name === FIRST));
  const rest = fields.filter((each) => !maps.includes(each) && !isSingle(root, each));
  return [
    ...maps.map((field) => ({
      name: field.name,
      label: labelOf(field.name, field.schema),
      field,
      parts: entriesOf(tree, field.name).map((name) => part([field.name, name], name)),
    })),
    {
      name: "",
      label: "",
      field: undefined,
      parts: [
        part([], ""),
        ...rest.map((each) => part([each.name], labelOf(each.name, each.schema))),
      ],
    },
  ];
}

/** The part in which a key is edited. */
export function partOf(groups: readonly Group[], path: Path): Part | undefined {
  const parts = groups.flatMap((each) => each.parts);
  const own = parts.filter((each) => each.path.length > 0 && startsWith(path, each.path));
  return own.at(-1) ?? (path.length === 1 ? parts.find((each) => each.key === "") : undefined);
}

/** The keys that a part shows. */
export function singleValues(root: Root): Field[] {
  return fieldsOf(root, root).filter((each) => isSingle(root, each));
}

function isSingle(root: Root, { schema }: Field): boolean {
  return !["section", "variant", "map", "list", "free"].includes(kindOf(root, schema).is);
}

function isMapOfSections(root: Root, { schema }: Field): boolean {
  const kind = kindOf(root, schema);
  return kind.is === "map" && ["section", "variant"].includes(kindOf(root, kind.values).is);
}

function entriesOf(tree: unknown, name: string): string[] {
  const entries = at(tree, [name]);
  return isMapping(entries) ? Object.keys(entries) : [];
}

function part(path: Path, label: string): Part {
  return { key: dotted(path), path, label };
}

function startsWith(path: Path, above: Path): boolean {
  return above.every((each, index) => path[index] === each);
}
