// The configuration page's logic: where keys stand, which control a value gets, what a draft asks
// the engine and when, and how conflicts are decided.

import { EditorState } from "@codemirror/state";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { valueChange } from "../src/pages/contexts/diff.ts";
import {
  type Checked,
  type Desk,
  Draft,
  type Edit,
  type Edited,
} from "../src/pages/contexts/draft.ts";
import { yamlBase } from "../src/pages/contexts/editor.ts";
import { decided } from "../src/pages/contexts/merge.ts";
import {
  blockAt,
  blockOf,
  columnOfIndex,
  indexOfColumn,
  outline,
} from "../src/pages/contexts/outline.ts";
import {
  fieldsOf,
  kindOf,
  labelOf,
  newValue,
  type Root,
  schemaAt,
} from "../src/pages/contexts/schema.ts";
import { search } from "../src/pages/contexts/search.ts";

const TEXT = `# top
contexts:
  demo:
    prompt: |
      One.

      Two.
    tools: [hangup, transfer]   # flow

# about sales
  sales: {greeting: Hello, provider: local}
routes:
  "45.12": demo
`;
const TREE = {
  contexts: {
    demo: { prompt: "One.\n\nTwo.\n", tools: ["hangup", "transfer"] },
    sales: { greeting: "Hello", provider: "local" },
  },
  routes: { "45.12": "demo" },
};
const PLACES = {
  contexts: [2, 1, 2, 9],
  "contexts.demo": [3, 3, 3, 7],
  "contexts.demo.prompt": [4, 5, 4, 11],
  "contexts.demo.tools": [8, 5, 8, 30],
  "contexts.demo.tools[0]": [8, 13, 8, 19],
  "contexts.demo.tools[1]": [8, 21, 8, 29],
  "contexts.sales": [11, 3, 11, 44],
  "contexts.sales.greeting": [11, 11, 11, 26],
  "contexts.sales.provider": [11, 28, 11, 43],
  routes: [12, 1, 12, 7],
  "routes.45.12": [13, 3, 13, 16],
};

describe("outline", () => {
  const blocks = outline(TREE, PLACES, TEXT);
  test.each([
    [1, 1, undefined],
    [2, 3, "contexts"],
    [3, 1, "contexts.demo"],
    [6, 1, "contexts.demo.prompt"],
    [8, 1, "contexts.demo.tools"],
    [8, 14, "contexts.demo.tools[0]"],
    [8, 25, "contexts.demo.tools[1]"],
    [9, 1, "contexts"],
    [11, 12, "contexts.sales.greeting"],
    [11, 30, "contexts.sales.provider"],
    [13, 9, "routes.45.12"],
  ])("line %i, column %i belongs to %s", (line, column, key) => {
    expect(blockAt(blocks, line, column)?.key).toBe(key);
  });
  test("a block reaches to its last line, without what stands below it", () => {
    const lines = (path: (string | number)[]) => {
      const found = blockOf(blocks, path);
      return found && [found.from, found.to];
    };
    expect(lines(["contexts", "demo", "prompt"])).toEqual([4, 7]);
    expect(lines(["contexts", "demo"])).toEqual([3, 8]);
    expect(lines(["contexts"])).toEqual([2, 11]);
    expect(lines(["routes", "45.12"])).toEqual([13, 13]);
    expect(lines(["contexts", "demo", "greeting"]), "not written: its section").toEqual([3, 8]);
  });
  test("columns count code points", () => {
    expect(indexOfColumn("a😀b", 3)).toBe(3);
    expect(columnOfIndex("a😀b", 3)).toBe(3);
    expect(indexOfColumn("ab", 9)).toBe(2);
  });
});

