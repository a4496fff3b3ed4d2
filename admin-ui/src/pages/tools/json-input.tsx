import {
  type ComponentProps,
  createContext,
  type Dispatch,
  type SetStateAction,
  useContext,
  useEffect,
  useState,
} from "react";

import { TextArea } from "../../parts/field.tsx";
import { words } from "../../words/tools.ts";
import { type Json, parsed, pretty } from "./schema.ts";

/** Keeps the number of texts that are not JSON: what is shown is not what would be sent then. */
export const InvalidJson = createContext<Dispatch<SetStateAction<number>>>(() => {});

interface JsonInputProps extends Omit<ComponentProps<"textarea">, "value" | "onChange"> {
  value: Json | undefined;
  /** Undefined for an empty text. Not called while the text is not JSON. */
  onValue: (value: Json | undefined) => void;
}

/** A value as JSON. A text that is not JSON yet stays as it was typed. */
export function JsonInput({ value, onValue, ...rest }: JsonInputProps) {
  const [typed, setTyped] = useState(() => pretty(value));
  const read = typed.trim() === "" ? { value: undefined } : parsed(typed);
  const problem = "problem" in read ? read.problem : "";
  const isInvalid = problem !== "";
  const count = useContext(InvalidJson);
  useEffect(() => {
    if (!isInvalid) return;
    count((before) => before + 1);
    return () => count((before) => before - 1);
  }, [isInvalid, count]);
  const same = "value" in read && JSON.stringify(read.value) === JSON.stringify(value);
  const shown = problem || same ? typed : pretty(value); // it was changed elsewhere, by the form
  return (
    <>
      <TextArea
        spellCheck={false}
        {...rest}
        className="font-mono text-xs"
        value={shown}
        onChange={(event) => {
          const text = event.target.value;
          setTyped(text);
          const found = text.trim() === "" ? { value: undefined } : parsed(text);
          if ("value" in found) onValue(found.value);
        }}
      />
      {problem && (
        <p role="alert" className="text-xs text-bad">
          {words.form.notJson(problem)}
        </p>
      )}
    </>
  );
}
