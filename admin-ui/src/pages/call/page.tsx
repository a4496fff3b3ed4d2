// One call: heard, seen and read on one time axis.
import { useQueryClient } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { type ReactNode, useCallback, useEffect, useMemo, useRef, useState } from "react";

import { keyOf, type Schema, useGet } from "../../app/api.ts";
import { useTopic } from "../../app/live.ts";
import { usePhone } from "../../app/phone.ts";
import { useMay } from "../../app/session.ts";
import { Answer, Empty, StaleNote } from "../../parts/answer.tsx";
import { Badge, StatusDot } from "../../parts/badge.tsx";
import { cx } from "../../parts/cx.ts";
import { Checkbox } from "../../parts/field.tsx";
import { Icon } from "../../parts/icons.tsx";
import { Page } from "../../parts/page.tsx";
import { Duration, Money, Time } from "../../parts/time.tsx";
import { words } from "../../words/call.ts";
import { Acts } from "./acts.tsx";
import { type Span, zoomed } from "./axis.ts";
import { Details } from "./details.tsx";
import { Picture } from "./picture.tsx";
import { PlayerBar } from "./player-bar.tsx";
import { MODES, type Mode, type Search } from "./search.ts";
import { type Shown, usePlayer, useShapes, useSilences, useTiles, useView } from "./shown.ts";
import { CallTable } from "./table.tsx";
import { troublesOf } from "./timeline.ts";
import { Transcript } from "./transcript.tsx";

const route = getRouteApi("/calls/$callId");
const CALL = "/api/v1/calls/{call_id}";

export default function CallPage() {
  const { callId } = route.useParams();
  const path = { call_id: callId };
  const query = useGet(CALL, { path }, { staleTime: 30_000 });
  const queries = useQueryClient();
  const refresh = useCallback(() => {
    void queries.invalidateQueries({ queryKey: keyOf(CALL) });
  }, [queries]);
  const feed = useGrowing(callId, query.data?.live ?? false, refresh);
  const phone = usePhone();
  const data = query.data;
  return (
    <Page
      fills={!phone && data !== undefined && data.call.row.outcome !== "refused"}
      title={words.title(callId.slice(0, 8))}
      aside={data && <Outcome call={data.call} live={data.live} />}
      actions={data && <Acts id={callId} call={data.call} live={data.live} />}
    >
      {data?.live && feed.state === "stale" && <StaleNote since={feed.since} />}
      <Answer query={query}>
        {(recorded) => <OneCall key={callId} id={callId} recorded={recorded} refresh={refresh} />}
      </Answer>
    </Page>
  );
}

/** Least ms between two looks at a call that runs. */
const LOOK_MS = 1000;

/** Looks at a running call again when something happened in it. */
function useGrowing(id: string, live: boolean, refresh: () => void) {
  const timer = useRef<ReturnType<typeof setTimeout> | null>(null);
  useEffect(
    () => () => {
      if (timer.current) clearTimeout(timer.current);
    },
    [],
  );
  const topic = useMemo(
    () => (live ? { topic: "call" as const, call: id, from_ms: 0, after: 0 } : null),
    [live, id],
  );
  return useTopic(topic, () => {
    timer.current ??= setTimeout(() => {
      timer.current = null;
      refresh();
    }, LOOK_MS);
  });
}

interface OneCallProps {
  id: string;
  recorded: Schema<"RecordedCall">;
  refresh: () => void;
}

function OneCall({ id, recorded, refresh }: OneCallProps) {
  const { call, live, personal, you } = recorded;
  if (call.row.outcome === "refused") {
    return (
      <Empty icon="calls" title={words.refused}>
        {call.row.reason && <p>{call.row.reason}</p>}
      </Empty>
    );
  }
  return (
    <>
      <Facts call={call} />
      {!personal && <Masked />}
      <Timeline
        id={id}
        call={call}
        live={live}
        personal={personal}
        you={you}
        keptDays={recorded.recording_kept_days ?? null}
        refresh={refresh}
      />
    </>
  );
}

function Masked() {
  return (
    <p className="flex items-center gap-1.5 px-6 pb-1 text-muted phone:px-0">
      <Icon name="lock" size={14} /> {words.masked}
    </p>
  );
}

function Outcome({ call: { row, notes }, live }: { call: Schema<"CallRecord">; live: boolean }) {
  const outcome = row.outcome ?? "";
  const tone = outcome === "failed" || outcome === "killed" ? "bad" : "neutral";
  return (
    <>
      {live ? (
        <Badge tone="accent">
          <StatusDot tone="accent" /> {words.live}
        </Badge>
      ) : (
        <Badge tone={tone}>{words.outcomes[outcome] ?? outcome}</Badge>
      )}
      {notes.review && (
        <Badge tone={notes.review === "good" ? "good" : "bad"}>
          {notes.review === "good" ? words.notes.good : words.notes.bad}
        </Badge>
      )}
      {notes.tags.map((tag) => (
        <Badge key={tag}>{tag}</Badge>
      ))}
    </>
  );
}