const ROOT: Root = {
  $ref: "#/$defs/Config",
  $defs: {
    Config: {
      type: "object",
      properties: {
        contexts: {
          type: "object",
          patternProperties: { "^[a-z]+$": { $ref: "#/$defs/Context" } },
        },
        port: { type: "integer", minimum: 1, maximum: 9, order: 0 },
        agents: {
          type: "object",
          patternProperties: {
            "^[a-z]+$": {
              kind_key: "type",
              oneOf: [{ $ref: "#/$defs/Loud" }, { $ref: "#/$defs/Calm" }],
            },
          },
        },
      },
    },
    Context: {
      type: "object",
      properties: {
        rules: { anyOf: [{ $ref: "#/$defs/Rules" }, { type: "null" }], default: null, order: 1 },
        wait_ms: { type: "integer", unit: "ms", order: 0 },
      },
    },
    Rules: { type: "object", required: ["title"], properties: { title: { type: "string" } } },
    Loud: { type: "object", properties: { type: { const: "loud" }, gain: { type: "number" } } },
    Calm: {
      type: "object",
      required: ["type", "pace"],
      properties: { type: { const: "calm" }, pace: { enum: ["slow", "slower"] } },
    },
  },
};

describe("editor", () => {
  test.each([
    ["a: 1\nb: 2\n", "\n"],
    ["a: 1\r\nb: 2\r\n", "\r\n"],
    ["a: 1\r\nb: 2\nc: 3", "\n"], // each line keeps the end that it has
  ])("keeps the line ends of %j", (text, end) => {
    vi.stubGlobal("document", { querySelector: () => null }); // it has the nonce
    const state = EditorState.create({ doc: text, extensions: yamlBase("", text) });
    expect(state.sliceDoc()).toBe(text);
    const typed = state.update({ changes: { from: 0, insert: state.toText(`z: 0${end}`) } }).state;
    expect(typed.sliceDoc()).toBe(`z: 0${end}${text}`);
    vi.unstubAllGlobals();
  });
});

describe("schema", () => {
  test("each shape has its control", () => {
    const kind = (path: string[], tree: unknown = {}) => {
      const found = schemaAt(ROOT, tree, path);
      return found && kindOf(ROOT, found);
    };
    expect(kind(["port"])).toEqual({ is: "number", whole: true, minimum: 1, maximum: 9 });
    expect(kind(["contexts"])).toMatchObject({ is: "map", names: /^[a-z]+$/u });
    expect(kind(["contexts", "a", "rules"])).toMatchObject({ is: "section" });
    expect(kind(["contexts", "a", "rules", "title"])).toEqual({ is: "text" });
    expect(kind(["contexts", "a", "nonsense"])).toBeUndefined();
    const agents = { agents: { x: { type: "calm" } } };
    expect(kind(["agents", "x", "pace"], agents)).toMatchObject({ values: ["slow", "slower"] });
    expect(kind(["agents", "x", "gain"], agents)).toBeUndefined();
  });
  test("a new entry has what it cannot do without", () => {
    const agent = schemaAt(ROOT, {}, ["agents", "x"]) ?? {};
    expect(newValue(ROOT, agent, "calm")).toEqual({ type: "calm", pace: "slow" });
    expect(newValue(ROOT, agent)).toEqual({ type: "loud" });
    expect(newValue(ROOT, schemaAt(ROOT, {}, ["contexts", "a", "rules"]) ?? {})).toEqual({
      title: "",
    });
  });
  test("keys keep the engine's order, and units are not said twice", () => {
    const fields = fieldsOf(ROOT, schemaAt(ROOT, {}, ["contexts", "a"]) ?? {});
    expect(fields.map((each) => each.name)).toEqual(["wait_ms", "rules"]);
    expect(fields.map((each) => labelOf(each.name, each.schema))).toEqual(["Wait", "Rules"]);
  });
});

function verdict(words: string): Checked {
  return {
    in_order: true,
    problems: [],
    changes: [],
    tree: { words },
    places: { words: [1, 1, 1, 6] },
  };
}

