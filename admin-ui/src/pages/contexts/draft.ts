// A draft of the configuration: its text, the engine's verdict on it, and what waits to be done.
// Form and YAML are two ways to change the one text. Requests go out one at a time, and an answer
// about a text that has changed meanwhile is dropped, so the last change wins. No React, no DOM.

import type { components } from "../../api/generated.ts";
import { type Block, outline, type Place } from "./outline.ts";

/** The client reads tuples as arrays. */
export type Checked = Omit<components["schemas"]["Checked"], "places"> & {
  readonly places: Readonly<Record<string, Place>>;
};
export type Edited = Checked & { readonly text: string; readonly touched: Lines };
export type Edit = components["schemas"]["Edits"]["edits"][number];
export type Problem = components["schemas"]["Problem"];
export type Lines = readonly (readonly number[])[];

/** The engine, as a draft needs it. */
export interface Desk {
  check(text: string, base: string): Promise<Checked>;
  edit(text: string, base: string, edits: Edit[]): Promise<Edited>;
  save(text: string, base: string): Promise<{ stale: boolean }>;
}

/** True for a failure that another attempt may mend: no connection, too often, busy. */
export type Passing = (error: unknown) => boolean;

export interface State {
  readonly text: string;
  /** Digest of the version that the draft was made from, and its text. */
  readonly base: string;
  readonly original: string;
  /** The values of that text. */
  readonly before: unknown;
  readonly verdict: Checked;
  /** Where the keys of the verdict are. */
  readonly blocks: readonly Block[];
  /** False while the verdict is about an older text. */
  readonly checked: boolean;
  /** Why the last change by the form was refused, or the engine cannot be reached. */
  readonly refusal: string;
  /** How many changes by the form were refused: its fields show the values of the text again. */
  readonly refusals: number;
  readonly saved: "saved" | "waiting" | "failed";
  /** True while a change by the form is not in the text yet. */
  readonly pending: boolean;
  /** True if the file has changed since the draft was begun. */
  readonly stale: boolean;
}

const CHECK_AFTER_MS = 250;
const SAVE_AFTER_MS = 800;
const AGAIN_AFTER_MS = 1_000;

export class Draft {
  /** Receives a text that the form has made, and the lines that are new in it. */
  onEdited: (text: string, touched: Lines) => void = () => {};
  closed = false;

  #state: State;
  #listeners = new Set<() => void>();
  #edits: Edit[] = [];
  #asking = false;
  #asked: Promise<void> = Promise.resolve();
  /** True while the engine makes an edit. */
  #editing = false;
  #checkDue = false;
  /** True after a passing failure, until it is time for another attempt. */
  #resting = false;
  #timers = new Map<"check" | "again" | "save", ReturnType<typeof setTimeout>>();
  #saving: Promise<void> | undefined;
  readonly #desk: Desk;
  readonly #passing: Passing;

  constructor(desk: Desk, begin: Begin, passing: Passing) {
    this.#desk = desk;
    this.#passing = passing;
    this.#state = begun(begin);
    if (begin.text !== begin.original) this.#checkIn(0);
  }

  readonly state = (): State => this.#state;

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  /** The text was changed in the editor. */
  typed(text: string): void {
    if (text === this.#state.text) return;
    this.#textIs(text, { checked: false });
    this.#checkIn(CHECK_AFTER_MS);
  }

  /** A value was changed in the form. Edits of one key that still wait are replaced by the newest. */
  edit(...edits: Edit[]): void {
    for (const one of edits) {
      const last = this.#edits.at(-1);
      if (one.op === "set" && last?.op === "set" && same(one.path, last.path)) this.#edits.pop();
      this.#edits.push(one);
    }
    this.#set({});
    this.#ask();
  }

  /** Go on from another version, after a publish or a merge. */
  rebase(begin: Begin): void {
    this.#edits = [];
    this.#set({ ...begun(begin), saved: this.#state.saved });
    if (begin.text !== begin.original) this.#textIs(begin.text, { checked: false });
    this.#checkIn(0);
  }

  /** Save what is not saved yet. */
  async flush(): Promise<void> {
    await this.#saving;
    if (this.#state.saved !== "saved" && !this.closed) await this.#save();
  }

  /** Bring what waits into the text, as far as the engine can be reached now, and save it. */
  async settle(): Promise<void> {
    // Waits once in any case: a field that goes away at this moment still hands in its last words.
    do await this.#asked;
    while (this.#asking);
    await this.flush();
  }

  /** Nothing is asked or saved any more; returns when a save that was under way is over. */
  async close(): Promise<void> {
    this.closed = true;
    for (const timer of this.#timers.values()) clearTimeout(timer);
    this.#edits = [];
    await this.#saving;
  }

  #textIs(text: string, more: Partial<State>): void {
    this.#set({ text, refusal: "", saved: "waiting", ...more });
    this.#later("save", SAVE_AFTER_MS, () => void this.flush());
  }

  #checkIn(wait: number): void {
    this.#later("check", wait, () => {
      this.#checkDue = true;
      this.#ask();
    });
  }

