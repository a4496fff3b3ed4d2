// The engine's log as it is written. It follows the newest line until the reader scrolls up.
import { Link } from "@tanstack/react-router";
import { useVirtualizer } from "@tanstack/react-virtual";
import {
  type KeyboardEvent,
  memo,
  useDeferredValue,
  useEffect,
  useMemo,
  useRef,
  useState,
} from "react";

import { useTopic } from "../../app/live.ts";
import { Empty, StaleNote } from "../../parts/answer.tsx";
import { Button, IconButton } from "../../parts/button.tsx";
import { Json } from "../../parts/code.tsx";
import { cx } from "../../parts/cx.ts";
import { LateInput, Select } from "../../parts/field.tsx";
import { type Focused, placeOf } from "../../parts/sorted.ts";
import { Time } from "../../parts/time.tsx";
import { words } from "../../words/engine.ts";
import { found, isFollowing, type Log, type LogLine, NO_LINES, takeLines } from "./log-lines.ts";
import { LEVELS, type Search } from "./search.ts";

const said = words.log;
const ROW = 24;
const AT_END = ROW * 1.5;

interface LogViewProps {
  search: Search;
  onChange: (change: Search) => void;
}

export function LogView({ search, onChange }: LogViewProps) {
  const { call, level = "info" } = search;
  const [log, setLog] = useState<Log>(NO_LINES);
  const topic = useTopic({ topic: "log", level, ...(call && { call }) }, (frame) =>
    setLog((before) => takeLines(before, frame)),
  );
  // The new subscription sends everything from the beginning.
  const [asked, setAsked] = useState(`${call} ${level}`);
  if (asked !== `${call} ${level}`) {
    setAsked(`${call} ${level}`);
    setLog(NO_LINES);
  }
  const wanted = useDeferredValue(search.find);
  const lines = useMemo(() => found(log.lines, wanted), [log.lines, wanted]);
  const [opened, setOpened] = useState<LogLine | null>(null);
  return (
    <div className="flex h-[calc(100vh-13.5rem)] min-h-72 flex-col gap-2">
      {topic.state === "stale" && <StaleNote since={topic.since} />}
      {topic.state === "refused" && <StaleNote>{topic.message}</StaleNote>}
      <LogFilters search={search} onChange={onChange} />
      {lines.length === 0 ? (
        <Empty title={said.none}>{said.noneHint}</Empty>
      ) : (
        <Lines lines={lines} count={log.count} cut={log.cut} opened={opened} onOpen={setOpened} />
      )}
      {opened && (
        <Detail
          line={opened}
          onClose={() => setOpened(null)}
          onOnlyCall={() => onChange({ call: opened.call })}
        />
      )}
    </div>
  );
}

function LogFilters({ search, onChange }: LogViewProps) {
  return (
    <div className="flex flex-wrap gap-2">
      <Select
        className="w-48"
        aria-label={said.level}
        value={search.level ?? "info"}
        onValue={(level) => onChange({ level })}
        options={LEVELS.map((each) => ({ value: each, label: said.levels[each] }))}
      />
      <span className="block w-64 phone:w-full">
        <LateInput
          type="search"
          aria-label={said.call}
          placeholder={said.call}
          value={search.call ?? ""}
          onValue={(call) => onChange({ call: call.trim() || undefined })}
        />
      </span>
      <span className="block w-64 phone:w-full">
        <LateInput
          type="search"
          aria-label={said.find}
          placeholder={said.find}
          value={search.find ?? ""}
          onValue={(find) => onChange({ find: find || undefined })}
        />
      </span>
    </div>
  );
}

interface LinesProps {
  lines: readonly LogLine[];
  /** Number of lines that ever came, whether they are shown or not. */
  count: number;
  cut: boolean;
  opened: LogLine | null;
  onOpen: (line: LogLine) => void;
}

