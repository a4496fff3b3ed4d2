// Text to copy, JSON, and differences. Everything is a text node.
import { type ReactNode, useEffect, useRef, useState } from "react";

import { copyText } from "../app/clipboard.ts";
import { words } from "../words/parts.ts";
import { IconButton } from "./button.tsx";
import { cx } from "./cx.ts";
import { parseUnified } from "./unified.ts";

const DONE_MS = 2_000;

/** A button that copies. Where the browser refuses, it marks the text of `target` instead. */
export function Copy({ text, target }: { text: string; target?: () => HTMLElement | null }) {
  const [state, setState] = useState<"copy" | "copied" | "copyFailed">("copy");
  useEffect(() => {
    if (state === "copy") return;
    const timer = setTimeout(() => setState("copy"), DONE_MS);
    return () => clearTimeout(timer);
  }, [state]);
  const copy = async () => {
    const done = await copyText(text);
    const element = target?.();
    if (!done && element) window.getSelection()?.selectAllChildren(element);
    setState(done ? "copied" : "copyFailed");
  };
  return (
    <span className="inline-flex items-center">
      <IconButton
        label={words[state]}
        icon={state === "copied" ? "check" : "copy"}
        small
        onClick={copy}
      />
      <span role="status" className="sr-only">
        {state !== "copy" && words[state]}
      </span>
    </span>
  );
}

/** A command, a key or a part of a file, to be copied. */
export function CodeBlock({ text, label = words.code }: { text: string; label?: string }) {
  const code = useRef<HTMLElement>(null);
  return (
    <div className="flex max-w-full items-start gap-1 rounded-md border border-line bg-surface py-1 pr-1 pl-3">
      <pre
        tabIndex={0}
        role="group"
        aria-label={label}
        className="min-w-0 flex-1 overflow-x-auto py-1 font-mono text-xs"
      >
        <code ref={code}>{text}</code>
      </pre>
      <Copy text={text} target={() => code.current} />
    </div>
  );
}

/** The words of the docs, whose `code` is between backticks. */
export function Prose({ text = "" }: { text?: string | undefined }) {
  return text.split("`").map((part, index) =>
    index % 2 === 0 ? (
      part
    ) : (
      // biome-ignore lint/suspicious/noArrayIndexKey: the parts of a fixed text
      <code key={index} className="font-mono">
        {part}
      </code>
    ),
  );
}

const FOLDED_BELOW = 2;
const MOST_SHOWN = 100;

/** A value of JSON as a tree that folds. */
export function Json({ value, label }: { value: unknown; label?: string }) {
  return (
    <div className="font-mono text-xs break-words" role="group" aria-label={label}>
      <JsonValue value={value} depth={0} />
    </div>
  );
}

function JsonValue({ value, depth, name }: { value: unknown; depth: number; name?: string }) {
  const key = name !== undefined && <span className="text-muted">{name}: </span>;
  if (typeof value !== "object" || value === null) {
    return (
      <div>
        {key}
        <span className={typeof value === "string" ? "text-good" : "text-accent"}>
          {JSON.stringify(value) ?? String(value)}
        </span>
      </div>
    );
  }
  const entries = Object.entries(value);
  const [open, close] = Array.isArray(value) ? ["[", "]"] : ["{", "}"];
  if (entries.length === 0) {
    return (
      <div>
        {key}
        {open}
        {close}
      </div>
    );
  }
  const rest = entries.length - MOST_SHOWN;
  return (
    <details open={depth < FOLDED_BELOW}>
      <summary className="min-h-6 cursor-pointer">
        {key}
        {open}
        <span className="text-muted"> {entries.length} </span>
        {close}
      </summary>
      <div className="ml-1.5 border-l border-line pl-3">
        {entries.slice(0, MOST_SHOWN).map(([inside, each]) => (
          <JsonValue key={inside} name={inside} value={each} depth={depth + 1} />
        ))}
        {rest > 0 && <div className="text-muted">{words.moreOf(rest)}</div>}
      </div>
    </details>
  );
}

const SIGNS = { same: " ", added: "+", removed: "−", gap: "" } as const;

export interface DiffProps {
  /** A unified diff, as the engine gives it. */
  lines: readonly string[];
  label: string;
}

/** Two texts line by line; the sign tells what the colour does. */
export function Diff({ lines, label }: DiffProps): ReactNode {
  return (
    <section tabIndex={0} aria-label={label} className="overflow-x-auto">
      <table className="min-w-full border-collapse font-mono text-xs">
        <caption className="sr-only">{label}</caption>
        <tbody>
          {parseUnified(lines).map((line, index) => (
            <tr
              // biome-ignore lint/suspicious/noArrayIndexKey: two lines may be equal, and none moves
              key={index}
              className={cx(
                line.kind === "added" && "bg-good-soft",
                line.kind === "removed" && "bg-bad-soft",
              )}
            >
              <td className="w-10 pr-2 text-right text-muted select-none">{line.old}</td>
              <td className="w-10 pr-2 text-right text-muted select-none">{line.new}</td>
              <td className="w-4 select-none">
                <span aria-hidden="true">{SIGNS[line.kind]}</span>
                {(line.kind === "added" || line.kind === "removed") && (
                  <span className="sr-only">{words[line.kind]}</span>
                )}
              </td>
              <td className="whitespace-pre">{line.kind === "gap" ? "⋯" : line.text}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}
