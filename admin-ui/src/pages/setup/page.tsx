import { getRouteApi } from "@tanstack/react-router";

import { type Schema, useGet } from "../../app/api.ts";
import { useMay } from "../../app/session.ts";
import { Answer, Skeleton } from "../../parts/answer.tsx";
import { Badge, StatusDot, type Tone } from "../../parts/badge.tsx";
import { Button, LinkButton } from "../../parts/button.tsx";
import { CodeBlock, Prose } from "../../parts/code.tsx";
import { cx } from "../../parts/cx.ts";
import { Switch } from "../../parts/field.tsx";
import { Page, Section } from "../../parts/page.tsx";
import { words } from "../../words/setup.ts";
import { TestCall } from "./test-call.tsx";

type Step = Schema<"Step">;

const route = getRouteApi("/setup");
const TONES: Record<Step["state"], Tone> = {
  ok: "good",
  warn: "warn",
  bad: "bad",
  skipped: "neutral",
};

/** The first visit, and whenever something does not work: each part, and the lines that mend it. */
export default function SetupPage() {
  const { freepbx } = route.useSearch();
  const navigate = route.useNavigate();
  const mayCall = useMay("try.call");
  const query = { freepbx: freepbx ?? false };
  const setup = useGet("/api/v1/engine/setup", { query }, { keepPrevious: true });
  return (
    <Page
      title={words.title}
      aside={setup.data && <Summary steps={setup.data.steps} />}
      actions={
        <Button icon="refresh" busy={setup.isFetching} onClick={() => void setup.refetch()}>
          {words.again}
        </Button>
      }
    >
      <div className="max-w-3xl">
        <div className="mb-4 flex flex-wrap items-start justify-between gap-x-6 gap-y-3">
          <p className="max-w-xl text-muted">{words.about}</p>
          <Switch
            label={words.freepbx}
            checked={freepbx ?? false}
            onChecked={(on) =>
              void navigate({ search: { freepbx: on || undefined }, replace: true })
            }
          />
        </div>
        <Answer query={setup} skeleton={<Skeleton lines={10} />}>
          {({ steps }) => (
            <>
              <ol className="mb-4 rounded-lg border border-line bg-raised">
                {[...steps, microphone()].map((step) => (
                  <StepRow key={step.id} step={step} />
                ))}
              </ol>
              {mayCall && <TestCall />}
              <Next />
            </>
          )}
        </Answer>
      </div>
    </Page>
  );
}

function Summary({ steps }: { steps: readonly Step[] }) {
  const good = steps.filter(({ state }) => state === "ok").length;
  const bad = steps.some(({ state }) => state === "bad");
  return <Badge tone={bad ? "bad" : "neutral"}>{words.summary(good, steps.length)}</Badge>;
}

function StepRow({ step }: { step: Step }) {
  const { state, what, said, fix } = step;
  return (
    <li className="grid grid-cols-[auto_minmax(0,1fr)] gap-x-3 border-b border-line px-4 py-3 last:border-0">
      <span className="flex h-5 items-center">
        <StatusDot tone={TONES[state]} label={words.states[state]} />
      </span>
      <div className="grid grid-cols-[minmax(0,1fr)] gap-1">
        <p className="font-medium first-letter:uppercase">{what}</p>
        <p className={cx("break-words text-muted", isSentence(said) && "first-letter:uppercase")}>
          <Prose text={said} />
        </p>
        {fix && (
          <div className="mt-1 grid grid-cols-[minmax(0,1fr)] gap-1.5">
            <p>
              <Prose text={fix.text} />
            </p>
            {fix.copy && <CodeBlock text={fix.copy} label={words.paste(what)} />}
          </div>
        )}
      </div>
    </li>
  );
}

/** False if it begins with a path or a key, whose letters count. */
const isSentence = (text: string) => /^\p{L}+[\s,]/u.test(text);

/** Whether this page may use the microphone, which the engine cannot know. */
function microphone(): Step {
  const step = { id: "microphone", what: words.microphone };
  if (window.isSecureContext) {
    return { ...step, state: "ok", said: words.microphoneOk, fix: null };
  }
  const { hostname, port } = window.location;
  const copy = `ssh -L ${port}:127.0.0.1:${port} ${hostname}`;
  const said = words.microphoneNot(hostname);
  return { ...step, state: "warn", said, fix: { text: words.microphoneFix, copy } };
}

function Next() {
  return (
    <Section title={words.next}>
      <p className="mb-3 text-muted">{words.nextAbout}</p>
      <div className="flex flex-wrap gap-2">
        <LinkButton to="/try" look="primary">
          {words.tryIt}
        </LinkButton>
        <LinkButton to="/live">{words.live}</LinkButton>
      </div>
    </Section>
  );
}
