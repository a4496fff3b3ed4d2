import { Tabs as Radix } from "radix-ui";
import type { ReactNode } from "react";

export interface Tab<T extends string> {
  id: T;
  label: ReactNode;
  /** Shown beside the label, such as a count. */
  aside?: ReactNode;
}

export interface TabsProps<T extends string> {
  label: string;
  tabs: readonly Tab<T>[];
  /** The page keeps it in the address. */
  current: T;
  onChange: (tab: T) => void;
  /** The focus alone does not choose: where a question may stand before the other tab. */
  manual?: boolean;
  /** The content of the current tab. */
  children: ReactNode;
}

export function Tabs<T extends string>(props: TabsProps<T>) {
  const { label, tabs, current, onChange, manual = false, children } = props;
  return (
    <Radix.Root
      value={current}
      activationMode={manual ? "manual" : "automatic"}
      onValueChange={(id) => {
        const chosen = tabs.find((each) => each.id === id);
        if (chosen) onChange(chosen.id);
      }}
    >
      <Radix.List aria-label={label} className="flex gap-1 overflow-x-auto border-b border-line">
        {tabs.map((tab) => (
          <Radix.Trigger
            key={tab.id}
            value={tab.id}
            className="-mb-px inline-flex h-8 items-center gap-1.5 border-b-2 border-transparent px-2.5 whitespace-nowrap text-muted -outline-offset-2 hover:text-ink data-[state=active]:border-accent data-[state=active]:font-medium data-[state=active]:text-ink"
          >
            {tab.label}
            {tab.aside !== undefined && <span className="text-xs text-muted">{tab.aside}</span>}
          </Radix.Trigger>
        ))}
      </Radix.List>
      <Radix.Content value={current} className="pt-4 -outline-offset-2">
        {children}
      </Radix.Content>
    </Radix.Root>
  );
}
