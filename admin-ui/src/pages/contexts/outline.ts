// Where each key of the configuration is written: from a key to its lines, and from a line to its
// key. The engine gives the first line of each key; how far its block reaches is computed here.

export type Path = readonly (string | number)[];

/** Line, column, end line, end column; from 1, columns in code points. */
export type Place = readonly number[];

export interface Block {
  readonly path: Path;
  readonly key: string;
  readonly from: number;
  readonly column: number;
  /** Last line of the value; comments and blank lines below it do not belong to it. */
  readonly to: number;
}

/** The engine's name of a path: `["contexts", "demo", "tools", 2]` is `contexts.demo.tools[2]`. */
export function dotted(path: Path): string {
  let text = "";
  for (const part of path)
    text += typeof part === "number" ? `[${part}]` : text ? `.${part}` : part;
  return text;
}

export function at(tree: unknown, path: Path): unknown {
  let value = tree;
  for (const part of path) {
    if (Array.isArray(value)) value = typeof part === "number" ? value[part] : undefined;
    else if (isMapping(value)) value = Object.hasOwn(value, part) ? value[part] : undefined;
    else return undefined;
  }
  return value;
}

export function isMapping(value: unknown): value is Record<string | number, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Blocks of all keys and items, in the order of the text. */
export function outline(
  tree: unknown,
  places: Readonly<Record<string, Place>>,
  text: string,
): Block[] {
  const lines = text.split(/\r?\n/);
  const starts = [...walk(tree, [])]
    .flatMap((path) => {
      const key = dotted(path);
      const [from, column] = places[key] ?? [];
      return from === undefined || column === undefined ? [] : [{ path, key, from, column }];
    })
    .sort((one, two) => one.from - two.from || one.column - two.column);
  const blocks: Block[] = [];
  const open: ((typeof starts)[number] & { index: number })[] = [];
  const close = (before: number) => {
    const top = open.pop();
    if (top) blocks[top.index] = { ...block(top), to: lastLine(lines, top.from, before) };
  };
  for (const [index, start] of starts.entries()) {
    while (open.length && !within(start.path, open[open.length - 1]?.path ?? [])) {
      close(start.from - 1);
    }
    open.push({ ...start, index });
  }
  while (open.length) close(lines.length);
  return blocks;
}

/** The deepest key that is written at a position; undefined outside of all. */
export function blockAt(blocks: readonly Block[], line: number, column: number): Block | undefined {
  const around = blocks.filter((each) => each.from <= line && line <= each.to);
  const begun = around.filter((each) => each.from < line || each.column <= column);
  const firstOfLine = around.find((each) => each.from === line);
  const deepest = begun.at(-1);
  if (firstOfLine && (!deepest || deepest.from < line)) return firstOfLine;
  return deepest;
}

/** The block of a key, or of the nearest key above it that is written. */
export function blockOf(blocks: readonly Block[], path: Path): Block | undefined {
  for (let length = path.length; length > 0; length--) {
    const key = dotted(path.slice(0, length));
    const found = blocks.find((each) => each.key === key);
    if (found) return found;
  }
  return undefined;
}

/** Index in a line of a column that counts code points from 1, as the engine does. */
export function indexOfColumn(line: string, column: number): number {
  let index = 0;
  for (const character of line) {
    if (--column < 1) break;
    index += character.length;
  }
  return index;
}

export function columnOfIndex(line: string, index: number): number {
  return [...line.slice(0, index)].length + 1;
}

export function within(path: Path, above: Path): boolean {
  return above.length <= path.length && above.every((part, index) => part === path[index]);
}

function block({ path, key, from, column }: Omit<Block, "to">) {
  return { path, key, from, column };
}

function lastLine(lines: readonly string[], from: number, before: number): number {
  let last = Math.max(from, before);
  while (last > from && /^\s*(#.*)?$/.test(lines[last - 1] ?? "")) last--;
  return last;
}

function* walk(value: unknown, path: Path): Generator<Path> {
  const entries = Array.isArray(value)
    ? value.entries()
    : isMapping(value)
      ? Object.entries(value)
      : [];
  for (const [part, inner] of entries) {
    yield [...path, part];
    yield* walk(inner, [...path, part]);
  }
}
