import { type ReactNode, useState } from "react";

import { Icon } from "./icons.tsx";

interface FoldProps {
  title: string;
  open?: boolean;
  children: ReactNode;
}

/** A part of a form that is folded away, unless it is `open` at first. */
export function Fold({ title, open = false, children }: FoldProps) {
  const [shown, setShown] = useState(open);
  return (
    <details
      open={shown}
      onToggle={(event) => setShown(event.currentTarget.open)}
      className="group"
    >
      <summary className="flex min-h-6 cursor-pointer list-none items-center gap-1 font-medium">
        <span className="text-muted transition-transform group-open:rotate-90">
          <Icon name="right" size={14} />
        </span>
        {title}
      </summary>
      <div className="grid gap-3 pt-2">{children}</div>
    </details>
  );
}
