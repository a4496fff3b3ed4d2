// What was said, line by line. The line that is played is lit; a click on a line chooses its turn,
// and one on a word plays from there.
import { useVirtualizer } from "@tanstack/react-virtual";
import { type MouseEvent, memo, useEffect, useMemo, useRef, useState } from "react";

import { wordsOf } from "../../conversation/heard.ts";
import { Empty } from "../../parts/answer.tsx";
import { Badge } from "../../parts/badge.tsx";
import { cx } from "../../parts/cx.ts";
import { durationText } from "../../parts/time.tsx";
import { words } from "../../words/call.ts";
import { rulerText } from "./draw.ts";
import {
  lineAt,
  linesOf,
  type MarkLine,
  type SaidLine,
  type ToolLine,
  type TranscriptLine,
} from "./lines.ts";
import { type Tiles, type TimedWord, timedWords } from "./peaks.ts";
import type { Shown } from "./shown.ts";

export interface TranscriptProps {
  shown: Shown;
  tiles: Tiles;
}

/** Not rendered again while the picture is zoomed. */
export const Transcript = memo(function Transcript({ shown, tiles }: TranscriptProps) {
  const { call, player } = shown;
  const lines = useMemo(() => linesOf(call), [call]);
  const scroller = useRef<HTMLElement>(null);
  const lit = useLitLine(shown, lines);
  const virtual = useVirtualizer({
    count: lines.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => 44,
    overscan: 12,
    getItemKey: (index) => lines[index]?.key ?? index,
  });
  useEffect(() => {
    if (lit >= 0 && player.current().playing) virtual.scrollToIndex(lit, { align: "auto" });
  }, [lit, virtual, player]);
  const selected = shown.search.turn;
  const broughtIn = useRef<number | undefined>(undefined);
  useEffect(() => {
    // Once: a running call has other lines each second, and whoever scrolls on is not pulled back.
    if (selected === broughtIn.current) return;
    const isChosen = (line: TranscriptLine) => selected !== undefined && line.turn === selected;
    if (selected !== undefined && !lines.some(isChosen)) return; // its lines may still come
    broughtIn.current = selected;
    const { startIndex = 0, endIndex = -1 } = virtual.range ?? {};
    // Who clicks on a line of a long turn sees it, and is left there.
    if (lines.slice(startIndex, endIndex + 1).some(isChosen)) return;
    const index = lines.findIndex(isChosen);
    if (index >= 0) virtual.scrollToIndex(index, { align: "auto" });
  }, [selected, lines, virtual]);
  if (lines.length === 0) return <Empty icon="try" title={words.transcript.empty} />;
  return (
    <section
      ref={scroller}
      aria-label={words.transcript.label}
      tabIndex={0}
      className="min-h-0 flex-1 overflow-y-auto py-1 -outline-offset-2"
    >
      <ol className="relative" style={{ height: virtual.getTotalSize() }}>
        {virtual.getVirtualItems().map(({ index, start, key }) => {
          const line = lines[index];
          if (!line) return null;
          return (
            // biome-ignore lint/a11y/useKeyWithClickEvents: by keyboard the time of the line is a button; a stop at each word would be none
            <li
              key={key}
              ref={virtual.measureElement}
              data-index={index}
              aria-current={index === lit || undefined}
              onClick={(event) => isMarking(event) || choose(shown, line, wordAt(event))}
              className={cx(
                "absolute inset-x-0 top-0 grid cursor-pointer grid-cols-[3.75rem_3.5rem_minmax(0,1fr)] gap-x-2 px-6 py-1 phone:px-4",
                index === lit && "bg-accent-soft",
                index !== lit && selected !== undefined && line.turn === selected && "bg-hover",
              )}
              style={{ transform: `translateY(${start}px)` }}
            >
              <TranscriptRow line={line} shown={shown} tiles={tiles} />
            </li>
          );
        })}
      </ol>
    </section>
  );
});

/** The index of the line at the position of the player. It changes only from line to line. */
function useLitLine({ player }: Shown, lines: readonly TranscriptLine[]): number {
  const [lit, setLit] = useState(() => lineAt(lines, player.time));
  useEffect(() => player.follow((time) => setLit(lineAt(lines, time))), [player, lines]);
  return lit;
}

/** The time of the word that was clicked on; undefined beside the words. */
function wordAt({ target }: MouseEvent<HTMLElement>): number | undefined {
  const at = target instanceof HTMLElement ? target.dataset.at : undefined;
  return at === undefined ? undefined : Number(at);
}

/** True if somebody has marked words of this line, to copy them. */
function isMarking({ currentTarget }: MouseEvent<HTMLElement>): boolean {
  const marked = getSelection();
  return marked?.type === "Range" && marked.containsNode(currentTarget, true);
}