function Lines({ lines, count, cut, opened, onOpen }: LinesProps) {
  const scroller = useRef<HTMLDivElement>(null);
  const [follows, setFollows] = useState(true);
  const [seen, setSeen] = useState(count);
  const [focused, setFocused] = useState<Focused<number> | null>(null);
  const virtual = useVirtualizer({
    count: lines.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW,
    getItemKey: (index) => lines[index]?.id ?? index,
    overscan: 12,
  });
  useEffect(() => {
    if (follows && lines.length > 0) toEnd(scroller.current);
  }, [follows, lines.length]);
  useEffect(() => {
    if (!follows || scroller.current === null) return;
    // A smaller window hides the newest lines without any scrolling.
    const observer = new ResizeObserver(([box]) => toEnd(box?.target));
    observer.observe(scroller.current);
    return () => observer.disconnect();
  }, [follows]);
  const before = useRef(0);
  const scrolled = () => {
    const box = scroller.current;
    if (box === null) return;
    const still = isFollowing(follows, before.current, box, AT_END);
    before.current = box.scrollTop;
    if (follows && !still) setSeen(count);
    setFollows(still);
  };
  const current = focused ? placeOf(lines, ({ id }) => id, focused) : lines.length - 1;
  const go = (to: number) => {
    const index = Math.max(0, Math.min(to, lines.length - 1));
    const line = lines[index];
    if (line === undefined) return;
    setFocused({ key: line.id, index });
    virtual.scrollToIndex(index);
    requestAnimationFrame(() =>
      scroller.current?.querySelector<HTMLElement>(`[data-index="${index}"]`)?.focus(),
    );
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const line = lines[current];
    if (event.key === "j" || event.key === "ArrowDown") go(current + 1);
    else if (event.key === "k" || event.key === "ArrowUp") go(current - 1);
    else if (event.key === "Home") go(0);
    else if (event.key === "End") go(lines.length - 1);
    else if (event.key === "Enter" && line) onOpen(line);
    else return;
    event.preventDefault();
  };
  return (
    <>
      <div
        ref={scroller}
        role="grid"
        aria-label={said.label}
        aria-rowcount={lines.length}
        data-list=""
        onScroll={scrolled}
        onKeyDown={onKeyDown}
        className="min-h-40 flex-1 overflow-auto rounded-lg border border-line bg-raised font-mono text-xs"
      >
        <div role="rowgroup" className="relative" style={{ height: virtual.getTotalSize() }}>
          {virtual.getVirtualItems().map(({ index, key, start }) => {
            const line = lines[index];
            return (
              line && (
                <Line
                  key={key}
                  line={line}
                  index={index}
                  start={start}
                  focusable={index === current}
                  selected={opened?.id === line.id}
                  onFocus={setFocused}
                  onOpen={onOpen}
                />
              )
            );
          })}
        </div>
      </div>
      <div className="flex min-h-8 flex-wrap items-center gap-x-4 gap-y-1 text-xs text-muted">
        <span>{said.lines(lines.length)}</span>
        {cut && <span>{said.lost}</span>}
        <span className="phone:hidden">{said.keys}</span>
        <span role="status" className="ml-auto">
          {follows ? said.following : said.paused(count - seen)}
        </span>
        {!follows && (
          <Button small icon="down" onClick={() => setFollows(true)}>
            {said.resume}
          </Button>
        )}
      </div>
    </>
  );
}

function toEnd(box: Element | null | undefined): void {
  if (box) box.scrollTop = box.scrollHeight;
}

const LEVEL_COLOURS: Record<string, string> = {
  debug: "text-muted",
  info: "text-muted",
  warning: "text-warn",
  error: "text-bad",
  critical: "text-bad",
};

interface LineProps {
  line: LogLine;
  index: number;
  start: number;
  focusable: boolean;
  selected: boolean;
  onFocus: (focused: Focused<number>) => void;
  onOpen: (line: LogLine) => void;
}

const Line = memo(function Line(props: LineProps) {
  const { line, index, start, focusable, selected, onFocus, onOpen } = props;
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: the grid around has the keys of all rows
    <div
      role="row"
      aria-rowindex={index + 1}
      aria-selected={selected}
      data-index={index}
      tabIndex={focusable ? 0 : -1}
      onFocus={() => onFocus({ key: line.id, index })}
      onClick={() => onOpen(line)}
      className={cx(
        "absolute top-0 left-0 flex w-full cursor-pointer items-center gap-3 px-3 whitespace-nowrap -outline-offset-2",
        selected ? "bg-selected" : "hover:bg-hover",
      )}
      style={{ height: ROW, transform: `translateY(${start}px)` }}
    >
      <span role="gridcell" className="text-muted">
        <ClockTime at={line.at} />
      </span>
      <span role="gridcell" className={cx("w-14 shrink-0", LEVEL_COLOURS[line.level])}>
        {line.level}
      </span>
      <span role="gridcell" className="font-semibold">
        {line.event}
      </span>
      <span role="gridcell" className="min-w-0 truncate text-muted">
        {line.rest}
      </span>
    </div>
  );
});

const clock = new Intl.DateTimeFormat(undefined, {
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  fractionalSecondDigits: 3,
  hour12: false,
});

function ClockTime({ at }: { at: string }) {
  const moment = new Date(at);
  if (Number.isNaN(moment.getTime())) return at;
  return <time dateTime={at}>{clock.format(moment)}</time>;
}

interface DetailProps {
  line: LogLine;
  onClose: () => void;
  onOnlyCall: () => void;
}

function Detail({ line, onClose, onOnlyCall }: DetailProps) {
  return (
    <section
      aria-label={said.detail}
      className="max-h-[40vh] shrink-0 overflow-auto rounded-lg border border-line bg-raised p-3"
    >
      <div className="mb-2 flex flex-wrap items-center gap-2">
        <h2 className="font-mono">{line.event}</h2>
        <Time at={line.at} />
        {line.call && (
          <>
            <Link
              to="/calls/$callId"
              params={{ callId: line.call }}
              className="min-h-6 leading-6 text-accent hover:underline"
            >
              {said.openCall}
            </Link>
            <Button small onClick={onOnlyCall}>
              {said.onlyCall}
            </Button>
          </>
        )}
        <span className="ml-auto">
          <IconButton label={said.close} icon="close" small onClick={onClose} />
        </span>
      </div>
      <Json value={line.whole} label={said.detail} />
    </section>
  );
}
