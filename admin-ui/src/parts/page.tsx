import { type ReactNode, useEffect } from "react";

export interface PageProps {
  title: string;
  /** Beside the title, such as a badge or a count. */
  aside?: ReactNode;
  /** Buttons at the right of the title. */
  actions?: ReactNode;
  /** Takes the whole height and scrolls inside, for long lists and editors. */
  fills?: boolean;
  children: ReactNode;
}

/** The frame of a page's content: its heading, which is also the tab's title, and its actions. */
export function Page({ title, aside, actions, fills = false, children }: PageProps) {
  useEffect(() => {
    document.title = `${title} – Cordboard`;
  }, [title]);
  return (
    <div className={fills ? "flex h-full min-h-0 flex-col" : "pb-12"}>
      <header className="flex min-h-14 flex-wrap items-center gap-x-3 gap-y-2 px-6 py-2.5 phone:px-4">
        <h1 tabIndex={-1} className="min-w-0 truncate text-xl outline-none">
          {title}
        </h1>
        {aside}
        {actions && <div className="ml-auto flex flex-wrap items-center gap-2">{actions}</div>}
      </header>
      <div className={fills ? "flex min-h-0 flex-1 flex-col" : "px-6 phone:px-4"}>{children}</div>
    </div>
  );
}

export interface SectionProps {
  title?: string;
  actions?: ReactNode;
  /** Without a margin inside, for a table. */
  flush?: boolean;
  children: ReactNode;
}

/** A titled part of a page, on the raised colour. Sections do not stand inside of sections. */
export function Section(props: SectionProps) {
  const { title, actions, flush = false, children } = props;
  return (
    <section className="mb-4 rounded-lg border border-line bg-raised">
      {title && (
        <div className="flex min-h-11 flex-wrap items-center justify-between gap-2 border-b border-line px-4 py-1.5">
          <h2>{title}</h2>
          {actions && <div className="flex flex-wrap gap-2">{actions}</div>}
        </div>
      )}
      <div className={flush ? "" : "p-4"}>{children}</div>
    </section>
  );
}
