// The editors of the page: the file as YAML, and a prompt. CodeMirror without any judgement of its
// own: problems come from the engine. The history of the YAML editor is the one undo history of the
// page: changes of the form are changes of its text.
import {
  autocompletion,
  type CompletionContext,
  type CompletionResult,
  completionKeymap,
} from "@codemirror/autocomplete";
import {
  defaultKeymap,
  history,
  historyKeymap,
  isolateHistory,
  redo,
  undo,
} from "@codemirror/commands";
import { yaml } from "@codemirror/lang-yaml";
import { HighlightStyle, indentUnit, syntaxHighlighting } from "@codemirror/language";
import { type Diagnostic, lintGutter, lintKeymap, setDiagnostics } from "@codemirror/lint";
import { highlightSelectionMatches, search, searchKeymap } from "@codemirror/search";
import {
  Compartment,
  EditorSelection,
  EditorState,
  type Extension,
  StateEffect,
  StateField,
  Text,
} from "@codemirror/state";
import {
  Decoration,
  type DecorationSet,
  drawSelection,
  EditorView,
  highlightActiveLine,
  keymap,
  lineNumbers,
  MatchDecorator,
  type PluginValue,
  ViewPlugin,
  type ViewUpdate,
  WidgetType,
} from "@codemirror/view";
import { tags } from "@lezer/highlight";

import { getNonce } from "../../app/nonce.ts";
import type { Lines, Problem } from "./draft.ts";
import { columnOfIndex, indexOfColumn } from "./outline.ts";

export interface YamlOptions {
  readonly text: string;
  readonly label: string;
  /** A hole for a literal secret, for a screen reader. */
  readonly hole: (number: string) => string;
  readonly wraps: boolean;
  readonly onText: (text: string) => void;
  /** Line and column of the cursor, from 1, when a person moves it. */
  readonly onCursor: (line: number, column: number) => void;
}

const FLASH_MS = 1_400;

export class YamlEditor {
  readonly #view: EditorView;
  readonly #readOnly = new Compartment();
  readonly #wrapping = new Compartment();
  #fade: ReturnType<typeof setTimeout> | undefined;

