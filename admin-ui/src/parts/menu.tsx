import type { LinkProps } from "@tanstack/react-router";
import { lazy, type ReactNode, Suspense, useState } from "react";

import type { IconName } from "./icons.tsx";

export interface MenuAction {
  label: string;
  icon?: IconName;
  danger?: boolean;
  disabled?: boolean;
  /** A mark before the label, for one of several. */
  checked?: boolean;
  onSelect: () => void;
}

export interface MenuLink {
  label: string;
  icon?: IconName;
  to: LinkProps;
}

/** A line between two groups, with a heading if it has words. */
export interface MenuBreak {
  heading: string;
}

export type MenuItem = MenuAction | MenuLink | MenuBreak;

export interface MenuProps {
  /** A button, which must take a ref. */
  trigger: ReactNode;
  items: readonly MenuItem[];
  align?: "start" | "end";
}

// Loaded after the first page is there: it brings the placing of menus beside their buttons.
const RadixMenu = lazy(() => import("./radix-menu.tsx"));

/** A button with a menu. A press that comes before the menu's code opens it afterwards. */
export function Menu(props: MenuProps) {
  const [early, setEarly] = useState(false);
  const waiting = (
    // biome-ignore lint/a11y: it only listens to the button inside
    <span className="contents" onClick={() => setEarly(true)}>
      {props.trigger}
    </span>
  );
  return (
    <Suspense fallback={waiting}>
      <RadixMenu {...props} startsOpen={early} />
    </Suspense>
  );
}
