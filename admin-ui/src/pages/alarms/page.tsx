import { getRouteApi, Link } from "@tanstack/react-router";
import { useEffect, useRef, useState } from "react";

import { useGet, useSend } from "../../app/api.ts";
import { isNewer, useTopic } from "../../app/live.ts";
import { useMay } from "../../app/session.ts";
import { Answer, Empty, StaleNote } from "../../parts/answer.tsx";
import { Badge, StatusDot, type Tone } from "../../parts/badge.tsx";
import { Button, LinkButton } from "../../parts/button.tsx";
import { CodeBlock } from "../../parts/code.tsx";
import { cx } from "../../parts/cx.ts";
import { Dialog } from "../../parts/dialog.tsx";
import { Page } from "../../parts/page.tsx";
import { type Column, DataTable } from "../../parts/table.tsx";
import { Time } from "../../parts/time.tsx";
import { words } from "../../words/alarms.ts";
import { words as parts } from "../../words/parts.ts";
import { Acknowledge } from "./acknowledge.tsx";
import { type Alarm, alarmValue, isRed, measureOf, ruleText } from "./rule.ts";

const route = getRouteApi("/alarms");

export default function AlarmsPage() {
  const { alarm: pointed } = route.useSearch();
  const first = useGet("/api/v1/alarms");
  const live = useTopic({ topic: "alarms" });
  const { snapshot } = live;
  const pushed = snapshot && "alarms" in snapshot && !isNewer(first, live) ? snapshot : null;
  const [seeing, setSeeing] = useState<Alarm | null>(null);
  return (
    <Page title={words.title} actions={<TestMessage />}>
      {live.state === "stale" && <StaleNote since={live.since} />}
      <Answer query={first}>
        {(answer) => (
          <Alarms alarms={(pushed ?? answer).alarms} pointed={pointed} onSee={setSeeing} />
        )}
      </Answer>
      {seeing && <Acknowledge alarm={seeing} onClose={() => setSeeing(null)} />}
    </Page>
  );
}

interface AlarmsProps {
  alarms: readonly Alarm[];
  pointed: string | undefined;
  onSee: (alarm: Alarm) => void;
}

function Alarms({ alarms, pointed, onSee }: AlarmsProps) {
  const red = alarms.filter(isRed);
  const others = alarms.filter((alarm) => !isRed(alarm));
  if (alarms.length === 0) {
    return (
      <Empty icon="alarms" title={words.empty}>
        <p>{words.emptyHint}</p>
        <div className="w-[34rem] max-w-full text-left">
          <CodeBlock text={words.example} />
        </div>
        <LinkButton to="/contexts" search={{ at: "alarms" }}>
          {words.toConfiguration}
        </LinkButton>
      </Empty>
    );
  }
  return (
    <>
      <p role="status" className="mb-3 flex items-center gap-2">
        <StatusDot tone={red.length > 0 ? "bad" : "good"} />
        {red.length > 0 ? words.firing(red.length) : words.none}
      </p>
      {red.map((alarm) => (
        <RedAlarm key={alarm.id} alarm={alarm} pointed={alarm.id === pointed} onSee={onSee} />
      ))}
      {others.length > 0 && (
        <section className="rounded-lg border border-line bg-raised">
          <h2 className="flex min-h-11 items-center border-b border-line px-4">{words.others}</h2>
          <DataTable
            label={words.others}
            rows={others}
            columns={COLUMNS}
            rowKey={(alarm) => alarm.id}
          />
        </section>
      )}
    </>
  );
}

const TONES: Record<string, Tone> = {
  quiet: "good",
  rising: "warn",
  falling: "warn",
  firing: "bad",
};
const stateText = (alarm: Alarm) => words.states[alarm.state] ?? alarm.state;

const COLUMNS: readonly Column<Alarm>[] = [
  {
    id: "state",
    head: words.columns.state,
    width: "9rem",
    cell: (alarm) => (
      <span className="inline-flex items-center gap-2 whitespace-nowrap">
        <StatusDot tone={TONES[alarm.state] ?? "neutral"} />
        {stateText(alarm)}
      </span>
    ),
  },
  {
    id: "name",
    head: words.columns.name,
    cell: (alarm) => (
      <Link
        to="/contexts"
        search={{ at: `alarms.rules.${alarm.id}` }}
        title={words.inConfiguration}
        className="inline-block min-h-6 leading-6 font-medium hover:underline"
      >
        {alarm.id}
      </Link>
    ),
  },
  { id: "rule", head: words.columns.rule, cell: ruleText, wide: true },
  {
    id: "context",
    head: words.columns.context,
    cell: (alarm) => alarm.context || "–",
    wide: true,
  },
  {
    id: "now",
    head: words.columns.now,
    cell: (alarm) => alarmValue(alarm, alarm.value),
    align: "end",
  },
];

