// Fields of forms. A `Field` gives its input the label, the hint and the error.
import {
  type ComponentProps,
  createContext,
  type ReactNode,
  useContext,
  useEffect,
  useId,
  useRef,
  useState,
} from "react";

import { cx } from "./cx.ts";
import { Icon } from "./icons.tsx";

interface Labelled {
  id: string;
  described: string | undefined;
  invalid: boolean;
}

const Context = createContext<Labelled | null>(null);

export interface FieldProps {
  label: ReactNode;
  hint?: ReactNode;
  error?: string | undefined;
  /** Beside the label, at the right. */
  aside?: ReactNode;
  /** For a screen reader only. */
  hideLabel?: boolean;
  children: ReactNode;
}

export function Field({ label, hint, error, aside, hideLabel = false, children }: FieldProps) {
  const id = useId();
  const described = [hint && `${id}-hint`, error && `${id}-error`].filter(Boolean).join(" ");
  return (
    <div className="grid content-start gap-1">
      <div className={cx("flex items-baseline justify-between gap-2", hideLabel && "sr-only")}>
        <label htmlFor={id} className="font-medium">
          {label}
        </label>
        {aside}
      </div>
      <Context value={{ id, described: described || undefined, invalid: Boolean(error) }}>
        {children}
      </Context>
      {hint && (
        <p id={`${id}-hint`} className="text-xs text-muted">
          {hint}
        </p>
      )}
      {error && (
        <p id={`${id}-error`} role="alert" className="flex gap-1 text-xs text-bad">
          <Icon name="warning" size={14} />
          {error}
        </p>
      )}
    </div>
  );
}

function useLabelled() {
  const field = useContext(Context);
  if (field === null) return {};
  return {
    id: field.id,
    "aria-describedby": field.described,
    "aria-invalid": field.invalid || undefined,
  };
}

const INPUT =
  "w-full rounded-md border border-strong bg-raised px-2 text-ink disabled:opacity-60 aria-invalid:border-bad";

export function TextInput({ className, ...rest }: ComponentProps<"input">) {
  return <input type="text" {...useLabelled()} {...rest} className={cx(INPUT, "h-8", className)} />;
}

const PAUSE_MS = 300;

export interface LateInputProps
  extends Omit<ComponentProps<"input">, "value" | "onChange" | "onBlur" | "onKeyDown"> {
  value: string;
  onValue: (value: string) => void;
}

/**
 * An input whose value is kept elsewhere, such as in the address, and gets there after a pause of
 * typing, with Enter, or when the field is left. What is being typed stays as it is meanwhile.
 */
export function LateInput({ value, onValue, ...rest }: LateInputProps) {
  const [typed, setTyped] = useState(value);
  const [known, setKnown] = useState(value);
  const [sent, setSent] = useState(false);
  if (value !== known) {
    setKnown(value);
    setSent(false);
    if (!sent) setTyped(value); // it was changed elsewhere: a saved view, the way back
  }
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => () => clearTimeout(timer.current), []);
  const latest = useRef(onValue); // after the pause another field may have changed
  latest.current = onValue;
  const send = (next: string) => {
    clearTimeout(timer.current);
    timer.current = undefined;
    setSent(next !== value);
    latest.current(next);
  };
  return (
    <TextInput
      {...rest}
      value={typed}
      onChange={({ target }) => {
        setTyped(target.value);
        clearTimeout(timer.current);
        timer.current = setTimeout(() => send(target.value), PAUSE_MS);
      }}
      onBlur={() => {
        if (timer.current !== undefined) send(typed);
        else setTyped(value);
        setSent(false); // from now on the field shows the value as it was taken
      }}
      onKeyDown={(event) => event.key === "Enter" && send(typed)}
    />
  );
}

export function TextArea({ className, ...rest }: ComponentProps<"textarea">) {
  return (
    <textarea rows={4} {...useLabelled()} {...rest} className={cx(INPUT, "py-1.5", className)} />
  );
}