class FakeDesk implements Desk {
  asked: string[] = [];
  answer: (() => void)[] = [];
  failure: Error | undefined;
  check = (text: string) =>
    this.#later(
      `check ${text}`,
      text === "[" ? { ...verdict(text), tree: {}, places: {} } : verdict(text),
    );
  edit = (text: string, _base: string, edits: Edit[]) => {
    const made = edits.reduce(
      (now, each) => ("value" in each ? `${now}+${each.value}` : now),
      text,
    );
    return this.#later<Edited>(`edit ${text}`, { ...verdict(made), text: made, touched: [[1, 1]] });
  };
  save = async (text: string) => {
    this.asked.push(`save ${text}`);
    return { stale: false };
  };
  #later<T>(what: string, value: T): Promise<T> {
    this.asked.push(what);
    const { failure } = this;
    return new Promise((done, fail) =>
      this.answer.push(() => (failure ? fail(failure) : done(value))),
    );
  }
  async next(): Promise<void> {
    this.answer.shift()?.();
    await vi.advanceTimersByTimeAsync(0);
  }
}

const set = (path: string[], value: string): Edit => ({ op: "set", path, value });

describe("draft", () => {
  let desk: FakeDesk;
  let draft: Draft;
  beforeEach(() => {
    vi.useFakeTimers();
    desk = new FakeDesk();
    const begin = {
      text: "a",
      original: "a",
      base: "b".repeat(64),
      verdict: verdict("a"),
      stale: false,
    };
    draft = new Draft(desk, begin, (error) => error instanceof TypeError);
  });
  afterEach(() => {
    draft.close();
    vi.useRealTimers();
  });

  test("typing is checked once it pauses, and only the last text counts", async () => {
    draft.typed("ab");
    await vi.advanceTimersByTimeAsync(200);
    draft.typed("abc");
    await vi.advanceTimersByTimeAsync(249);
    expect(desk.asked).toEqual([]);
    await vi.advanceTimersByTimeAsync(1);
    expect(desk.asked).toEqual(["check abc"]);
    draft.typed("abcd");
    await desk.next();
    expect(draft.state().verdict.tree, "of an older text").toEqual({ words: "a" });
    await vi.advanceTimersByTimeAsync(250);
    await desk.next();
    expect(draft.state()).toMatchObject({
      text: "abcd",
      checked: true,
      verdict: { tree: { words: "abcd" } },
    });
  });

  test("the form keeps its values while the text is not YAML", async () => {
    draft.typed("[");
    await vi.advanceTimersByTimeAsync(250);
    await desk.next();
    expect(draft.state()).toMatchObject({
      text: "[",
      checked: true,
      verdict: { tree: { words: "a" } },
    });
  });

  test("an edit of the form meets the text as it is by then", async () => {
    const texts: string[] = [];
    draft.onEdited = (text) => texts.push(text);
    draft.edit(set(["x"], "1"));
    draft.typed("A");
    await desk.next();
    expect(desk.asked).toEqual(["edit a", "edit A"]);
    await desk.next();
    expect(texts).toEqual(["A+1"]);
    expect(draft.state()).toMatchObject({ text: "A+1", checked: true });
  });

  test("of edits of one key that wait only the last one is sent", async () => {
    for (const value of ["1", "2", "3"]) draft.edit(set(["x"], value));
    draft.edit(set(["y"], "4"));
    await desk.next();
    await desk.next();
    expect(draft.state().text).toBe("a+1+3+4");
    expect(desk.asked.filter((each) => !each.startsWith("save"))).toHaveLength(2);
  });

  test("a refused edit says why and changes nothing; without a connection it is tried again", async () => {
    desk.failure = new Error("contexts.a is an alias");
    draft.edit(set(["x"], "1"));
    await desk.next();
    const refused = { text: "a", refusal: "contexts.a is an alias", refusals: 1 };
    expect(draft.state()).toMatchObject(refused);
    desk.failure = new TypeError("no connection");
    draft.edit(set(["x"], "2"));
    await desk.next();
    expect(draft.state().refusals, "of an edit that is tried again").toBe(1);
    desk.failure = undefined;
    await vi.advanceTimersByTimeAsync(1_000);
    await desk.next();
    expect(draft.state()).toMatchObject({ text: "a+2", refusal: "" });
  });

  test("an edit is pending until no newer one waits either", async () => {
    const seen: [string, boolean][] = [];
    draft.subscribe(() => seen.push([draft.state().text, draft.state().pending]));
    draft.edit(set(["x"], "1"));
    draft.edit(set(["x"], "2"));
    await desk.next();
    expect(seen.at(-1)).toEqual(["a+1", true]);
    await desk.next();
    expect(seen.at(-1)).toEqual(["a+1+2", false]);
    expect(seen, "never the last text while it is pending").not.toContainEqual(["a+1+2", true]);
    desk.failure = new Error("contexts.a is an alias");
    draft.edit(set(["x"], "3"));
    expect(draft.state().pending).toBe(true);
    await desk.next();
    expect(draft.state().pending, "refused").toBe(false);
  });

  test("who leaves takes the edits along that are under way, wait or come at that moment", async () => {
    draft.edit(set(["x"], "1"));
    draft.edit(set(["y"], "2"));
    const settled = draft.settle().then(() => draft.close());
    draft.edit(set(["z"], "3"));
    await desk.next();
    await desk.next();
    await settled;
    expect(desk.asked.at(-1)).toBe("save a+1+2+3");
  });

  test("without a connection leaving does not wait, and the edits stay pending", async () => {
    desk.failure = new TypeError("no connection");
    draft.edit(set(["x"], "1"));
    const settled = draft.settle();
    await desk.next();
    await settled;
    expect(draft.state()).toMatchObject({ text: "a", pending: true });
  });

  test("a draft is saved by itself soon after the last change", async () => {
    draft.typed("ab");
    expect(draft.state().saved).toBe("waiting");
    await vi.advanceTimersByTimeAsync(800);
    expect(desk.asked).toContain("save ab");
    expect(draft.state().saved).toBe("saved");
  });
});

