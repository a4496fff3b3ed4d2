// A conversation as it grows: words, tools, questions. All of it is text nodes.
import { memo, type ReactNode, useEffect, useReducer, useRef, useState } from "react";

import { useTopic } from "../app/live.ts";
import { Badge, type Tone } from "../parts/badge.tsx";
import { Button } from "../parts/button.tsx";
import { Json } from "../parts/code.tsx";
import { cx } from "../parts/cx.ts";
import { Icon } from "../parts/icons.tsx";
import { clockText, durationText } from "../parts/time.tsx";
import { words } from "../words/conversation.ts";
import {
  type AgentItem,
  type ApprovalItem,
  type Conversation,
  type Item,
  type MarkItem,
  NOTHING_YET,
  type ToolItem,
  withFrame,
} from "./conversation.ts";
import { heardParts } from "./heard.ts";

/** A person who has scrolled up by more reads something older, and is left there. */
const NEAR_PX = 80;

/** Follows a call by its ledger; null follows none. Give a component one call only. */
export function useConversation(callId: string | null) {
  const [conversation, take] = useReducer(withFrame, NOTHING_YET);
  const feed = useTopic(callId === null ? null : { topic: "call", call: callId }, take);
  return { conversation, feed };
}

interface ItemProps {
  /** True if this person may not see the words. */
  hidden?: boolean;
  /** Answers an open question; left out where only the voice can. */
  onApprove?: ((yes: boolean) => void) | undefined;
}

export interface TranscriptProps extends ItemProps {
  conversation: Conversation;
  /** True while more is on its way. */
  busy: boolean;
  /** Not read out as it grows: it is being spoken. */
  quiet?: boolean;
  /** Stands there until somebody speaks. */
  nothing?: string | false;
  /** Below the last item. */
  children?: ReactNode;
}

export function Transcript(props: TranscriptProps) {
  const { conversation, busy, quiet = false, nothing, children, ...itemProps } = props;
  const { items, speech_ms, partial } = conversation;
  const scroller = useRef<HTMLDivElement>(null);
  const [follows, setFollows] = useState(true);
  const toEnd = () => scroller.current?.scrollTo({ top: scroller.current.scrollHeight });
  // biome-ignore lint/correctness/useExhaustiveDependencies: what is new is at the end
  useEffect(() => {
    if (follows) toEnd();
  }, [conversation, children, follows]);
  return (
    <div className="relative min-h-0 flex-1">
      <div
        ref={scroller}
        role="log"
        aria-label={words.label}
        aria-live={quiet ? "off" : "polite"}
        aria-busy={busy}
        tabIndex={0} // it scrolls, so the keyboard must reach it
        className="h-full overflow-y-auto px-4 py-3 -outline-offset-2"
        onScroll={({ currentTarget: { scrollHeight, scrollTop, clientHeight } }) =>
          setFollows(scrollHeight - scrollTop - clientHeight < NEAR_PX)
        }
      >
        <div className="grid max-w-3xl gap-2.5">
          {items.map((item, at) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: items are only appended
            <ItemView key={at} item={item} {...itemProps} />
          ))}
          {nothing && items.length === 0 && speech_ms === null && (
            <p className="text-muted">{nothing}</p>
          )}
          {busy && speech_ms !== null && (
            <Said by="caller" at_ms={speech_ms}>
              <span className="text-muted">{partial ? `${partial} …` : words.speaks}</span>
            </Said>
          )}
          {children}
        </div>
      </div>
      {!follows && (
        <div className="absolute inset-x-0 bottom-2 flex justify-center">
          <Button small icon="down" onClick={toEnd}>
            {words.latest}
          </Button>
        </div>
      )}
    </div>
  );
}

const COLOURS = {
  caller: "text-caller",
  human: "text-accent",
  agent: "text-agent",
  tool: "text-tool",
  engine: "text-muted",
} as const;

interface SaidProps {
  by: keyof typeof COLOURS;
  /** ms since the offer; in a call. */
  at_ms?: number | null;
  children: ReactNode;
}

/** A row of the conversation, with its speaker before it. */
export function Said({ by, at_ms = null, children }: SaidProps) {
  return (
    <div className="grid grid-cols-[auto_minmax(0,1fr)] gap-3">
      <span className={cx("flex items-baseline gap-2", at_ms === null ? "w-16" : "w-24")}>
        {at_ms !== null && <span className="w-10 text-xs text-muted">{clockText(at_ms)}</span>}
        <span className={cx("font-medium", COLOURS[by])}>{words.parties[by]}</span>
      </span>
      <div className="min-w-0 break-words whitespace-pre-wrap">{children}</div>
    </div>
  );
}

