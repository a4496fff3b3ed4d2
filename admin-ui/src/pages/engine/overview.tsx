import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";

import { type Answered, useGet } from "../../app/api.ts";
import { seesAll, useSession } from "../../app/session.ts";
import { Answer } from "../../parts/answer.tsx";
import { Badge, StatusDot } from "../../parts/badge.tsx";
import { Json } from "../../parts/code.tsx";
import { cx } from "../../parts/cx.ts";
import { Icon } from "../../parts/icons.tsx";
import { type Column, DataTable } from "../../parts/table.tsx";
import { durationText, Time } from "../../parts/time.tsx";
import { words } from "../../words/engine.ts";
import { bytesText, daysText, diskTone, sparkPoints, uptimeText } from "./facts.ts";

export type EngineState = Answered<"/api/v1/engine">;
type Disk = Answered<"/api/v1/engine/disks">["disks"][number];

interface OverviewProps {
  state: EngineState;
  /** The lag's p99 of each second, the newest last. */
  lags: readonly number[];
  slots: number;
}

export function Overview({ state, lags, slots }: OverviewProps) {
  const wide = seesAll(useSession());
  return (
    <>
      <Draining state={state} />
      <Summary state={state} />
      <div className="grid grid-cols-2 items-start gap-4 phone:grid-cols-1 phone:gap-0">
        <div className="min-w-0">
          <Components components={state.components} />
          {wide && <Disks />}
        </div>
        <div className="min-w-0">
          {state.load && <Load load={state.load} lags={lags} slots={slots} />}
          {wide && <Configurations state={state} />}
        </div>
      </div>
      {wide ? (
        <details className="text-muted">
          <summary className="min-h-6 cursor-pointer">{words.facts}</summary>
          <div className="mt-2 text-ink">
            <Json value={state.details} label={words.facts} />
          </div>
        </details>
      ) : (
        <p className="text-muted">{words.limited}</p>
      )}
    </>
  );
}

function Draining({ state: { drain } }: { state: EngineState }) {
  if (!drain.draining) return null;
  return (
    <div
      role="status"
      className="mb-4 flex flex-wrap items-center gap-x-3 gap-y-1 rounded-lg bg-warn-soft px-4 py-3 text-warn"
    >
      <Icon name="pause" />
      <span className="font-medium">{words.draining}</span>
      {drain.since && (
        <span>
          {words.drainingSince} <Time at={drain.since} />
        </span>
      )}
      <span className="ml-auto text-base font-semibold">
        {drain.calls_left > 0 ? words.callsLeft(drain.calls_left) : words.drained}
      </span>
    </div>
  );
}

function Summary({ state }: { state: EngineState }) {
  const { active_calls: active, max_calls: most } = state;
  return (
    <div className="mb-4 flex flex-wrap items-center gap-x-8 gap-y-2 rounded-lg border border-line bg-raised px-4 py-3">
      <span className="inline-flex items-center gap-2 text-base font-semibold">
        <StatusDot tone={state.ready ? "good" : "bad"} />
        {state.ready ? words.ready : words.notReady}
      </span>
      <span className="inline-flex items-center gap-2">
        <span className="text-muted">{words.calls}</span>
        <meter
          aria-label={words.calls}
          className="h-2 w-32"
          min={0}
          max={Math.max(most, 1)}
          value={active}
        />
        <span>{words.callsOf(active, most)}</span>
      </span>
      <span>
        <span className="text-muted">{words.up}</span> {uptimeText(state.uptime_seconds)}
      </span>
      <span className="text-muted">{words.version(state.version)}</span>
    </div>
  );
}

/** A titled box for a table, which reaches its edges. */
function Box({ title, children }: { title: string; children: ReactNode }) {
  return (
    <section className="mb-4 rounded-lg border border-line bg-raised">
      <h2 className="flex min-h-11 items-center border-b border-line px-4">{title}</h2>
      {children}
    </section>
  );
}

type Component = EngineState["components"][string] & { name: string };

const COMPONENTS: readonly Column<Component>[] = [
  {
    id: "name",
    head: words.component.name,
    width: "8rem",
    cell: ({ name }) => <span className="font-medium">{name}</span>,
  },
  {
    id: "state",
    head: words.component.state,
    width: "8rem",
    cell: ({ ready, required }) => (
      <span className="inline-flex items-center gap-2 whitespace-nowrap">
        <StatusDot tone={ready ? "good" : required ? "bad" : "warn"} />
        {ready ? words.component.ready : words.component.notReady}
      </span>
    ),
  },
  {
    id: "detail",
    head: words.component.detail,
    cell: ({ ready, required, detail }) => (
      <span className={cx("break-words", ready && !detail && "text-muted")}>
        {detail || (required ? words.component.needed : words.component.optional)}
      </span>
    ),
  },
];

function Components({ components }: Pick<EngineState, "components">) {
  const rows = Object.entries(components).map(([name, each]) => ({ name, ...each }));
  return (
    <Box title={words.components}>
      <DataTable
        label={words.components}
        rows={rows}
        columns={COMPONENTS}
        rowKey={({ name }) => name}
      />
    </Box>
  );
}

const SPARK = { width: 480, height: 56 };
const LEAST_LAG_MS = 20;

