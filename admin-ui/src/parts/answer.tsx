// The states that every page has while it waits for the engine, and when there is nothing to show.
import type { UseQueryResult } from "@tanstack/react-query";
import { type ReactNode, useEffect, useState } from "react";

import { Refused } from "../api/client.ts";
import { sentence } from "../app/api.ts";
import { words } from "../words/parts.ts";
import { Button } from "./button.tsx";
import { Icon, type IconName } from "./icons.tsx";
import { Time } from "./time.tsx";

export interface AnswerProps<T> {
  query: UseQueryResult<T, Error>;
  /** In place of the grey lines, in the shape of what comes. */
  skeleton?: ReactNode;
  children: (data: T) => ReactNode;
}

/** Renders `children(data)`, or what stands in its way: loading, an error, a missing permission. */
export function Answer<T>({ query, skeleton, children }: AnswerProps<T>) {
  if (query.data === undefined) {
    if (query.error) return <Problem error={query.error} onRetry={() => void query.refetch()} />;
    return query.fetchStatus === "idle" ? null : <Loading>{skeleton}</Loading>;
  }
  return (
    <>
      {query.error && (
        <StaleNote>
          {words.refetchFailed} {sentence(query.error)} <Time at={query.dataUpdatedAt} />
        </StaleNote>
      )}
      {children(query.data)}
    </>
  );
}

/** Appears after 150 ms: what comes sooner does not flicker. */
export function Loading({ children }: { children?: ReactNode }) {
  const [shown, setShown] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setShown(true), 150);
    return () => clearTimeout(timer);
  }, []);
  return (
    <div role="status" aria-busy="true" className="min-h-24">
      <span className="sr-only">{words.loading}</span>
      {shown && (children ?? <Skeleton />)}
    </div>
  );
}

const WIDTHS = ["w-3/5", "w-4/5", "w-2/5", "w-3/4", "w-1/2"];

export function Skeleton({ lines = 5 }: { lines?: number }) {
  return (
    <div aria-hidden="true" className="grid gap-3 p-4">
      {Array.from({ length: lines }, (_, line) => line).map((line) => (
        <div
          key={line}
          className={`h-4 animate-pulse rounded bg-hover ${WIDTHS[line % WIDTHS.length]}`}
        />
      ))}
    </div>
  );
}

/** Data that is shown although it is out of date. */
export function StaleNote({ since, children }: { since?: number; children?: ReactNode }) {
  return (
    <p
      role="status"
      className="mb-3 flex items-center gap-2 rounded-md bg-warn-soft px-3 py-1.5 text-warn"
    >
      <Icon name="clock" size={14} />
      <span>
        {children ?? (
          <>
            {words.staleSince} <Time at={since ?? 0} />
          </>
        )}
      </span>
    </p>
  );
}

/** What the engine said, with the id under which its log has more. */
export function Problem({ error, onRetry }: { error: Error; onRetry?: () => void }) {
  const refusal = error instanceof Refused ? error.refusal : null;
  const forbidden = error instanceof Refused && error.status === 403;
  return (
    <div role="alert" className="grid justify-items-center gap-2 px-4 py-12 text-center">
      <span className={forbidden ? "text-muted" : "text-bad"}>
        <Icon name={forbidden ? "lock" : "warning"} size={24} />
      </span>
      <p className="text-base font-semibold">
        {forbidden ? words.forbiddenTitle : words.failedTitle}
      </p>
      <p className="max-w-prose break-words">{sentence(error)}</p>
      {forbidden && <p className="text-muted">{words.forbiddenHint}</p>}
      {refusal?.request && (
        <p className="text-xs text-muted">
          {words.requestId} <code className="font-mono select-all">{refusal.request}</code>
        </p>
      )}
      {onRetry && !forbidden && (
        <Button icon="refresh" onClick={onRetry}>
          {words.tryAgain}
        </Button>
      )}
    </div>
  );
}

export interface EmptyProps {
  icon?: IconName;
  title: string;
  /** What to do next. */
  children?: ReactNode;
}

/** Nothing to show, and what can be done about it. */
export function Empty({ icon = "info", title, children }: EmptyProps) {
  return (
    <div className="grid grid-cols-[minmax(0,1fr)] justify-items-center gap-2 px-4 py-12 text-center">
      <span className="text-muted">
        <Icon name={icon} size={24} />
      </span>
      <p className="text-base font-semibold">{title}</p>
      {children && (
        <div className="grid w-full max-w-prose grid-cols-[minmax(0,1fr)] justify-items-center gap-3 text-muted">
          {children}
        </div>
      )}
    </div>
  );
}