export interface NumberInputProps
  extends Omit<ComponentProps<"input">, "value" | "onChange" | "type"> {
  value: number | null;
  /** Null for an empty field. */
  onValue: (value: number | null) => void;
  /** Such as "ms". */
  unit?: string;
}

export function NumberInput({ value, onValue, unit, className, ...rest }: NumberInputProps) {
  return (
    <span className="relative block">
      <input
        inputMode="decimal"
        {...useLabelled()}
        {...rest}
        type="number"
        value={value ?? ""}
        onChange={(event) => {
          const given = event.target.valueAsNumber;
          onValue(Number.isNaN(given) ? null : given);
        }}
        className={cx(INPUT, "h-8", unit && "pr-10", className)}
      />
      {unit && (
        <span className="pointer-events-none absolute inset-y-0 right-2 flex items-center text-muted">
          {unit}
        </span>
      )}
    </span>
  );
}

export interface Option<T extends string = string> {
  value: T;
  label: string;
  disabled?: boolean;
}

export interface SelectProps<T extends string>
  extends Omit<ComponentProps<"select">, "value" | "onChange" | "children"> {
  value: T;
  onValue: (value: T) => void;
  options: readonly Option<T>[];
}

/** The browser's own list: it works by keyboard, by touch and with a screen reader. */
export function Select<T extends string>(props: SelectProps<T>) {
  const { value, onValue, options, className, ...rest } = props;
  return (
    <span className={cx("relative block", className)}>
      <select
        {...useLabelled()}
        {...rest}
        value={value}
        onChange={(event) => {
          const chosen = options.find((each) => each.value === event.target.value);
          if (chosen) onValue(chosen.value);
        }}
        className={cx(INPUT, "h-8 appearance-none pr-7")}
      >
        {options.map((each) => (
          <option key={each.value} value={each.value} disabled={each.disabled}>
            {each.label}
          </option>
        ))}
      </select>
      <span className="pointer-events-none absolute inset-y-0 right-2 flex items-center text-muted">
        <Icon name="down" size={12} />
      </span>
    </span>
  );
}

interface OnOffProps extends Omit<ComponentProps<"input">, "type" | "onChange" | "checked"> {
  label: ReactNode;
  hint?: ReactNode;
  checked: boolean;
  onChecked: (checked: boolean) => void;
}

/** Chooses; what is chosen counts when the form is sent. */
export function Checkbox({ label, hint, onChecked, className, ...rest }: OnOffProps) {
  return (
    <label className={cx("flex min-h-6 items-start gap-2", className)}>
      <input
        {...rest}
        type="checkbox"
        onChange={(event) => onChecked(event.target.checked)}
        className="mt-0.5 size-4 shrink-0 accent-accent"
      />
      <span>
        {label}
        {hint && <span className="block text-xs text-muted">{hint}</span>}
      </span>
    </label>
  );
}

/** Switches at once. */
export function Switch({ label, hint, onChecked, className, ...rest }: OnOffProps) {
  return (
    <label className={cx("flex min-h-6 items-start gap-2", className)}>
      <input
        {...rest}
        type="checkbox"
        role="switch"
        aria-checked={rest.checked}
        onChange={(event) => onChecked(event.target.checked)}
        className={cx(
          "relative mt-0.5 h-4.5 w-8 shrink-0 cursor-pointer appearance-none rounded-full border border-strong bg-hover",
          "before:absolute before:top-0.5 before:left-0.5 before:size-3 before:rounded-full before:bg-strong before:transition-transform",
          "checked:border-accent checked:bg-accent checked:before:translate-x-3.5 checked:before:bg-on-accent disabled:opacity-50",
        )}
      />
      <span>
        {label}
        {hint && <span className="block text-xs text-muted">{hint}</span>}
      </span>
    </label>
  );
}