/** Choose the turn, the tool or the events of a line, and play from `word`, if it is one. */
function choose({ player, go, search }: Shown, line: TranscriptLine, word?: number): void {
  const time = word ?? line.from;
  const at = Math.round(time);
  if (word === undefined) player.seek(time);
  else void player.playFrom(time);
  const isAnother = line.turn !== search.turn;
  if (line.who === "tool") {
    go({ tool: line.tool.id, turn: line.tool.turn, tab: "tools", at }, true);
  } else if (line.turn !== null) go({ turn: line.turn, tab: "turn", at }, isAnother);
  else go({ tab: "events", at });
}

interface RowProps extends TranscriptProps {
  line: TranscriptLine;
}

const TranscriptRow = memo(function TranscriptRow({ line, shown, tiles }: RowProps) {
  const time = rulerText(line.from, false);
  return (
    <>
      <button
        type="button"
        className="min-h-6 self-start rounded text-right font-mono text-xs text-muted hover:text-ink"
        aria-label={words.transcript.jump(time)}
      >
        {time}
      </button>
      {line.who === "tool" && <ToolRow line={line} />}
      {line.who === "mark" && <MarkRow line={line} />}
      {(line.who === "caller" || line.who === "agent") && (
        <SaidRow line={line} shown={shown} tiles={tiles} />
      )}
    </>
  );
});

function SaidRow({ line, shown, tiles }: { line: SaidLine; shown: Shown; tiles: Tiles }) {
  const { caller } = words.spokenBy;
  const timed = useTimedParts(line, shown, tiles);
  return (
    <>
      <span
        className={cx("pt-0.5 font-medium", line.who === "caller" ? "text-caller" : "text-agent")}
      >
        {line.who === "caller" ? caller : words.spokenBy.agent}
      </span>
      <div className="pt-0.5">
        <p className="break-words">
          {timed.length === 0 && (
            <span className="text-muted">
              {shown.personal ? words.transcript.noWords : words.transcript.hidden}
            </span>
          )}
          {timed.map(({ heard, words: said, key }) => (
            <span key={key} className={cx(!heard && "text-muted line-through decoration-1")}>
              {!heard && <span className="sr-only">{words.transcript.notHeard} </span>}
              {said.map(({ word, at, place }) => (
                <span key={place} data-at={at} className="rounded-sm hover:bg-selected">
                  {word}{" "}
                </span>
              ))}
            </span>
          ))}
          {line.parts.some(({ heard }) => !heard) && (
            <Badge tone="warn">{words.transcript.cut}</Badge>
          )}
        </p>
        {line.recognised && (
          <p className="text-xs text-muted">
            {words.transcript.recognised} “{line.recognised}”
          </p>
        )}
        {line.waited !== null && (
          <p className="text-xs text-muted">{words.transcript.waited(durationText(line.waited))}</p>
        )}
      </div>
    </>
  );
}

interface TimedPart {
  readonly key: number;
  readonly heard: boolean;
  readonly words: readonly (TimedWord & { readonly place: number })[];
}

const placed = (timed: readonly TimedWord[]) => timed.map((word, place) => ({ ...word, place }));

/** The words of a line with their estimated times; what was not heard has the time of the cut. */
function useTimedParts(line: SaidLine, { call }: Shown, tiles: Tiles): readonly TimedPart[] {
  return useMemo(() => {
    const began = call.recording.began_ms ?? 0;
    const heard = line.parts.filter((part) => part.heard).flatMap(({ text }) => wordsOf(text));
    const timed = timedWords(heard, line, tiles, line.who, began);
    let used = 0;
    return line.parts.map((part, key) => {
      const own = wordsOf(part.text);
      if (!part.heard)
        return {
          key,
          heard: false,
          words: own.map((word, place) => ({ word, at: line.to, place })),
        };
      used += own.length;
      return { key, heard: true, words: placed(timed.slice(used - own.length, used)) };
    });
  }, [line, call.recording.began_ms, tiles]);
}

function ToolRow({ line: { tool } }: { line: ToolLine }) {
  const took =
    tool.end_ms === null ? words.tools.running : durationText(tool.end_ms - tool.begin_ms);
  return (
    <>
      <span className="text-xs leading-6 text-tool">{words.lanes.tools}</span>
      <p className="min-w-0 truncate text-xs leading-6 text-muted">
        <code className="font-mono text-ink">{tool.name}</code> {took}{" "}
        {tool.status !== "ok" && (
          <Badge tone="bad">{words.statuses[tool.status] ?? tool.status}</Badge>
        )}
      </p>
    </>
  );
}

function MarkRow({ line: { mark, count } }: { line: MarkLine }) {
  const bad = mark.kind === "trouble" || mark.kind === "gap";
  const secret = mark.kind === "key" && mark.text === "*";
  const name = secret ? words.marks.secret : (words.marks[mark.kind] ?? mark.kind);
  return (
    <>
      <span />
      <p className={cx("text-xs leading-6 break-words", bad ? "text-bad" : "text-muted")}>
        {name}
        {secret ? count > 1 && ` × ${count}` : mark.text && `: ${mark.text}`}
      </p>
    </>
  );
}
