// The caller's waits as they come, one bar for each turn. The numbers below a bar say the same in
// words.
import { Fragment } from "react";

import { cx } from "../parts/cx.ts";
import { durationText, useNow } from "../parts/time.tsx";
import { words } from "../words/conversation.ts";
import type { Conversation, ToolItem } from "./conversation.ts";
import { isOpen, medianWait, type Stage, type Turn, waitOf } from "./waits.ts";

/** The shortest scale: below it, a good answer would look like a long one. */
const LEAST_SCALE_MS = 1_500;
const FRAME_MS = 100;

// Stages differ by pattern, too: not everyone sees the colours.
const PATTERNS: Readonly<Record<Stage, string>> = {
  endpoint:
    "text-strong bg-[repeating-linear-gradient(135deg,currentColor_0_2px,transparent_2px_5px)]",
  stt: "bg-caller",
  brain: "text-agent bg-[repeating-linear-gradient(90deg,currentColor_0_3px,transparent_3px_5px)]",
  tts: "bg-accent",
  wire: "text-strong bg-[repeating-linear-gradient(0deg,currentColor_0_1px,transparent_1px_3px)]",
};

export interface WaitsProps {
  conversation: Conversation;
  /** When the call began, ms since 1970 by this browser's clock. */
  began: number;
  /** False once the call is over. */
  live: boolean;
}

const toolsOf = ({ items }: Conversation) => items.filter((item) => item.kind === "tool");

/** All waits of a call, to one scale. */
export function Waits({ conversation, began, live }: WaitsProps) {
  const { turns, last_ms } = conversation;
  const median = medianWait(turns);
  const tools = toolsOf(conversation);
  const scale = Math.max(LEAST_SCALE_MS, ...turns.map((turn) => turn.total_ms ?? 0));
  return (
    <section aria-label={words.waits} className="grid grid-cols-[minmax(0,1fr)] gap-2">
      <div className="flex items-baseline justify-between">
        <h2>{words.waits}</h2>
        {median !== null && (
          <span className="text-muted">
            {words.median} <span className="text-ink">{durationText(median)}</span>
          </span>
        )}
      </div>
      {turns.length === 0 && <p className="text-muted">{words.noWaits}</p>}
      <ol className="grid grid-cols-[minmax(0,1fr)] gap-2.5">
        {turns.map((turn) => (
          <li key={turn.number}>
            <WaitView
              title={turn.words || words.turn(turn.number)}
              {...{ turn, tools, scale, began, live, last_ms }}
            />
          </li>
        ))}
      </ol>
    </section>
  );
}

/** The wait of the present turn, or of the last one. */
export function LastWait({ conversation, began, live, title }: WaitsProps & { title: string }) {
  const turn = conversation.turns.at(-1);
  if (!turn) return null;
  const scale = Math.max(LEAST_SCALE_MS, turn.total_ms ?? 0);
  const { last_ms } = conversation;
  return (
    <WaitView {...{ title, turn, scale, began, live, last_ms }} tools={toolsOf(conversation)} />
  );
}

interface WaitProps extends Omit<WaitsProps, "conversation"> {
  title: string;
  turn: Turn;
  /** Of any turn. */
  tools: readonly ToolItem[];
  /** ms of the whole width. */
  scale: number;
  /** Time of the newest line: it is not earlier than that. */
  last_ms: number;
}

function WaitView({ title, turn, tools, began, live, last_ms, ...props }: WaitProps) {
  const runs = live && isOpen(turn);
  const clock = useNow(runs ? FRAME_MS : 0) - began;
  const wait = waitOf(turn, tools, runs ? Math.max(last_ms, clock) : last_ms);
  const scale = Math.max(props.scale, wait.total);
  const stages = wait.spans
    .filter(({ from, to }) => to > from)
    .map(({ stage, from, to }) => ({
      key: stage,
      name: words.stages[stage],
      look: PATTERNS[stage],
      from,
      to,
    }));
  const used = wait.tools.map(({ tool, from, to }) => ({
    key: tool.id,
    name: tool.name,
    look: "bg-tool",
    from,
    to,
  }));
  return (
    <div className="grid grid-cols-[minmax(0,1fr)] gap-1">
      <div className="flex items-baseline justify-between gap-2">
        <span className="min-w-0 truncate">{title}</span>
        <span className={cx("font-medium whitespace-nowrap", runs && "text-warn")}>
          {durationText(wait.total)} {runs && words.waiting}
        </span>
      </div>
      <Track bars={stages} scale={scale} className="h-3" />
      {used.length > 0 && <Track bars={used} scale={scale} className="h-1.5" />}
      <p className="text-xs text-muted">
        {[...stages, ...used].map(({ key, name, look, from, to }, place) => (
          <Fragment key={key}>
            {place > 0 && " · "}
            <span className="inline-block max-w-full truncate align-bottom">
              <span
                aria-hidden="true"
                className={cx("mr-1 inline-block size-2 rounded-xs", look)}
              />
              {name} {Math.round(to - from)}
            </span>
          </Fragment>
        ))}
        {turn.answer_ms !== null && ` · ${words.withFiller(durationText(turn.answer_ms))}`}
      </p>
    </div>
  );
}

interface TrackProps {
  bars: readonly { key: string; from: number; to: number; look: string }[];
  scale: number;
  className: string;
}

function Track({ bars, scale, className }: TrackProps) {
  const share = (ms: number) => `${(100 * ms) / scale}%`;
  return (
    <span
      aria-hidden="true"
      className={cx("relative overflow-hidden rounded-sm bg-hover", className)}
    >
      {bars.map(({ key, from, to, look }) => (
        <span
          key={key}
          className={cx("absolute inset-y-0 min-w-0.5", look)}
          style={{ left: share(from), width: share(to - from) }}
        />
      ))}
    </span>
  );
}
