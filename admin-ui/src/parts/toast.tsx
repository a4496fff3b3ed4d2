// Short messages about what was done or refused. They stay until read where something went wrong.
import { useSyncExternalStore } from "react";

import { words } from "../words/parts.ts";
import { IconButton } from "./button.tsx";
import { cx } from "./cx.ts";
import { Icon } from "./icons.tsx";

interface Message {
  id: number;
  kind: "good" | "bad";
  text: string;
}

const SHOWN_MS = 5_000;
const MOST = 4;

let messages: readonly Message[] = [];
let lastId = 0;
const lookers = new Set<() => void>();

function show(next: readonly Message[]): void {
  messages = next;
  for (const each of lookers) each();
}

const dismiss = (id: number) => show(messages.filter((each) => each.id !== id));

function add(kind: Message["kind"], text: string): void {
  const id = ++lastId;
  show([...messages.filter((each) => each.text !== text), { id, kind, text }].slice(-MOST));
  if (kind === "good") setTimeout(() => dismiss(id), SHOWN_MS);
}

/** Shows a message: `toast("Saved")`, or `toast.bad("…")` for what was refused or failed. */
export function toast(text: string): void {
  add("good", text);
}
toast.bad = (text: string): void => add("bad", text);

function subscribe(looker: () => void): () => void {
  lookers.add(looker);
  return () => lookers.delete(looker);
}

/** Where the messages appear; the frame has it once. */
export function Toasts() {
  const shown = useSyncExternalStore(subscribe, () => messages);
  return (
    <section
      aria-label={words.messages}
      aria-live="polite"
      className="pointer-events-none fixed right-4 bottom-4 z-50 grid w-[min(24rem,calc(100vw-2rem))] gap-2"
    >
      {shown.map(({ id, kind, text }) => (
        <div
          key={id}
          className="pointer-events-auto flex items-start gap-2 rounded-lg border border-line bg-raised py-2 pr-2 pl-3 shadow-high"
        >
          <span className={cx("mt-0.5", kind === "bad" ? "text-bad" : "text-good")}>
            <Icon name={kind === "bad" ? "warning" : "check"} />
          </span>
          <p className="flex-1 break-words">{text}</p>
          <IconButton label={words.dismiss} icon="close" small onClick={() => dismiss(id)} />
        </div>
      ))}
    </section>
  );
}
