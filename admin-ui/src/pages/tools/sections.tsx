import { Link } from "@tanstack/react-router";

import { cx } from "../../parts/cx.ts";
import { words } from "../../words/tools.ts";

const TABS = [
  { to: "/tools", label: words.tabs.tools },
  { to: "/mcp", label: words.tabs.servers },
] as const;

/** The two halves of the page; each has an address of its own. */
export function Sections({ current }: { current: "/tools" | "/mcp" }) {
  return (
    <nav aria-label={words.sections} className="mb-4 flex gap-1 border-b border-line">
      {TABS.map(({ to, label }) => (
        <Link
          key={to}
          to={to}
          aria-current={to === current ? "page" : undefined}
          className={cx(
            "-mb-px inline-flex h-8 items-center border-b-2 px-2.5 -outline-offset-2",
            to === current
              ? "border-accent font-medium text-ink"
              : "border-transparent text-muted hover:text-ink",
          )}
        >
          {label}
        </Link>
      ))}
    </nav>
  );
}
