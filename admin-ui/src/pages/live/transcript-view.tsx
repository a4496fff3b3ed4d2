// What was said and done in the open call, as it grows.
import { memo, type ReactNode, useEffect, useRef, useState } from "react";

import { Badge } from "../../parts/badge.tsx";
import { Button } from "../../parts/button.tsx";
import { Json } from "../../parts/code.tsx";
import { cx } from "../../parts/cx.ts";
import { Icon } from "../../parts/icons.tsx";
import { clockText, durationText } from "../../parts/time.tsx";
import { words } from "../../words/live.ts";
import { cutOf, type Entry, type LiveCallState, type ToolUse } from "./transcript.ts";

/** Pixels from the end within which the reader follows the call. */
const NEAR = 40;

export function TranscriptView({ state }: { state: LiveCallState }) {
  const scroller = useRef<HTMLDivElement>(null);
  const [follows, setFollows] = useState(true);
  const { entries, callerSpeaks } = state;
  const toEnd = () => scroller.current?.scrollTo({ top: scroller.current.scrollHeight });
  // biome-ignore lint/correctness/useExhaustiveDependencies: each new line moves the end
  useEffect(() => {
    if (follows) toEnd();
  }, [entries, callerSpeaks, follows]);
  return (
    <div className="relative min-h-0 flex-1">
      <div
        ref={scroller}
        role="log"
        aria-live="off"
        aria-label={words.call.transcript}
        tabIndex={0}
        className="h-full overflow-y-auto px-4 py-3 -outline-offset-2"
        onScroll={({ currentTarget: { scrollHeight, scrollTop, clientHeight } }) =>
          setFollows(scrollHeight - scrollTop - clientHeight < NEAR)
        }
      >
        {entries.length === 0 && <p className="text-muted">{words.call.nothing}</p>}
        {entries.map((entry) => (
          <EntryView key={entry.key} entry={entry} />
        ))}
        {callerSpeaks && (
          <p className="grid grid-cols-[3.5rem_1fr] py-1 text-muted">
            <span />
            {words.call.callerSpeaks}
          </p>
        )}
      </div>
      {!follows && (
        <div className="absolute inset-x-0 bottom-2 flex justify-center">
          <Button small icon="down" onClick={toEnd}>
            {words.call.latest}
          </Button>
        </div>
      )}
    </div>
  );
}

const EntryView = memo(({ entry }: { entry: Entry }) => (
  <div className="grid grid-cols-[3.5rem_1fr] py-1">
    <span className="text-xs leading-5 text-muted">{clockText(entry.at_ms)}</span>
    <div className="min-w-0 break-words">{inside(entry)}</div>
  </div>
));

function inside(entry: Entry): ReactNode {
  switch (entry.kind) {
    case "caller":
      return <Said side="caller">{entry.text || <Hidden />}</Said>;
    case "agent":
      return <Answer text={entry.text} heard={entry.heard} by={entry.by} />;
    case "tool":
      return <Tool use={entry.use} />;
    case "mark":
      return <Mark type={entry.type} text={entry.text} who={entry.who} />;
  }
}

const Hidden = () => <span className="text-muted">{words.hidden}</span>;

function Said({ side, children }: { side: "caller" | "agent"; children: ReactNode }) {
  return (
    <>
      <span className={cx("font-medium", side === "caller" ? "text-caller" : "text-agent")}>
        {words.sides[side]}
      </span>{" "}
      {children}
    </>
  );
}

/** An answer; what the caller did not hear of it is struck out. */
function Answer({ text, heard, by }: { text: string; heard: string | null; by: string }) {
  const [spoken, unheard] = heard === null ? [text, ""] : cutOf(text, heard);
  return (
    <Said side="agent">
      {by && <Badge tone="accent">{words.call.saidBy[by] ?? by}</Badge>}{" "}
      {spoken || unheard ? spoken : <Hidden />}
      {unheard && (
        <s className="text-muted">
          <span className="sr-only">{words.call.notHeard}: </span>
          {unheard}
        </s>
      )}
    </Said>
  );
}

function Tool({ use }: { use: ToolUse }) {
  const failed = use.status !== "" && use.status !== "ok";
  const took = use.to_ms === null ? null : use.to_ms - use.from_ms;
  return (
    <details className="rounded-md border border-line bg-surface px-2">
      <summary className="flex min-h-7 cursor-pointer list-none items-center gap-2">
        <span className="text-tool">
          <Icon name="tools" size={14} />
        </span>
        <span className="min-w-0 truncate font-mono text-xs">{use.name}</span>
        {use.parent && <span className="text-xs text-muted">{words.call.stepOf}</span>}
        <span className="ml-auto flex items-center gap-2 text-xs">
          {use.status === "" ? (
            <Badge tone="accent">{words.call.running}</Badge>
          ) : (
            <Badge tone={failed ? "bad" : "good"}>{use.status}</Badge>
          )}
          {took !== null && <span className="text-muted">{durationText(took)}</span>}
        </span>
      </summary>
      <div className="grid gap-1 border-t border-line py-2">
        <p className="text-xs text-muted">{words.call.arguments}</p>
        <Json value={use.arguments} label={words.call.arguments} />
        {use.message && (
          <>
            <p className="text-xs text-muted">{words.call.result}</p>
            <p>{use.message}</p>
          </>
        )}
      </div>
    </details>
  );
}

function Mark({ type, text, who }: { type: string; text: string; who: string }) {
  const bad = type === "call.trouble" || type === "ledger.gap";
  return (
    <span className={cx("flex flex-wrap items-center gap-x-2", bad ? "text-bad" : "text-muted")}>
      <Icon name={bad ? "warning" : type === "call.flagged" ? "flag" : "info"} size={14} />
      <span className="font-medium">{words.call.marks[type] ?? type}</span>
      {text && <span className="min-w-0 break-words">{text}</span>}
      {who && <span className="text-xs">{who}</span>}
    </span>
  );
}
