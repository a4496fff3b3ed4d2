import { Link, type LinkProps } from "@tanstack/react-router";
import type { ComponentProps, ReactNode } from "react";

import { cx } from "./cx.ts";
import { Icon, type IconName } from "./icons.tsx";
import { Tooltip } from "./tooltip.tsx";

export type Look = "plain" | "primary" | "quiet" | "danger";

const LOOKS: Record<Look, string> = {
  plain: "border border-line bg-raised text-ink hover:bg-hover",
  primary: "border border-accent bg-accent text-on-accent hover:bg-accent-hover",
  quiet: "border border-transparent text-ink hover:bg-hover",
  danger: "border border-bad bg-bad text-on-bad hover:opacity-90",
};

const shape = (look: Look, small: boolean) =>
  cx(
    "inline-flex shrink-0 select-none items-center justify-center gap-1.5 rounded-md font-medium whitespace-nowrap",
    "transition-colors disabled:opacity-50 disabled:pointer-events-none",
    small ? "h-6 px-2 text-xs" : "h-8 px-3",
    LOOKS[look],
  );

interface Shape {
  look?: Look;
  /** 24 px high, for rows. */
  small?: boolean;
  icon?: IconName;
}

export interface ButtonProps extends Shape, ComponentProps<"button"> {
  /** True while its request is under way: it cannot be pressed again. */
  busy?: boolean;
}

export function Button(props: ButtonProps) {
  const { look = "plain", small = false, icon, busy = false, className, children, ...rest } = props;
  return (
    <button
      type="button"
      aria-busy={busy || undefined}
      {...rest}
      disabled={rest.disabled || busy}
      className={cx(shape(look, small), className)}
    >
      {busy ? <Spinner /> : icon && <Icon name={icon} size={small ? 14 : 16} />}
      {children}
    </button>
  );
}

export interface IconButtonProps extends ComponentProps<"button"> {
  /** Says what it does, to a screen reader and in the tooltip. */
  label: string;
  icon: IconName;
  look?: Look;
  small?: boolean;
}

export function IconButton(props: IconButtonProps) {
  const { label, icon, look = "quiet", small = false, className, ...rest } = props;
  return (
    <Tooltip text={label}>
      <button
        type="button"
        aria-label={label}
        {...rest}
        className={cx(shape(look, small), small ? "w-6 px-0" : "w-8 px-0", className)}
      >
        <Icon name={icon} size={small ? 14 : 16} />
      </button>
    </Tooltip>
  );
}

/** A link to another page that looks like a button. */
export function LinkButton(props: LinkProps & Shape & { children: ReactNode; className?: string }) {
  const { look = "plain", small = false, icon, children, className, ...rest } = props;
  return (
    <Link {...rest} className={cx(shape(look, small), className)}>
      {icon && <Icon name={icon} size={small ? 14 : 16} />}
      {children}
    </Link>
  );
}

export function Spinner() {
  return (
    <span
      aria-hidden="true"
      className="size-3.5 animate-spin rounded-full border-2 border-current border-r-transparent"
    />
  );
}
