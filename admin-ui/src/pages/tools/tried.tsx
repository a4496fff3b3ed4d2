// The answer of a try: as the caller hears it, its data, and as each provider's model gets it.
import { Link } from "@tanstack/react-router";
import { useState } from "react";

import { type Schema, sentence } from "../../app/api.ts";
import { Badge, type Tone } from "../../parts/badge.tsx";
import { CodeBlock, Json } from "../../parts/code.tsx";
import { cx } from "../../parts/cx.ts";
import { Icon } from "../../parts/icons.tsx";
import { Tabs } from "../../parts/tabs.tsx";
import { Duration } from "../../parts/time.tsx";
import { words } from "../../words/tools.ts";
import { useChoices } from "./choices.ts";
import { ANSWER_VIEWS, type AnswerView } from "./search.ts";

type Tried = Schema<"Tried">;

const TONES: Record<string, Tone> = {
  ok: "good",
  error: "bad",
  timeout: "bad",
  refused: "warn",
  cancelled: "warn",
};

/** The result of a tool call. */
export function StatusBadge({ status }: { status: string }) {
  return <Badge tone={TONES[status] ?? "neutral"}>{status}</Badge>;
}

/** Why a try did not happen, in the engine's words. */
export function NotRun({ error }: { error: Error }) {
  return (
    <div role="alert" className="flex gap-2 rounded-md bg-bad-soft px-3 py-2 text-bad">
      <Icon name="warning" />
      <div className="min-w-0">
        <p className="font-medium">{words.answer.failed}</p>
        <p className="break-words">{sentence(error)}</p>
      </div>
    </div>
  );
}

/** `kind`: whose payload is shown first. */
export function TriedAnswer({ tried, kind }: { tried: Tried; kind: string | undefined }) {
  const [{ answer = "spoken" }, change] = useChoices();
  const tabs = ANSWER_VIEWS.map((id) => ({ id, label: words.answer.views[id] }));
  return (
    <div className="grid gap-2">
      <div className="flex flex-wrap items-center gap-2" role="status">
        <StatusBadge status={tried.status} />
        <Duration ms={tried.took_ms} />
        <Link
          to="/calls/$callId"
          params={{ callId: tried.call_id }}
          className="ml-auto text-xs text-accent hover:underline"
        >
          {words.answer.ledger}
        </Link>
      </div>
      <Tabs<AnswerView>
        label={words.answer.label}
        tabs={tabs}
        current={answer}
        onChange={(next) => change({ answer: next })}
      >
        {answer === "spoken" && <Spoken tried={tried} />}
        {answer === "data" && <Data tried={tried} />}
        {answer === "raw" && (
          <CodeBlock text={JSON.stringify(tried, null, 2)} label={words.answer.views.raw} />
        )}
        {answer === "providers" && <Payloads tried={tried} kind={kind} />}
      </Tabs>
    </div>
  );
}

function Spoken({ tried }: { tried: Tried }) {
  const signals = Object.keys(tried.control).length > 0;
  return (
    <div className="grid gap-3">
      {tried.message ? (
        <figure>
          <figcaption className="text-xs text-muted">
            {tried.status === "refused" ? words.answer.refused : words.answer.spoken}
          </figcaption>
          <blockquote className="mt-1 border-l-2 border-agent pl-3 text-lg break-words">
            {tried.message}
          </blockquote>
        </figure>
      ) : (
        <p className="text-muted">{words.answer.silent}</p>
      )}
      {signals && (
        <div>
          <p className="text-xs text-muted">{words.answer.control}</p>
          <Json value={tried.control} label={words.answer.control} />
        </div>
      )}
    </div>
  );
}

function Data({ tried }: { tried: Tried }) {
  const empty = tried.data === null || JSON.stringify(tried.data) === "{}";
  if (empty) return <p className="text-muted">{words.answer.noData}</p>;
  return <Json value={tried.data} label={words.answer.views.data} />;
}

function Payloads({ tried, kind }: { tried: Tried; kind: string | undefined }) {
  const kinds = Object.keys(tried.payloads);
  const [chosen, setChosen] = useState(kind ?? kinds[0]);
  const payload = chosen === undefined ? undefined : tried.payloads[chosen];
  return (
    <div className="grid gap-3">
      <div role="radiogroup" aria-label={words.answer.kinds} className="flex flex-wrap gap-1">
        {kinds.map((each) => (
          <label
            key={each}
            className={cx(
              "flex min-h-6 cursor-pointer items-center gap-1.5 rounded border px-2 text-xs has-focus-visible:outline-2 has-focus-visible:outline-accent",
              each === chosen
                ? "border-accent bg-accent-soft text-accent"
                : "border-line hover:bg-hover",
            )}
          >
            <input
              type="radio"
              name="payload"
              className="sr-only"
              checked={each === chosen}
              onChange={() => setChosen(each)}
            />
            {each}
            {(tried.payloads[each]?.cut.length ?? 0) > 0 && <Icon name="warning" size={12} />}
          </label>
        ))}
      </div>
      {payload && (
        <>
          <p className="text-xs text-muted">
            {words.answer.bytes(payload.bytes)} · {payload.cut.length === 0 && words.answer.notCut}
            {payload.cut.length > 0 && (
              <span className="text-warn">
                {words.answer.cut}: {payload.cut.join(", ")}
              </span>
            )}
          </p>
          <Json value={payload.payload} label={chosen ?? ""} />
        </>
      )}
    </div>
  );
}
