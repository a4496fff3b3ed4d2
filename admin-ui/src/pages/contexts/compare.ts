// Two texts side by side, the right one to be changed. A chunk of its own: only conflicts need it.
import { MergeView } from "@codemirror/merge";
import { EditorState } from "@codemirror/state";
import { EditorView } from "@codemirror/view";

import { yamlBase } from "./editor.ts";

export interface CompareOptions {
  readonly left: string;
  readonly right: string;
  readonly leftLabel: string;
  readonly rightLabel: string;
  readonly onRight: (text: string) => void;
}

export function compare(parent: HTMLElement, options: CompareOptions) {
  const { left, right, leftLabel, rightLabel, onRight } = options;
  const view = new MergeView({
    parent,
    a: { doc: left, extensions: [yamlBase(leftLabel, left), EditorState.readOnly.of(true)] },
    b: {
      doc: right,
      extensions: [
        yamlBase(rightLabel, right),
        EditorView.updateListener.of((update) => {
          if (update.docChanged) onRight(update.state.sliceDoc());
        }),
      ],
    },
    collapseUnchanged: { margin: 2, minSize: 4 },
    gutter: true,
  });
  return {
    setRight: (text: string) => {
      const { state } = view.b;
      if (state.sliceDoc() === text) return;
      view.b.dispatch({ changes: { from: 0, to: state.doc.length, insert: state.toText(text) } });
    },
    destroy: () => view.destroy(),
  };
}
