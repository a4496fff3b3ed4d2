// What the controls of the form share.
import { createContext, useContext } from "react";

import type { Edit, Problem } from "./draft.ts";
import type { Path } from "./outline.ts";
import type { Root } from "./schema.ts";

export type Effect = "now" | "idle" | "restart";

export interface Form {
  readonly root: Root;
  /** The values as they are written. */
  readonly tree: unknown;
  readonly readOnly: boolean;
  /** True while a change by the form is not in `tree` yet. */
  readonly pending: boolean;
  /** How many changes by the form were refused. */
  readonly refusals: number;
  /** Key of the field that belongs to the lit lines; empty if none does. */
  readonly active: string;
  /** True while the cursor is in the text: its field comes into view. */
  readonly follows: boolean;
  readonly problems: ReadonlyMap<string, readonly Problem[]>;
  readonly changes: ReadonlyMap<string, Effect>;
  readonly edit: (...edits: Edit[]) => void;
  /** Names that a reference may take. */
  readonly names: (reference: string) => readonly string[];
  readonly showInText: (path: Path) => void;
  readonly openPrompt: (path: Path, placeholders: ReadonlyMap<string, string>) => void;
}

const Context = createContext<Form | null>(null);

export const FormProvider = Context.Provider;

export function useForm(): Form {
  const form = useContext(Context);
  if (form === null) throw new Error("a field needs a form");
  return form;
}

/** A path as the engine takes it. */
export function setAt(path: Path, value: unknown): Edit {
  return { op: "set", path: [...path], value };
}

export function removeAt(path: Path): Edit {
  return { op: "remove", path: [...path] };
}
