// The last step of the set-up: a call by a caller inside of the engine, and what came of it.
import { useState } from "react";

import { Refused, type Schema, sentence, useGet, useSend } from "../../app/api.ts";
import { StatusDot, type Tone } from "../../parts/badge.tsx";
import { Button, LinkButton } from "../../parts/button.tsx";
import { Field, Select } from "../../parts/field.tsx";
import { Section } from "../../parts/page.tsx";
import { durationText } from "../../parts/time.tsx";
import { words as all } from "../../words/setup.ts";
import { verdictOf } from "./verdict.ts";

type Placed = Schema<"TestCallPlaced">;

const words = all.testCall;
const LOOK_EVERY_MS = 1_000;
const TONES: Record<"ok" | "warn" | "bad", Tone> = { ok: "good", warn: "warn", bad: "bad" };

export function TestCall() {
  const uses = useGet("/api/v1/config/uses", {}, { staleTime: 60_000 });
  const contexts = (uses.data?.contexts ?? []).map(({ context }) => context);
  const [chosen, setChosen] = useState("");
  const [placed, setPlaced] = useState<Placed | null>(null);
  const place = useSend("post", "/api/v1/engine/setup/test-call", { onDone: setPlaced });
  const context = chosen || contexts[0] || "";
  return (
    <Section title={words.title}>
      <p className="mb-3 text-muted">{words.about}</p>
      <div className="flex flex-wrap items-end gap-2">
        <Field label={words.context}>
          <Select
            value={context}
            onValue={setChosen}
            options={contexts.map((each) => ({ value: each, label: each }))}
          />
        </Field>
        <Button
          look="primary"
          icon="calls"
          busy={place.isPending}
          disabled={!context}
          onClick={() => place.mutate({ body: { context } })}
        >
          {words.place}
        </Button>
      </div>
      {placed && <Course key={placed.call_id} placed={placed} />}
    </Section>
  );
}

/** The call as far as it is; its verdict when it is over. */
function Course({ placed }: { placed: Placed }) {
  const path = { call_id: placed.call_id };
  const [over, setOver] = useState(false);
  const look = useGet(
    "/api/v1/calls/{call_id}",
    { path },
    { refetchInterval: over ? false : LOOK_EVERY_MS, staleTime: 0 },
  );
  const { data, error } = look;
  const ended = data !== undefined && !data.live && data.call.row.outcome !== "";
  if (ended && !over) setOver(true);
  // The ledger of a call, or the line about a refused one, takes a moment to be found.
  const unseen = error instanceof Refused && error.status === 404;
  const verdict = ended ? verdictOf(data.call, placed.says !== "") : null;
  return (
    <div role="status" className="mt-4 grid justify-items-start gap-2">
      {!verdict && (!error || unseen) && <p>{words.runs(placed.says)}</p>}
      {!verdict && error && !unseen && <p className="text-bad">{sentence(error)}</p>}
      {verdict && (
        <>
          <p className="flex items-center gap-2 font-medium">
            <StatusDot tone={TONES[verdict.state]} label={all.states[verdict.state]} />
            {words.verdicts[verdict.what]}
            {verdict.answerMs !== null && ` ${words.after(durationText(verdict.answerMs))}`}
          </p>
          {verdict.said && <p className="text-muted">{words.said(verdict.said)}</p>}
          {verdict.what === "refused" && <p className="text-muted">{data?.call.row.reason}</p>}
          {data?.call.troubles.map((trouble) => (
            <p key={trouble} className="text-warn">
              {trouble}
            </p>
          ))}
          {verdict.what !== "refused" && (
            <LinkButton icon="calls" to="/calls/$callId" params={{ callId: placed.call_id }}>
              {words.open}
            </LinkButton>
          )}
        </>
      )}
    </div>
  );
}
