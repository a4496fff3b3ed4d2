// The file as YAML, with the engine's problems in the gutter and in a list below.
import { type RefObject, useEffect, useRef, useState } from "react";

import { readSetting, writeSetting } from "../../app/theme.ts";
import { StatusDot } from "../../parts/badge.tsx";
import { IconButton } from "../../parts/button.tsx";
import { cx } from "../../parts/cx.ts";
import { words } from "../../words/contexts.ts";
import type { Draft, Problem, State } from "./draft.ts";
import { YamlEditor } from "./editor.ts";

export interface YamlPaneProps {
  draft: Draft;
  state: State;
  readOnly: boolean;
  /** Receives the editor as long as it is shown. */
  editor: RefObject<YamlEditor | null>;
  onCursor: (line: number, column: number) => void;
  className: string;
}

const WRAPPING = "cordboard.yaml.wrap";

export function YamlPane({ draft, state, readOnly, editor, onCursor, className }: YamlPaneProps) {
  const place = useRef<HTMLDivElement>(null);
  const follow = useRef(onCursor);
  follow.current = onCursor;
  const [wraps, setWraps] = useState(() => readSetting(WRAPPING) !== "off");
  // biome-ignore lint/correctness/useExhaustiveDependencies: wrapping is changed in place
  useEffect(() => {
    if (!place.current) return;
    const made = new YamlEditor(place.current, {
      text: draft.state().text,
      label: words.yaml,
      hole: words.hole,
      wraps,
      onText: (text) => draft.typed(text),
      onCursor: (line, column) => follow.current(line, column),
    });
    editor.current = made;
    draft.onEdited = (text, touched) => made.setText(text, touched);
    return () => {
      draft.onEdited = () => {};
      editor.current = null;
      made.destroy();
    };
  }, [draft, editor]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: another draft has another editor
  useEffect(() => editor.current?.setReadOnly(readOnly), [draft, readOnly, editor]);
  const wrap = (on: boolean) => {
    setWraps(on);
    writeSetting(WRAPPING, on ? "on" : "off");
    editor.current?.setWrapping(on);
  };
  const { problems } = state.verdict;
  useEffect(() => {
    if (state.checked) editor.current?.mark(problems);
  }, [state.checked, problems, editor]);
  return (
    <div className={cx("flex min-h-0 min-w-0 flex-col border-l border-line", className)}>
      <div ref={place} className="min-h-0 flex-1 overflow-hidden" />
      <Problems
        state={state}
        wraps={wraps}
        onWrap={wrap}
        onOpen={({ line, column }) => editor.current?.jump(line ?? 1, column ?? 1)}
      />
    </div>
  );
}

interface ProblemsProps {
  state: State;
  wraps: boolean;
  onWrap: (on: boolean) => void;
  onOpen: (problem: Problem) => void;
}

function Problems({ state, wraps, onWrap, onOpen }: ProblemsProps) {
  const [open, setOpen] = useState(false);
  const { problems } = state.verdict;
  const errors = problems.filter((each) => each.fatal).length;
  const summary = words.problems(errors, problems.length - errors);
  return (
    <div className="shrink-0 border-t border-line bg-surface text-xs">
      <div className="flex h-8 items-center gap-2 pr-1 pl-3">
        <StatusDot tone={errors ? "bad" : problems.length ? "warn" : "good"} />
        <span role="status" className="flex-1 truncate">
          {state.refusal || (state.checked ? summary || words.noProblems : words.checking)}
        </span>
        <IconButton
          label={words.wrapLines}
          icon="wrap"
          small
          aria-pressed={wraps}
          className={wraps ? "bg-selected" : ""}
          onClick={() => onWrap(!wraps)}
        />
        {problems.length > 0 && (
          <IconButton
            label={words.problemList}
            icon={open ? "down" : "up"}
            small
            aria-expanded={open}
            onClick={() => setOpen(!open)}
          />
        )}
      </div>
      {open && problems.length > 0 && (
        <ul
          aria-label={words.problemList}
          className="max-h-40 overflow-y-auto border-t border-line py-1"
        >
          {problems.map((each) => (
            <li key={`${each.key} ${each.line} ${each.message}`}>
              <button
                type="button"
                onClick={() => onOpen(each)}
                className="flex min-h-7 w-full items-baseline gap-2 px-3 py-0.5 text-left hover:bg-hover"
              >
                <span className={cx("font-medium", each.fatal ? "text-bad" : "text-warn")}>
                  {each.fatal ? words.error : words.warning}
                </span>
                <span className="shrink-0 text-muted">{words.line(each.line ?? 1)}</span>
                <span>
                  {each.key && <code className="font-mono">{each.key}: </code>}
                  {each.message}
                </span>
              </button>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}