function RedAlarm(props: { alarm: Alarm; pointed: boolean; onSee: (alarm: Alarm) => void }) {
  const { alarm, pointed, onSee } = props;
  const box = useRef<HTMLElement>(null);
  useEffect(() => {
    if (pointed) box.current?.scrollIntoView({ block: "center" });
  }, [pointed]);
  return (
    <article
      ref={box}
      aria-label={alarm.id}
      className={cx(
        "mb-3 rounded-lg border border-line border-l-4 border-l-bad bg-raised p-4",
        pointed && "outline-2 outline-accent",
      )}
    >
      <div className="flex flex-wrap items-center gap-x-3 gap-y-1">
        <h2 className="text-base">{alarm.id}</h2>
        <Badge tone={TONES[alarm.state] ?? "bad"}>{stateText(alarm)}</Badge>
        <span className="text-muted">
          {words.since} <Time at={alarm.since} /> (<Time at={alarm.since} relative />)
        </span>
        {alarm.context && <Badge>{alarm.context}</Badge>}
        <Seen alarm={alarm} onSee={onSee} />
      </div>
      <p className="mt-2">{alarm.text}</p>
      {alarm.note && (
        <p className="mt-1">
          <span className="text-muted">{words.note}:</span> {alarm.note}
        </p>
      )}
      <p className="mt-1 text-muted">
        {words.rule}: {ruleText(alarm)}
      </p>
      <Calls ids={alarm.calls} />
      <Ways alarm={alarm} />
    </article>
  );
}

function Seen({ alarm, onSee }: { alarm: Alarm; onSee: (alarm: Alarm) => void }) {
  const may = useMay("alarms.acknowledge");
  const seen = alarm.acknowledged;
  return (
    <div className="ml-auto flex flex-wrap items-center gap-2">
      {seen && (
        <span className="text-muted">
          {words.acknowledged(seen.who)} <Time at={seen.at} relative />
          {seen.note && <span className="text-ink"> “{seen.note}”</span>},{" "}
          {seen.until ? (
            <>
              {words.silentUntil} <Time at={seen.until} />
            </>
          ) : (
            words.silent
          )}
        </span>
      )}
      {may && (
        <Button small icon={seen ? "edit" : "check"} onClick={() => onSee(alarm)}>
          {seen ? words.acknowledgeAgain : words.acknowledge}
        </Button>
      )}
    </div>
  );
}

const MOST_CALLS = 12;

function Calls({ ids }: { ids: readonly string[] }) {
  if (ids.length === 0) return null;
  return (
    <div className="mt-2 flex flex-wrap items-baseline gap-x-3 gap-y-0.5">
      <span className="text-muted">
        {words.calls}
        {ids.length > MOST_CALLS && `, ${words.newest}`}:
      </span>
      {ids.slice(0, MOST_CALLS).map((id) => (
        <Link
          key={id}
          to="/calls/$callId"
          params={{ callId: id }}
          className="min-h-6 font-mono text-xs leading-6 text-accent hover:underline"
        >
          {id.slice(0, 12)}
        </Link>
      ))}
    </div>
  );
}

function Ways({ alarm }: { alarm: Alarm }) {
  const measure = measureOf(alarm);
  const { rule, context } = alarm;
  return (
    <div className="mt-3 flex flex-wrap gap-2">
      {measure && (
        <LinkButton
          small
          icon="insights"
          to="/insights"
          search={{
            measure,
            range: rule.today === true ? "24h" : "7d",
            context: context ? [context] : undefined,
          }}
        >
          {words.inInsights}
        </LinkButton>
      )}
      <LinkButton small icon="contexts" to="/contexts" search={{ at: `alarms.rules.${alarm.id}` }}>
        {words.inConfiguration}
      </LinkButton>
    </div>
  );
}

/** Sends a message by all ways, and shows what became of it. */
function TestMessage() {
  const may = useMay("engine.control");
  const [ways, setWays] = useState<Readonly<Record<string, string>> | null>(null);
  const test = useSend("post", "/api/v1/alarms/test", { onDone: (done) => setWays(done.ways) });
  if (!may) return null;
  return (
    <>
      <Button icon="alarms" busy={test.isPending} onClick={() => test.mutate({})}>
        {words.test}
      </Button>
      {ways && (
        <Dialog
          title={words.tested.title}
          about={Object.keys(ways).length > 0 ? words.tested.about : words.tested.none}
          onClose={() => setWays(null)}
        >
          <ul className="grid gap-2">
            {Object.entries(ways).map(([way, error]) => (
              <li key={way} className="flex items-baseline gap-2">
                <StatusDot tone={error ? "bad" : "good"} />
                <span className="font-medium">{words.tested.ways[way] ?? way}</span>
                <span className="min-w-0 break-words">{error || words.tested.taken}</span>
              </li>
            ))}
          </ul>
          <div className="mt-4 flex justify-end">
            <Button onClick={() => setWays(null)}>{parts.close}</Button>
          </div>
        </Dialog>
      )}
    </>
  );
}
