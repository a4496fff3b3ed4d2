// A conversation as it grows: words, tools, questions. All of it is text nodes.
import { Fragment, memo, type ReactNode, useEffect, useRef } from "react";

import { Badge, type Tone } from "../../parts/badge.tsx";
import { Button } from "../../parts/button.tsx";
import { Json } from "../../parts/code.tsx";
import { cx } from "../../parts/cx.ts";
import { durationText } from "../../parts/time.tsx";
import { words } from "../../words/try.ts";
import type { AgentItem, Item, ToolItem } from "./conversation.ts";

const text = words.transcript;
/** A person who has scrolled up by more reads something older, and is left there. */
const NEAR_PX = 80;

export interface TranscriptProps {
  items: readonly Item[];
  /** True while more of the last item is on its way. */
  busy: boolean;
  /** Answers an open question; left out where only the voice can. */
  onApprove?: ((yes: boolean) => void) | undefined;
  /** Below the last item. */
  children?: ReactNode;
}

export function Transcript({ items, busy, onApprove, children }: TranscriptProps) {
  const box = useRef<HTMLDivElement>(null);
  const follows = useRef(true);
  // biome-ignore lint/correctness/useExhaustiveDependencies: what is new is at the end
  useEffect(() => {
    if (follows.current && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [items, children]);
  return (
    <div
      ref={box}
      role="log"
      aria-label={text.label}
      aria-busy={busy}
      tabIndex={0} // it scrolls, so the keyboard must reach it
      className="min-h-0 flex-1 overflow-y-auto px-4 py-3 -outline-offset-2"
      onScroll={({ currentTarget: { scrollHeight, scrollTop, clientHeight } }) => {
        follows.current = scrollHeight - scrollTop - clientHeight < NEAR_PX;
      }}
    >
      <div className="grid max-w-3xl gap-2.5">
        {items.map((item, at) => (
          // Items are only appended, so the place is what identifies one.
          // biome-ignore lint/suspicious/noArrayIndexKey: see above
          <Fragment key={at}>
            <Line item={item} onApprove={onApprove} />
          </Fragment>
        ))}
        {children}
      </div>
    </div>
  );
}

const COLOURS = {
  caller: "text-caller",
  agent: "text-agent",
  tool: "text-tool",
  engine: "text-muted",
} as const;

/** A line of the conversation, with its speaker before it. */
export function Said({ by, children }: { by: keyof typeof COLOURS; children: ReactNode }) {
  return (
    <div className="grid grid-cols-[4rem_minmax(0,1fr)] gap-3">
      <span className={cx("font-medium", COLOURS[by])}>{words.parties[by]}</span>
      <div className="min-w-0 break-words whitespace-pre-wrap">{children}</div>
    </div>
  );
}

interface LineProps {
  item: Item;
  onApprove: TranscriptProps["onApprove"];
}

const Line = memo(function Line({ item, onApprove }: LineProps) {
  switch (item.kind) {
    case "caller":
      return (
        <Said by="caller">
          {item.text || <span className="text-muted italic">{text.notUnderstood}</span>}
          {item.text !== "" && item.confidence !== null && item.confidence > 0 && (
            <span className="ml-2 text-xs text-muted">{text.sure(item.confidence)}</span>
          )}
        </Said>
      );
    case "agent":
      return (
        <Said by="agent">
          <Answer item={item} />
        </Said>
      );
    case "tool":
      return <Tool item={item} />;
    case "filler":
      return (
        <Said by="agent">
          <span className="italic">{item.text}</span>{" "}
          <span className="text-xs text-muted">{text.filler}</span>
        </Said>
      );
    case "approval":
      return <Approval item={item} onApprove={onApprove} />;
    case "keys":
      return <Said by="caller">{text.keys(item.keys)}</Said>;
    case "transfer":
      return (
        <Said by="engine">
          {text.transfer(item.destination)} {item.error && <Badge tone="bad">{item.error}</Badge>}
        </Said>
      );
    case "trouble":
      return (
        <Said by="engine">
          <span className="text-bad">
            {item.where && `${item.where}: `}
            {item.text}
          </span>
        </Said>
      );
  }
});

/** The part of an interrupted answer that the caller did not hear is struck out. */
function Answer({ item: { text: whole, heard } }: { item: AgentItem }) {
  if (heard === null) return whole;
  const rest = whole.startsWith(heard) ? whole.slice(heard.length) : whole;
  return (
    <>
      {heard}
      <del className="text-muted">
        <span className="sr-only"> {text.notHeard} </span>
        {rest}
      </del>
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
  const { name, status, tookMs, source, message, sent, cut } = item;
  const from = Object.entries(text.sources).find(([each]) => each === source)?.[1];
  return (
    <div className="grid grid-cols-[4rem_minmax(0,1fr)] gap-3">
      <span className="font-medium text-tool">{words.parties.tool}</span>
      <details className="min-w-0 rounded-md border border-line px-2">
        <summary className="flex min-h-7 cursor-pointer flex-wrap items-center gap-x-2 gap-y-0.5 py-0.5">
          <span className="font-mono text-xs break-all">{name}</span>
          <Badge tone={TONES[status] ?? "neutral"}>
            {status === "running" ? text.running : status}
          </Badge>
          {from && <Badge>{from}</Badge>}
          {tookMs !== null && <span className="text-xs text-muted">{durationText(tookMs)}</span>}
          <span className="min-w-0 flex-1 truncate text-xs text-muted">
            {brief(item.arguments)}
          </span>
        </summary>
        <dl className="grid gap-2 border-t border-line py-2">
          <Detail title={text.arguments}>
            <Json value={item.arguments ?? {}} label={text.arguments} />
          </Detail>
          {message && <Detail title={text.said}>{message}</Detail>}
          {sent !== undefined && (
            <Detail title={text.result}>
              <Json value={sent} label={text.result} />
            </Detail>
          )}
          {cut.length > 0 && <Detail title={text.cut}>{cut.join(", ")}</Detail>}
        </dl>
      </details>
    </div>
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

function Approval(
  props: { item: Extract<Item, { kind: "approval" }> } & Pick<LineProps, "onApprove">,
) {
  const { item, onApprove } = props;
  const known = Object.entries(text.approval).find(([answer]) => answer === item.answer)?.[1];
  return (
    <Said by={item.question ? "agent" : "engine"}>
      <div className="flex flex-wrap items-center gap-2">
        <span>{item.question || text.approvalGiven}</span>
        {item.answer !== "" && (
          <Badge tone={item.answer === "yes" ? "good" : "warn"}>{known ?? item.answer}</Badge>
        )}
        {item.answer === "" && onApprove && (
          <fieldset className="flex gap-2" aria-label={words.chatting.question}>
            <Button small look="primary" icon="check" onClick={() => onApprove(true)}>
              {text.approval.yes}
            </Button>
            <Button small icon="close" onClick={() => onApprove(false)}>
              {text.approval.no}
            </Button>
          </fieldset>
        )}
      </div>
    </Said>
  );
}