  #ask(): void {
    if (!this.#asking) this.#asked = this.#askAll();
  }

  async #askAll(): Promise<void> {
    this.#asking = true;
    try {
      while (!this.#resting && (this.#edits.length || this.#checkDue)) await this.#askOnce();
    } finally {
      this.#asking = false;
    }
  }

  async #askOnce(): Promise<void> {
    const { text, base } = this.#state;
    const edits = this.#edits.splice(0);
    this.#checkDue = false;
    this.#editing = edits.length > 0;
    try {
      if (edits.length) {
        const edited = await this.#desk.edit(text, base, edits);
        this.#editing = false;
        if (this.#state.text === text) this.#editedAs(edited);
        else this.#edits.unshift(...edits); // once more, for the text as it is now
      } else {
        const verdict = await this.#desk.check(text, base);
        if (this.#state.text === text)
          this.#set({ ...verdictIn(verdict, text, this.#state), refusal: "" });
      }
    } catch (error) {
      this.#editing = false;
      this.#refused(error, edits);
    }
  }

  #editedAs(edited: Edited): void {
    this.#textIs(edited.text, verdictIn(edited, edited.text));
    this.onEdited(edited.text, edited.touched);
  }

  #refused(error: unknown, edits: readonly Edit[]): void {
    const refusal = error instanceof Error ? error.message : String(error);
    const again = this.#passing(error);
    if (again) this.#edits.unshift(...edits);
    const isLost = edits.length > 0 && !again;
    this.#set({ refusal, refusals: this.#state.refusals + Number(isLost) });
    if (!again) return;
    this.#checkDue ||= edits.length === 0;
    this.#resting = true;
    this.#later("again", AGAIN_AFTER_MS, () => {
      this.#resting = false;
      this.#ask();
    });
  }

  #save(): Promise<void> {
    const { text, base } = this.#state;
    const saving = async () => {
      try {
        const { stale } = await this.#desk.save(text, base);
        this.#set({ stale, saved: this.#state.text === text ? "saved" : "waiting" });
      } catch (error) {
        this.#set({ saved: "failed" });
        if (this.#passing(error)) this.#later("save", AGAIN_AFTER_MS, () => void this.flush());
      } finally {
        this.#saving = undefined;
      }
    };
    this.#saving = saving();
    return this.#saving;
  }

  #later(name: "check" | "again" | "save", wait: number, act: () => void): void {
    clearTimeout(this.#timers.get(name));
    if (this.closed) return;
    this.#timers.set(name, setTimeout(act, wait));
  }

  #set(more: Partial<State>): void {
    const pending = this.#editing || this.#edits.length > 0;
    this.#state = { ...this.#state, ...more, pending };
    for (const listener of this.#listeners) listener();
  }
}

export interface Begin {
  readonly text: string;
  readonly base: string;
  readonly original: string;
  /** Verdict on `original`. */
  readonly verdict: Checked;
  readonly stale: boolean;
}

function begun(begin: Begin): State {
  return {
    text: begin.text,
    base: begin.base,
    original: begin.original,
    before: begin.verdict.tree,
    ...verdictIn(begin.verdict, begin.original),
    checked: begin.text === begin.original,
    refusal: "",
    refusals: 0,
    saved: "saved",
    pending: false,
    stale: begin.stale,
  };
}

/** A text that is not YAML (yet) has no values: the form keeps those that it had. */
function verdictIn(verdict: Checked, text: string, last?: State) {
  const isYaml = Object.keys(verdict.places).length > 0;
  if (last && !isYaml) {
    const { tree, places } = last.verdict;
    return { verdict: { ...verdict, tree, places }, blocks: last.blocks, checked: true };
  }
  return { verdict, blocks: outline(verdict.tree, verdict.places, text), checked: true };
}

function same(one: readonly (string | number)[], other: readonly (string | number)[]): boolean {
  return one.length === other.length && one.every((part, index) => part === other[index]);
}