  constructor(parent: HTMLElement, options: YamlOptions) {
    this.#view = new EditorView({
      parent,
      state: EditorState.create({
        doc: options.text,
        extensions: [
          yamlExtensions(options),
          follow(options),
          this.#readOnly.of(EditorState.readOnly.of(true)),
          this.#wrapping.of(options.wraps ? WRAPPING : []),
        ],
      }),
    });
  }

  setWrapping(on: boolean): void {
    this.#view.dispatch({ effects: this.#wrapping.reconfigure(on ? WRAPPING : []) });
  }

  /** It begins as read-only. The history stays, however often that changes. */
  setReadOnly(on: boolean): void {
    this.#view.dispatch({ effects: this.#readOnly.reconfigure(EditorState.readOnly.of(on)) });
  }

  /** Change the text as one step of the history; what both texts have in common is not touched. */
  setText(text: string, touched: Lines = []): void {
    const { state } = this.#view;
    const change = difference(state.doc.toString(), state.toText(text).toString());
    if (!change) return;
    this.#view.dispatch({
      changes: { ...change, insert: Text.of(change.insert.split("\n")) },
      annotations: isolateHistory.of("full"),
      userEvent: "input.form",
    });
    this.#flash(touched);
  }

  /** Light the lines of a key; null lights none. */
  light(lines: readonly [number, number] | null, scroll: boolean): void {
    const { doc } = this.#view.state;
    const effects: StateEffect<unknown>[] = [
      setLit.of({ kind: "lit", lines: lines ? [lines] : [] }),
    ];
    if (scroll && lines && lines[0] <= doc.lines) {
      const begin = doc.line(lines[0]).from;
      effects.push(EditorView.scrollIntoView(begin, { y: "nearest", yMargin: 60 }));
    }
    this.#view.dispatch({ effects });
  }

  mark(problems: readonly Problem[]): void {
    const found = problems.map((each) => diagnostic(this.#view.state, each));
    this.#view.dispatch(setDiagnostics(this.#view.state, found));
  }

  /** Put the cursor on a line, in view. */
  jump(line: number, column = 1): void {
    const at = position(this.#view.state, line, column);
    this.#view.dispatch({
      selection: EditorSelection.cursor(at),
      effects: EditorView.scrollIntoView(at, { y: "center" }),
    });
    this.#view.focus();
  }

  undo = (): boolean => undo(this.#view);
  redo = (): boolean => redo(this.#view);

  destroy(): void {
    clearTimeout(this.#fade);
    this.#view.destroy();
  }

  #flash(lines: Lines): void {
    const pairs = lines.map(([from = 1, to = from]): [number, number] => [from, to]);
    this.#view.dispatch({ effects: setLit.of({ kind: "flash", lines: pairs }) });
    clearTimeout(this.#fade);
    this.#fade = setTimeout(() => {
      this.#view.dispatch({ effects: setLit.of({ kind: "flash", lines: [] }) });
    }, FLASH_MS);
  }
}

export interface PromptOptions {
  readonly text: string;
  readonly label: string;
  readonly readOnly: boolean;
  /** Names that may stand in braces, with their meanings. */
  readonly placeholders: ReadonlyMap<string, string>;
  readonly onText: (text: string) => void;
}

/** An editor of a text with `{placeholders}`, which are completed. Returns its end. */
export function promptEditor(parent: HTMLElement, options: PromptOptions): () => void {
  const known = new MatchDecorator({
    regexp: /\{([A-Za-z_]\w*)[^{}\n]*\}/g,
    decoration: ([, name = ""]) =>
      Decoration.mark({ class: options.placeholders.has(name) ? "cm-known" : "cm-unknown" }),
  });
  const view = new EditorView({
    parent,
    state: EditorState.create({
      doc: options.text,
      extensions: [
        base(options.label),
        EditorView.lineWrapping,
        EditorState.readOnly.of(options.readOnly),
        telling(options.onText),
        matches(known),
        autocompletion({ override: [(context) => completions(context, options.placeholders)] }),
        keymap.of(completionKeymap),
        EditorView.theme({ ".cm-content": { padding: "12px 16px", fontFamily: "inherit" } }),
      ],
    }),
  });
  view.focus();
  return () => view.destroy();
}

function completions(
  context: CompletionContext,
  placeholders: ReadonlyMap<string, string>,
): CompletionResult | null {
  const before = context.matchBefore(/\{\w*/);
  if (!before) return null;
  const closed = context.state.sliceDoc(context.pos, context.pos + 1) === "}";
  const options = [...placeholders].map(([name, detail]) => ({
    label: name,
    info: detail,
    type: "variable",
    apply: closed ? name : `${name}}`,
  }));
  return { from: before.from + 1, options, validFor: /^\w*$/ };
}

// What both editors have.

function base(label: string): Extension {
  return [
    EditorView.cspNonce.of(getNonce()),
    EditorView.contentAttributes.of({ "aria-label": label, tabindex: "0" }),
    history(),
    drawSelection(),
    keymap.of([...defaultKeymap, ...historyKeymap, ...searchKeymap, ...lintKeymap]),
    search({ top: true }),
    THEME,
  ];
}

function telling(onText: (text: string) => void): Extension {
  return EditorView.updateListener.of((update) => {
    if (update.docChanged) onText(update.state.sliceDoc());
  });
}

/** YAML without the page around it: colours, numbers, keys, and the line ends of the text. */
export function yamlBase(label: string, text: string): Extension {
  return [
    base(label),
    EditorState.lineSeparator.of(lineEnd(text)),
    lineNumbers(),
    indentUnit.of("  "),
    yaml(),
    syntaxHighlighting(COLOURS),
  ];
}

function yamlExtensions(options: YamlOptions): Extension {
  const holes = new MatchDecorator({
    regexp: /«secret:(\d+)»/g,
    decoration: ([, number = ""]) =>
      Decoration.replace({ widget: new Hole(number, options.hole(number)) }),
  });
  return [
    yamlBase(options.label, options.text),
    lintGutter(),
    highlightActiveLine(),
    highlightSelectionMatches(),
    matches(holes, true),
    lit,
    telling(options.onText),
  ];
}

// Long lines go on below, two columns to the right of their own indentation. Deeply indented ones
// share a column, so that a narrow pane leaves them room.
const MOST_HANGING = 24;

class HangingIndent implements PluginValue {
  found: DecorationSet;
  constructor(view: EditorView) {
    this.found = hanging(view);
  }
  update(update: ViewUpdate) {
    if (update.docChanged || update.viewportChanged) this.found = hanging(update.view);
  }
}

function hanging(view: EditorView): DecorationSet {
  const { doc } = view.state;
  const lines = new Set<number>();
  for (const { from, to } of view.visibleRanges) {
    const last = doc.lineAt(to).number;
    for (let number = doc.lineAt(from).number; number <= last; number++) lines.add(number);
  }
  const found = [...lines].map((number) => {
    const { from, text } = doc.line(number);
    const columns = Math.min(text.search(/\S|$/) + 2, MOST_HANGING);
    const style = `padding-left: calc(6px + ${columns}ch); text-indent: -${columns}ch`;
    return Decoration.line({ attributes: { style } }).range(from);
  });
  return Decoration.set(found, true);
}

const WRAPPING: Extension = [
  EditorView.lineWrapping,
  ViewPlugin.fromClass(HangingIndent, { decorations: (value) => value.found }),
];

function follow({ onCursor }: YamlOptions): Extension {
  return EditorView.updateListener.of((update) => {
    if (!update.view.hasFocus || !(update.selectionSet || update.docChanged)) return;
    const head = update.state.selection.main.head;
    const line = update.state.doc.lineAt(head);
    onCursor(line.number, columnOfIndex(line.text, head - line.from));
  });
}

/** CRLF only where every line has it: else each line keeps the end that it has. */
function lineEnd(text: string): string {
  const ends = text.match(/\r?\n/g) ?? [];
  return ends.length > 0 && ends.every((each) => each === "\r\n") ? "\r\n" : "\n";
}

/** Decorates all matches; `atomic` ones are passed over and deleted as one character. */
function matches(decorator: MatchDecorator, atomic = false): Extension {
  class Matches implements PluginValue {
    found: DecorationSet;
    constructor(view: EditorView) {
      this.found = decorator.createDeco(view);
    }
    update(update: ViewUpdate) {
      this.found = decorator.updateDeco(update, this.found);
    }
  }
  const plugin = ViewPlugin.fromClass(Matches, { decorations: (value) => value.found });
  if (!atomic) return plugin;
  const ranges = (view: EditorView) => view.plugin(plugin)?.found ?? Decoration.none;
  return [plugin, EditorView.atomicRanges.of(ranges)];
}

class Hole extends WidgetType {
  readonly number: string;
  readonly label: string;
  constructor(number: string, label: string) {
    super();
    this.number = number;
    this.label = label;
  }
  override eq(other: Hole): boolean {
    return other.number === this.number;
  }
  override toDOM(): HTMLElement {
    const element = document.createElement("span");
    element.className = "cm-hole";
    element.textContent = this.label;
    return element;
  }
}

// Lit lines: those of the field in the form that has the focus, and those that just changed.

interface Lit {
  readonly kind: "lit" | "flash";
  readonly lines: readonly (readonly [number, number])[];
}

const setLit = StateEffect.define<Lit>();
const LINE = {
  lit: Decoration.line({ class: "cm-lit" }),
  flash: Decoration.line({ class: "cm-flash" }),
};

const lit: Extension = (["lit", "flash"] as const).map((kind) =>
  StateField.define<DecorationSet>({
    create: () => Decoration.none,
    update(now, transaction) {
      let found = now.map(transaction.changes);
      for (const effect of transaction.effects) {
        if (!effect.is(setLit) || effect.value.kind !== kind) continue;
        const { doc } = transaction.state;
        const starts = effect.value.lines.flatMap(([from, to]) =>
          Array.from(
            { length: Math.max(0, Math.min(to, doc.lines) - from + 1) },
            (_, index) => doc.line(from + index).from,
          ),
        );
        found = Decoration.set(
          [...new Set(starts)].map((start) => LINE[kind].range(start)),
          true,
        );
      }
      return found;
    },
    provide: (field) => EditorView.decorations.from(field),
  }),
);

function diagnostic(state: EditorState, problem: Problem): Diagnostic {
  const from = position(state, problem.line ?? 1, problem.column ?? 1);
  const to = problem.end_line
    ? position(state, problem.end_line, problem.end_column ?? 1)
    : state.doc.lineAt(from).to;
  return {
    from,
    to: Math.max(from, to),
    severity: problem.fatal ? "error" : "warning",
    message: problem.message,
  };
}

function position(state: EditorState, line: number, column: number): number {
  const found = state.doc.line(Math.max(1, Math.min(line, state.doc.lines)));
  return found.from + indexOfColumn(found.text, column);
}

/** The one part in which two texts differ. */
export function difference(
  before: string,
  after: string,
): { from: number; to: number; insert: string } | undefined {
  if (before === after) return undefined;
  const most = Math.min(before.length, after.length);
  let start = 0;
  while (start < most && before[start] === after[start]) start++;
  let end = 0;
  while (end < most - start && before.at(-1 - end) === after.at(-1 - end)) end++;
  return { from: start, to: before.length - end, insert: after.slice(start, after.length - end) };
}

const COLOURS = HighlightStyle.define([
  { tag: [tags.definition(tags.propertyName), tags.propertyName], color: "var(--accent)" },
  { tag: tags.comment, color: "var(--muted)", fontStyle: "italic" },
  { tag: tags.string, color: "var(--good)" },
  { tag: [tags.keyword, tags.meta, tags.labelName, tags.typeName], color: "var(--warn)" },
  {
    tag: [tags.separator, tags.punctuation, tags.squareBracket, tags.brace],
    color: "var(--muted)",
  },
]);

const THEME = EditorView.theme({
  "&": {
    height: "100%",
    backgroundColor: "var(--raised)",
    color: "var(--ink)",
    fontSize: "0.8125rem",
  },
  "&.cm-focused": { outline: "2px solid var(--accent)", outlineOffset: "-2px" },
  ".cm-scroller": { fontFamily: "var(--font-mono)", lineHeight: "1.55" },
  ".cm-cursor": { borderLeftColor: "var(--ink)" },
  ".cm-gutters": { backgroundColor: "var(--raised)", color: "var(--muted)", border: "none" },
  ".cm-activeLine": { backgroundColor: "transparent" },
  "&.cm-focused .cm-activeLine": { boxShadow: "inset 2px 0 0 var(--accent)" },
  ".cm-selectionBackground, &.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground":
    {
      backgroundColor: "var(--selected)",
    },
  ".cm-selectionMatch": { backgroundColor: "var(--hover)" },
  ".cm-lit": { backgroundColor: "var(--accent-soft)" },
  ".cm-flash": { backgroundColor: "var(--good-soft)" },
  ".cm-hole": {
    padding: "0 0.375rem",
    borderRadius: "0.25rem",
    backgroundColor: "var(--warn-soft)",
    color: "var(--warn)",
    fontFamily: "var(--font-sans)",
    fontSize: "0.75rem",
  },
  ".cm-known": {
    color: "var(--accent)",
    backgroundColor: "var(--accent-soft)",
    borderRadius: "0.25rem",
  },
  ".cm-unknown": {
    color: "var(--warn)",
    backgroundColor: "var(--warn-soft)",
    borderRadius: "0.25rem",
  },
  ".cm-tooltip": {
    backgroundColor: "var(--raised)",
    color: "var(--ink)",
    border: "1px solid var(--line)",
    borderRadius: "0.375rem",
    boxShadow: "var(--shadow-high)",
  },
  ".cm-tooltip-autocomplete > ul > li": { padding: "0.25rem 0.5rem" },
  ".cm-tooltip-autocomplete > ul > li[aria-selected]": {
    backgroundColor: "var(--selected)",
    color: "var(--ink)",
  },
  ".cm-diagnostic": {
    borderLeft: "none",
    padding: "0.375rem 0.625rem",
    fontFamily: "var(--font-sans)",
  },
  ".cm-panels": {
    backgroundColor: "var(--surface)",
    color: "var(--ink)",
    borderColor: "var(--line)",
  },
});
