// Two texts side by side. A chunk of its own: only conflicts need it.
import { MergeView } from "@codemirror/merge";
import { EditorState, Text } from "@codemirror/state";
import { EditorView } from "@codemirror/view";

import { difference, yamlBase } from "./editor.ts";

export interface CompareOptions {
  readonly left: string;
  readonly right: string;
  readonly leftLabel: string;
  readonly rightLabel: string;
  /** Receives the right text as it is changed by hand; left out: it cannot be. */
  readonly onRight: ((text: string) => void) | undefined;
}

export function compare(parent: HTMLElement, options: CompareOptions) {
  const { left, right, leftLabel, rightLabel, onRight } = options;
  const view = new MergeView({
    parent,
    a: { doc: left, extensions: [THEME, yamlBase(leftLabel, left), EditorState.readOnly.of(true)] },
    b: {
      doc: right,
      extensions: [
        THEME,
        yamlBase(rightLabel, right),
        EditorState.readOnly.of(!onRight),
        EditorView.updateListener.of((update) => {
          if (update.docChanged) onRight?.(update.state.sliceDoc());
        }),
      ],
    },
    collapseUnchanged: { margin: 2, minSize: 4 },
    gutter: true,
  });
  return {
    setRight: (text: string) => {
      const { state } = view.b;
      const change = difference(state.doc.toString(), state.toText(text).toString());
      if (!change) return;
      view.b.dispatch({ changes: { ...change, insert: Text.of(change.insert.split("\n")) } });
    },
    destroy: () => view.destroy(),
  };
}

const THEME = EditorView.theme({
  ".cm-collapsedLines": {
    background: "var(--hover)",
    color: "var(--muted)",
    fontFamily: "var(--font-sans)",
    fontSize: "0.75rem",
  },
  ".cm-collapsedLines:before, .cm-collapsedLines:after": { content: "''" },
  "&.cm-merge-a .cm-changedLine": { backgroundColor: "var(--bad-soft)" },
  "&.cm-merge-b .cm-changedLine": { backgroundColor: "var(--good-soft)" },
  "& .cm-changedText": { background: "none", textDecoration: "underline" },
});
