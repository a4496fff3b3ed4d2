import { Link } from "@tanstack/react-router";
import { Fragment, type ReactNode } from "react";

import { type Schema, useSend } from "../../app/api.ts";
import { useMay } from "../../app/session.ts";
import { Badge, StatusDot } from "../../parts/badge.tsx";
import { Button, LinkButton } from "../../parts/button.tsx";
import { cx } from "../../parts/cx.ts";
import { Icon } from "../../parts/icons.tsx";
import { type Column, DataTable } from "../../parts/table.tsx";
import { Duration, Time } from "../../parts/time.tsx";
import { words } from "../../words/providers.ts";
import { barsOf, type Latency, newest } from "./latency.ts";
import { ConditionMark, type Provider } from "./provider-list.tsx";

type Part = Schema<"ProviderPart">;

const say = words.details;

/** One provider: what is wrong with it, its parts and keys, who uses it, how fast it is. */
export function ProviderDetails({
  provider,
  wait,
}: {
  provider: Provider;
  wait: Latency | undefined;
}) {
  const mayCheck = useMay("providers.check");
  const check = useSend("post", "/api/v1/providers/{provider}/check");
  const { name, failure, reason } = provider;
  return (
    <section
      aria-label={name}
      className="grid min-w-0 gap-4 rounded-lg border border-line bg-raised px-4 pt-3 pb-4"
    >
      <div className="flex flex-wrap items-center gap-3">
        <h2 className="min-w-0 text-lg break-all">{name}</h2>
        <ConditionMark condition={provider.condition} />
        <span className="mr-auto text-muted">{provider.type}</span>
        {mayCheck && (
          <Button
            busy={check.isPending}
            title={say.checkAbout}
            onClick={() => check.mutate({ path: { provider: name } })}
          >
            {check.isPending ? say.checking : say.check}
          </Button>
        )}
      </div>
      {reason && (
        <div className="rounded-md bg-warn-soft px-3 py-2 text-warn">
          <p className="break-words">{reason}</p>
          {failure && (
            <p className="text-xs">
              {say.failure(failure.count)} <Time at={failure.at} />
            </p>
          )}
        </div>
      )}
      {check.data && <Findings findings={check.data.findings} />}
      <Titled title={say.parts}>
        <DataTable
          label={say.parts}
          rows={provider.parts}
          columns={PARTS}
          rowKey={({ part, type }) => `${part} ${type}`}
        />
        {provider.condition === "no key" && <SetSecret />}
      </Titled>
      <Titled title={say.used}>
        <UsedBy provider={provider} />
      </Titled>
      {wait && (
        <Titled title={say.waits}>
          <Waits wait={wait} />
        </Titled>
      )}
    </section>
  );
}

function Titled({ title, children }: { title: string; children: ReactNode }) {
  return (
    <div>
      <h3 className="mb-1">{title}</h3>
      {children}
    </div>
  );
}

function SetSecret() {
  const mayWrite = useMay("secrets.write");
  if (!mayWrite) return null;
  return (
    <LinkButton to="/providers" search={{ tab: "secrets" }} icon="key" small className="mt-2">
      {say.setSecret}
    </LinkButton>
  );
}

function Findings({ findings }: { findings: readonly Schema<"Finding">[] }) {
  return (
    <div role="status" className="rounded-md border border-line">
      <h3 className="border-b border-line px-3 py-1.5">{say.findings}</h3>
      {findings.length === 0 && <p className="px-3 py-2 text-muted">{say.local}</p>}
      <ul className="divide-y divide-line">
        {findings.map((each) => (
          <li key={`${each.provider} ${each.what}`} className="px-3 py-1.5">
            <p className="flex flex-wrap items-center gap-2">
              <StatusDot tone={each.good ? "good" : "bad"} />
              <span className="font-mono text-xs">{each.provider}</span>
              {each.what}
              <Badge tone={each.good ? "good" : "bad"}>{each.state}</Badge>
            </p>
            {each.advice && <p className="break-words text-muted">{each.advice}</p>}
          </li>
        ))}
      </ul>
    </div>
  );
}

const PARTS: readonly Column<Part>[] = [
  { id: "part", head: say.part, cell: ({ part }) => part || say.whole },
  {
    id: "type",
    head: say.type,
    cell: ({ type, model }) => (
      <>
        {type}
        {model && <p className="font-mono text-xs break-all text-muted">{model}</p>}
      </>
    ),
  },
  {
    id: "voice",
    head: say.voice,
    cell: ({ voice }) => voice || <span className="text-muted">–</span>,
    wide: true,
  },
  {
    id: "key",
    head: say.key,
    cell: ({ key, key_source }) => (
      <span
        className={cx(
          "break-words",
          key === "missing" ? "text-bad" : key === "not needed" && "text-muted",
        )}
      >
        {say.keys[key](key_source)}
      </span>
    ),
  },
];

/** Each context with its providers, in the order in which a call turns to them. */
function UsedBy({ provider }: { provider: Provider }) {
  const chains = Object.entries(provider.used_by);
  if (chains.length === 0) return <p className="text-muted">{say.unused}</p>;
  return (
    <ul className="grid gap-1">
      {chains.map(([context, chain]) => (
        <li key={context} className="flex min-h-6 flex-wrap items-center gap-x-3 gap-y-1">
          <Link
            to="/contexts/$context"
            params={{ context }}
            className="min-w-32 text-accent hover:underline"
          >
            {context}
          </Link>
          <ol aria-label={say.chain(context)} className="flex flex-wrap items-center gap-1">
            {chain.map((name, index) => (
              <Fragment key={name}>
                {index > 0 && (
                  <li aria-hidden="true" className="text-muted">
                    <Icon name="right" size={12} />
                  </li>
                )}
                <li>
                  {name === provider.name ? (
                    <Badge tone="accent">{name}</Badge>
                  ) : (
                    <Link to="/providers" search={{ provider: name }} className="hover:underline">
                      <Badge>{name}</Badge>
                    </Link>
                  )}
                </li>
              </Fragment>
            ))}
          </ol>
        </li>
      ))}
    </ul>
  );
}

const BAR = 6;
const HEIGHT = 24;

function Waits({ wait }: { wait: Latency }) {
  const lines = [
    ["p50", wait.p50],
    ["p95", wait.p95],
  ] as const;
  const most = Math.max(...wait.p95.map((each) => each ?? 0));
  return (
    <>
      <table>
        <tbody>
          {lines.map(([stat, values]) => (
            <tr key={stat}>
              <th scope="row" className="pr-4 text-left font-normal text-muted">
                {stat}
              </th>
              <td className="pr-4 text-right">
                <Duration ms={newest(values)} />
              </td>
              <td className="py-1">
                <Bars label={say.perDay(stat)} values={values} most={most} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      <p className="text-xs text-muted">
        {say.turns(wait.turns)}; {say.newest}
      </p>
    </>
  );
}

function Bars(props: { label: string; values: Latency["p95"]; most: number }) {
  const { label, values, most } = props;
  const width = values.length * BAR;
  return (
    <svg role="img" aria-label={label} width={width} height={HEIGHT} className="text-accent">
      <path d={`M0 ${HEIGHT - 0.5}H${width}`} className="stroke-line" />
      {barsOf(values, most).map(({ day, share }) => {
        const height = Math.max(1, share * (HEIGHT - 1));
        return (
          <rect
            key={day}
            x={day * BAR}
            y={HEIGHT - 1 - height}
            width={BAR - 1}
            height={height}
            fill="currentColor"
          />
        );
      })}
    </svg>
  );
}