test("changes of values are told in words", () => {
  const before = { a: { wait: 5, tools: ["x", "y"], long: "l".repeat(99), old: true } };
  const after = { a: { wait: 6, tools: ["y", "z"], long: "m".repeat(99), new: "n", "gpt-4.1": 1 } };
  const change = (key: string) => valueChange(key, before, after);
  expect(change("a.wait")).toEqual({ kind: "value", before: "5", after: "6" });
  expect(change("a.tools")).toEqual({ kind: "items", added: ["z"], removed: ["x"] });
  expect(change("a.long")).toEqual({ kind: "changed" });
  expect(change("a.old")).toEqual({ kind: "removed", value: "true" });
  expect(change("a.new")).toEqual({ kind: "added", value: "n" });
  expect(change("a.gpt-4.1"), "a key with a dot").toEqual({ kind: "added", value: "1" });
});

test("conflicts are decided one by one", () => {
  const conflicts = [
    { at: 2, line: 2, base: "b\n", ours: "B\n", theirs: "beta\n" },
    { at: 4, line: 4, base: "d\n", ours: "", theirs: "delta\n" },
    { at: 5, line: 6, base: "f\n", ours: "F1\nF2\n", theirs: "phi" },
  ];
  const text = "a\nB\nc\ne\nF1\nF2\n";
  expect(decided(text, conflicts, [])).toBe(text);
  expect(decided(text, conflicts, ["theirs", "theirs", "both"])).toBe(
    "a\nbeta\nc\ndelta\ne\nphi\nF1\nF2\n",
  );
});

test("an address with nonsense shows the page without it", () => {
  expect(search({ at: "", draft: "../x", tab: "x", from: "zz", to: "abcd" })).toEqual({
    to: "abcd",
  });
  expect(search({ at: "providers.local", tab: "versions", draft: "d-1" })).toEqual({
    at: "providers.local",
    tab: "versions",
    draft: "d-1",
  });
});
