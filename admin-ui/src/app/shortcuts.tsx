// Keyboard shortcuts. Single keys can be switched off, because speech input and a cat on the desk
// press them, too (WCAG 2.1.4); Ctrl-K stays.
import {
  createContext,
  type ReactNode,
  useContext,
  useEffect,
  useEffectEvent,
  useMemo,
  useState,
} from "react";

import { KeySequence } from "./keys.ts";
import { readSetting, writeSetting } from "./theme.ts";

export interface Shortcut {
  /** As `event.key` names them: "j", "?", "ArrowLeft"; two with a space between, "g l". */
  keys: string;
  about: string;
}

interface Shortcuts {
  on: boolean;
  switchOn(on: boolean): void;
  known(): Shortcut[];
  add(shortcut: Shortcut, run: () => void): () => void;
}

const SETTING = "cordboard.shortcuts";
const TYPED_INTO = "input, textarea, select, [contenteditable], [role=textbox]";
const OPEN = "[role=dialog], [role=alertdialog], [role=menu]";

const Context = createContext<Shortcuts | null>(null);

export function ShortcutsProvider({ children }: { children: ReactNode }) {
  const [on, setOn] = useState(() => readSetting(SETTING) !== "off");
  const [all] = useState(() => new Map<string, { shortcut: Shortcut; run: () => void }>());
  useEffect(() => {
    if (!on) return;
    const pressed = new KeySequence();
    const onKey = (event: KeyboardEvent) => {
      if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
      const target = event.target as Element;
      if (target.matches(TYPED_INTO) || document.querySelector(OPEN)) return;
      // These keys press a button that has the focus.
      if ((event.key === " " || event.key === "Enter") && target.matches("button, a, summary"))
        return;
      const run = all.get(pressed.press(event.key, all, event.timeStamp))?.run;
      if (run === undefined) return;
      event.preventDefault();
      run();
    };
    window.addEventListener("keydown", onKey);
    return () => window.removeEventListener("keydown", onKey);
  }, [on, all]);
  const shortcuts = useMemo<Shortcuts>(
    () => ({
      on,
      switchOn(next) {
        writeSetting(SETTING, next ? "on" : "off");
        setOn(next);
      },
      known: () => [...all.values()].map(({ shortcut }) => shortcut),
      add(shortcut, run) {
        const entry = { shortcut, run };
        all.set(shortcut.keys, entry);
        return () => {
          if (all.get(shortcut.keys) === entry) all.delete(shortcut.keys);
        };
      },
    }),
    [on, all],
  );
  return <Context value={shortcuts}>{children}</Context>;
}

export function useShortcuts(): Shortcuts {
  const shortcuts = useContext(Context);
  if (shortcuts === null) throw new Error("shortcuts need the frame");
  return shortcuts;
}

/** Offers a shortcut while the component is shown; `about` stands in the list of `?`. */
export function useShortcut(keys: string, about: string, run: () => void): void {
  const { add } = useShortcuts();
  const latest = useEffectEvent(run);
  useEffect(() => add({ keys, about }, () => latest()), [add, keys, about]);
}