const ItemView = memo(function ItemView({ item, ...props }: ItemProps & { item: Item }) {
  const { at_ms } = item;
  switch (item.kind) {
    case "caller":
      return (
        <Said by={item.by} at_ms={at_ms}>
          {item.text || <NoWords>{props.hidden ? words.hidden : words.notUnderstood}</NoWords>}
          {item.text !== "" && item.confidence > 0 && (
            <span className="ml-2 text-xs text-muted">{words.sure(item.confidence)}</span>
          )}
        </Said>
      );
    case "agent":
      return (
        <Said by="agent" at_ms={at_ms}>
          <Answer item={item} />
        </Said>
      );
    case "tool":
      return (
        <Said by="tool" at_ms={at_ms}>
          <Tool item={item} />
        </Said>
      );
    case "filler":
      return (
        <Said by="agent" at_ms={at_ms}>
          {item.text ? <span className="italic">{item.text}</span> : <NoWords />}{" "}
          <span className="text-xs text-muted">{words.filler}</span>
        </Said>
      );
    case "approval":
      return (
        <Said by={item.question ? "agent" : "engine"} at_ms={at_ms}>
          <Approval item={item} onApprove={props.onApprove} />
        </Said>
      );
    case "keys":
      return (
        <Said by="caller" at_ms={at_ms}>
          {words.keys(item.keys)}
        </Said>
      );
    case "mark":
      return (
        <Said by="engine" at_ms={at_ms}>
          <Mark item={item} />
        </Said>
      );
  }
});

function NoWords({ children = words.hidden }: { children?: ReactNode }) {
  return <span className="text-muted italic">{children}</span>;
}

/** The part of an answer that was cut that the caller did not hear is struck out. */
function Answer({ item: { text, heard, by } }: { item: AgentItem }) {
  return (
    <>
      {by && (
        <>
          <Badge tone="accent">{words.saidBy[by] ?? by}</Badge>{" "}
        </>
      )}
      {heardParts(text, heard ?? "", heard !== null).map((part) =>
        part.heard ? (
          `${part.text} `
        ) : (
          <del key={part.text} className="text-muted">
            <span className="sr-only">{words.notHeard} </span>
            {part.text}{" "}
          </del>
        ),
      )}
      {!text && !heard && <NoWords />}
    </>
  );
}

const TONES: Readonly<Record<string, Tone>> = {
  running: "accent",
  ok: "good",
  error: "bad",
  timeout: "bad",
  refused: "warn",
  cancelled: "neutral",
};

function Tool({ item }: { item: ToolItem }) {
  const { name, status, took_ms, source, message, sent, cut } = item;
  const from = words.tool.sources[source];
  return (
    <details className="min-w-0 rounded-md border border-line px-2 whitespace-normal">
      <summary className="flex min-h-7 cursor-pointer flex-wrap items-center gap-x-2 gap-y-0.5 py-0.5">
        <span className="font-mono text-xs break-all">{name}</span>
        <Badge tone={TONES[status] ?? "neutral"}>
          {status === "running" ? words.tool.running : status}
        </Badge>
        {item.parent && <Badge>{words.tool.stepOf}</Badge>}
        {from && <Badge>{from}</Badge>}
        {took_ms !== null && <span className="text-xs text-muted">{durationText(took_ms)}</span>}
        <span className="min-w-0 flex-1 truncate text-xs text-muted">{brief(item.arguments)}</span>
      </summary>
      <dl className="grid gap-2 border-t border-line py-2">
        <Detail title={words.tool.arguments}>
          <Json value={item.arguments ?? {}} label={words.tool.arguments} />
        </Detail>
        {message && <Detail title={words.tool.said}>{message}</Detail>}
        {sent !== undefined && (
          <Detail title={words.tool.result}>
            <Json value={sent} label={words.tool.result} />
          </Detail>
        )}
        {cut.length > 0 && <Detail title={words.tool.cut}>{cut.join(", ")}</Detail>}
      </dl>
    </details>
  );
}

function Detail({ title, children }: { title: string; children: ReactNode }) {
  return (
    <div>
      <dt className="text-xs text-muted">{title}</dt>
      <dd>{children}</dd>
    </div>
  );
}

/** Arguments in one line, for the folded row. */
function brief(given: unknown): string {
  if (typeof given !== "object" || given === null) return "";
  return Object.entries(given)
    .map(([name, value]) => `${name}: ${typeof value === "string" ? value : JSON.stringify(value)}`)
    .join(", ");
}

function Approval({ item, onApprove }: Pick<ItemProps, "onApprove"> & { item: ApprovalItem }) {
  const { question, answer } = item;
  return (
    <div className="flex flex-wrap items-center gap-2">
      <span>{question || words.approvalGiven}</span>
      {answer !== "" && (
        <Badge tone={answer === "yes" ? "good" : "warn"}>{words.approval[answer] ?? answer}</Badge>
      )}
      {answer === "" && onApprove && (
        <fieldset className="flex gap-2" aria-label={words.approvalAsked}>
          <Button small look="primary" icon="check" onClick={() => onApprove(true)}>
            {words.yes}
          </Button>
          <Button small icon="close" onClick={() => onApprove(false)}>
            {words.no}
          </Button>
        </fieldset>
      )}
    </div>
  );
}

function Mark({ item: { type, text, who, failed } }: { item: MarkItem }) {
  return (
    <span className={cx("flex flex-wrap items-center gap-x-2", failed ? "text-bad" : "text-muted")}>
      <Icon name={failed ? "warning" : type === "call.flagged" ? "flag" : "info"} size={14} />
      <span className="font-medium">{words.marks[type]}</span>
      {text && <span className="min-w-0 break-words">{text}</span>}
      {who && <span className="text-xs">{who}</span>}
    </span>
  );
}