function Facts({ call: { row } }: { call: Schema<"CallRecord"> }) {
  const { facts } = words;
  const link = "text-accent hover:underline";
  const shown: [string, ReactNode][] = [
    [
      facts.context,
      row.context && (
        <Link to="/contexts/$context" params={{ context: row.context }} className={link}>
          {row.context}
        </Link>
      ),
    ],
    [
      row.direction === "out" ? facts.called : facts.caller,
      [row.caller_name, row.caller_number].filter(Boolean).join(" "),
    ],
    [facts.began, <Time key="began" at={row.started_at} />],
    [facts.lasted, <Duration key="lasted" ms={row.duration_ms} />],
    [facts.ended, (row.reason ?? "").replaceAll("_", " ").replace(":", ": ")],
    [facts.waited, row.waited_ms != null && <Duration ms={row.waited_ms} />],
    [facts.provider, row.provider],
    [facts.cost, row.cost != null && <Money amount={row.cost} currency={row.currency ?? ""} />],
    [
      facts.config,
      row.config && <code className="font-mono text-xs">{row.config.slice(0, 7)}</code>,
    ],
  ];
  return (
    <dl className="flex flex-wrap gap-x-5 gap-y-0.5 px-6 pb-2 phone:px-0">
      {shown.map(([name, value]) =>
        value ? (
          <div key={name} className="flex gap-1.5">
            <dt className="text-muted">{name}</dt>
            <dd>{value}</dd>
          </div>
        ) : null,
      )}
    </dl>
  );
}

interface TimelineProps extends Omit<OneCallProps, "recorded"> {
  call: Schema<"CallRecord">;
  live: boolean;
  personal: boolean;
  you: string;
  keptDays: number | null;
}

function Timeline({ id, call, live, personal, you, keptDays, refresh }: TimelineProps) {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const plays = useMay("recordings.play");
  const phone = usePhone();
  const go = useCallback(
    (changes: Search, entry = false) =>
      void navigate({ search: (before) => ({ ...before, ...changes }), replace: !entry }),
    [navigate],
  );
  const { shapes, end, axis } = useShapes(call, search);
  const playable = plays && !live && call.recording.state === "there";
  const player = usePlayer(id, call, playable, search.at ?? 0);
  useSilences(player, shapes, axis, search);
  const [view, setView] = useView(axis, search, go);
  const showSpan = useCallback(
    (span: Span) => setView(zoomed(axis, span, 1, span.from)),
    [axis, setView],
  );
  const tiles = useTiles(id, call, plays, view, end);
  const shown: Shown = useMemo(
    () => ({ id, call, live, personal, you, end, shapes, axis, player, search, go, refresh }),
    [id, call, live, personal, you, end, shapes, axis, player, search, go, refresh],
  );
  return (
    <>
      <div className="flex flex-wrap items-center justify-between phone:-mx-4">
        <PlayerBar shown={shown} keptDays={keptDays} />
        <Modes shown={shown} />
      </div>
      <div className="phone:-mx-4">
        {!search.table && <Picture shown={shown} tiles={tiles} view={view} onView={setView} />}
        <Equivalent shown={shown} />
      </div>
      <div className="flex min-h-0 flex-1 phone:-mx-4 phone:flex-col">
        <div
          className={cx(
            "flex min-w-0 flex-1 flex-col",
            phone && "h-[28rem] flex-none border-b border-line",
          )}
        >
          <Transcript shown={shown} tiles={tiles} />
        </div>
        <aside
          aria-label={words.tabs.label}
          className="w-[29rem] shrink-0 overflow-y-auto border-l border-line bg-raised max-xl:w-[23rem] phone:w-full phone:border-l-0"
        >
          <Details shown={shown} onView={showSpan} />
        </aside>
      </div>
    </>
  );
}

function Modes({ shown: { search, shapes, go } }: { shown: Shown }) {
  const none = useMemo(() => troublesOf(shapes).length === 0, [shapes]);
  // Another axis is another view.
  const show = (mode: Mode | undefined) => go({ mode, from: undefined, to: undefined });
  const modes = [undefined, ...MODES];
  return (
    <div className="flex flex-wrap items-center gap-3 px-6 py-1 phone:px-4">
      <fieldset aria-label={words.picture.modes} className="flex">
        {modes.map((mode) => (
          <button
            key={mode ?? "all"}
            type="button"
            aria-pressed={search.mode === mode}
            disabled={mode === "troubles" && none}
            title={mode === "troubles" && none ? words.picture.noTroubles : undefined}
            onClick={() => show(mode)}
            className={cx(
              "h-6 border border-line px-2 text-xs first:rounded-l-md last:rounded-r-md not-first:border-l-0 disabled:text-muted",
              search.mode === mode ? "bg-selected font-medium" : "bg-raised hover:bg-hover",
            )}
          >
            {words.picture[mode ?? "all"]}
          </button>
        ))}
      </fieldset>
      <Checkbox
        label={words.picture.fold}
        checked={!search.unfolded}
        disabled={search.mode !== undefined}
        onChecked={(checked) => go({ unfolded: checked ? undefined : true })}
        className="text-muted"
      />
      <Checkbox
        label={words.picture.table}
        checked={search.table ?? false}
        onChecked={(checked) => go({ table: checked || undefined })}
        className="text-muted"
      />
    </div>
  );
}

/** The table in place of the picture, or behind it for screen readers once the page has settled. */
function Equivalent({ shown }: { shown: Shown }) {
  const [settled, setSettled] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(true), 300);
    return () => clearTimeout(timer);
  }, []);
  if (shown.search.table) {
    return (
      <section
        tabIndex={0}
        aria-label={words.table.label}
        className="max-h-80 overflow-auto border-y border-line bg-raised -outline-offset-2"
      >
        <CallTable call={shown.call} shapes={shown.shapes} />
      </section>
    );
  }
  return (
    <div className="sr-only">
      {settled && <CallTable call={shown.call} shapes={shown.shapes} />}
    </div>
  );
}