function Load(props: Omit<OverviewProps, "state"> & { load: NonNullable<EngineState["load"]> }) {
  const { load, lags, slots } = props;
  const facts = [
    [words.lag, durationText(load.lag_p99_ms)],
    [words.lagWorst, durationText(load.lag_worst_ms)],
    [words.blocked, words.blockedText(load.times_blocked, durationText(load.longest_blocked_ms))],
    [words.late, words.lateText(load.late_frames, load.skipped_frames)],
  ] as const;
  return (
    <Box title={words.load}>
      <div className="p-4">
        <p className="mb-3 text-muted">{words.loadAbout}</p>
        <svg
          role="img"
          aria-label={words.lagChart}
          viewBox={`0 0 ${SPARK.width} ${SPARK.height}`}
          preserveAspectRatio="none"
          className="mb-3 h-14 w-full border-b border-line text-accent"
        >
          <polyline
            points={sparkPoints(lags, slots, SPARK, LEAST_LAG_MS)}
            fill="none"
            stroke="currentColor"
            strokeWidth={1.5}
            vectorEffect="non-scaling-stroke"
          />
        </svg>
        <dl className="grid grid-cols-4 gap-x-4 gap-y-2 phone:grid-cols-2">
          {facts.map(([name, value]) => (
            <div key={name}>
              <dt className="text-xs text-muted">{name}</dt>
              <dd className="text-base font-medium">{value}</dd>
            </div>
          ))}
        </dl>
        <p className={cx("mt-3", load.given_up.length > 0 ? "text-warn" : "text-muted")}>
          {load.given_up.length > 0
            ? `${words.givenUp}: ${load.given_up.join(", ")}`
            : words.nothingGivenUp}
        </p>
      </div>
    </Box>
  );
}

function Configurations({ state: { generations, deferred } }: { state: EngineState }) {
  return (
    <Box title={words.configuration}>
      <DataTable
        label={words.generations}
        rows={generations}
        rowKey={({ number }) => String(number)}
        columns={[
          {
            id: "number",
            head: words.generation,
            cell: ({ number }) => (
              <span className="inline-flex flex-wrap items-center gap-2">
                {number}
                <Badge tone={number === generations[0]?.number ? "good" : "neutral"}>
                  {number === generations[0]?.number ? words.current : words.pinned}
                </Badge>
              </span>
            ),
          },
          {
            id: "file",
            head: words.file,
            cell: ({ version }) =>
              version ? (
                <Link
                  to="/contexts"
                  search={{ tab: "versions", from: version }}
                  className="inline-block min-h-6 font-mono leading-6 text-accent hover:underline"
                >
                  {version.slice(0, 12)}
                </Link>
              ) : (
                "–"
              ),
          },
          { id: "calls", head: words.onIt, cell: ({ calls }) => calls, align: "end" },
        ]}
      />
      <div className="border-t border-line px-4 py-3">
        {deferred.length === 0 ? (
          <p className="text-muted">{words.noDeferred}</p>
        ) : (
          <>
            <h3 className="mb-1">{words.deferred}</h3>
            <ul className="grid gap-1">
              {deferred.map(({ what, until }) => (
                <li key={what}>
                  <code className="font-mono">{what}</code>{" "}
                  <span className="text-muted">{words.reloaded.until(until)}</span>
                </li>
              ))}
            </ul>
          </>
        )}
      </div>
    </Box>
  );
}

const FRESH_MS = 300_000;

function Disks() {
  const disks = useGet("/api/v1/engine/disks", {}, { staleTime: FRESH_MS });
  return (
    <Box title={words.disks}>
      <Answer query={disks}>
        {(answer) => (
          <>
            <DataTable
              label={words.disks}
              rows={answer.disks}
              columns={DISKS}
              rowKey={({ folder }) => folder}
            />
            <p className="border-t border-line px-4 py-2 text-xs text-muted">{words.disk.hint}</p>
          </>
        )}
      </Answer>
    </Box>
  );
}

const DISKS: readonly Column<Disk>[] = [
  {
    id: "holds",
    head: words.disk.name,
    cell: ({ holds, folder }) => (
      <>
        {holds.map((each) => words.disk.holds[each]).join("; ")}
        <span className="block max-w-40 truncate font-mono text-xs text-muted" title={folder}>
          {folder}
        </span>
      </>
    ),
  },
  {
    id: "free",
    head: words.disk.free,
    align: "end",
    cell: ({ free_bytes: free, total_bytes: total, days_left: days }) => (
      <span className="inline-flex items-center gap-2 whitespace-nowrap">
        <StatusDot tone={diskTone(free, total, days)} />
        {words.disk.freeOf(bytesText(free), bytesText(total))}
      </span>
    ),
  },
  {
    id: "growth",
    head: words.disk.growth,
    align: "end",
    wide: true,
    cell: ({ bytes_per_day: bytes }) => (
      <span className="whitespace-nowrap">{bytes === null ? "–" : bytesText(bytes)}</span>
    ),
  },
  {
    id: "left",
    head: words.disk.left,
    align: "end",
    cell: ({ days_left: days }) => <span className="whitespace-nowrap">{daysText(days)}</span>,
  },
];
