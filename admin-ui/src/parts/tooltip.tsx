import { Tooltip as Radix } from "radix-ui";
import type { ReactNode } from "react";

/** A hint beside one element, which must take a ref. It repeats or adds; nothing is only in here. */
export function Tooltip({ text, children }: { text: ReactNode; children: ReactNode }) {
  return (
    <Radix.Root>
      <Radix.Trigger asChild>{children}</Radix.Trigger>
      <Radix.Portal>
        <Radix.Content
          sideOffset={6}
          collisionPadding={8}
          className="z-50 max-w-80 rounded-md bg-ink px-2 py-1 text-xs text-surface shadow-high"
        >
          {text}
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  );
}

/** Goes around the page once: between two tooltips there is no second wait. */
export function TooltipProvider({ children }: { children: ReactNode }) {
  return <Radix.Provider delayDuration={400}>{children}</Radix.Provider>;
}
