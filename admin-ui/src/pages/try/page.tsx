// Try an agent: the configuration in force or a draft, in writing or by a call from this page.
import { getRouteApi } from "@tanstack/react-router";
import { type ReactNode, useCallback, useEffect, useState } from "react";

import { type Schema, useGet } from "../../app/api.ts";
import { usePhone } from "../../app/phone.ts";
import { useMay } from "../../app/session.ts";
import { noMicrophone, type Sound } from "../../audio/browser-call.ts";
import { Empty, Problem } from "../../parts/answer.tsx";
import { Button } from "../../parts/button.tsx";
import { cx } from "../../parts/cx.ts";
import { Field, LateInput, Select } from "../../parts/field.tsx";
import { Fold } from "../../parts/fold.tsx";
import { Page } from "../../parts/page.tsx";
import { Tabs } from "../../parts/tabs.tsx";
import { Time } from "../../parts/time.tsx";
import { words } from "../../words/try.ts";
import { endTrial, useTests, useTrial } from "./begin.ts";
import { Call, LeaveCall } from "./call.tsx";
import { Chat } from "./chat.tsx";
import { SoundChoice } from "./line.tsx";
import { type Canned, type Chosen, Options, useChosen } from "./options.tsx";
import type { Search } from "./search.ts";

const route = getRouteApi("/try");

/** The tabs and their content take the whole height: the conversation scrolls inside. */
const PANEL = cx(
  "flex min-h-0 min-w-0 flex-1 flex-col bg-raised",
  "*:flex *:min-h-0 *:flex-1 *:flex-col",
  "[&_[role=tablist]]:min-h-10 [&_[role=tablist]]:flex-none [&_[role=tablist]]:items-end [&_[role=tablist]]:px-2",
  "[&_[role=tabpanel]]:flex [&_[role=tabpanel]]:min-h-0 [&_[role=tabpanel]]:flex-1 [&_[role=tabpanel]]:flex-col [&_[role=tabpanel]]:pt-0",
);

const USUAL_SOUND: Sound = {
  device: "",
  echoCancellation: true,
  noiseSuppression: false,
  autoGainControl: false,
  format: "slin16",
};

type OnSearch = (change: Partial<Search>) => void;

export default function TryPage() {
  const may = [useMay("try.chat"), useMay("try.call")];
  if (may.some(Boolean)) return <Trying />;
  return (
    <Page title={words.title}>
      <Empty icon="lock" title={words.forbidden}>
        <p>{words.forbiddenHint}</p>
      </Empty>
    </Page>
  );
}

const TABS = [
  { id: "chat", label: words.chat },
  { id: "call", label: words.call },
] as const;

function Trying() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const may = { chat: useMay("try.chat"), call: useMay("try.call") };
  const onSearch = useCallback(
    (change: Partial<Search>) =>
      void navigate({ search: (before) => ({ ...before, ...change }), replace: true }),
    [navigate],
  );
  const found = useChosen(search);
  const { chosen } = found;
  const [canned, setCanned] = useState<Readonly<Record<string, Canned>>>({});
  const [sound, setSound] = useState(USUAL_SOUND);
  const trial = useTrial(chosen);
  const tests = useTests({ search, chosen, canned, sound, begin: trial.begin });
  const modeOf = (wanted: unknown) =>
    may.call && (wanted === "call" || !may.chat) ? "call" : "chat";
  const mode = modeOf(search.mode);
  const ready = chosen !== undefined && chosen.context !== "";
  const call = tests.call?.call;
  useEffect(() => {
    if (mode !== "call") call?.leave(); // no microphone stays open where nobody sees it
  }, [mode, call]);
  return (
    <Page title={words.title} fills>
      {call && (
        <LeaveCall
          call={call}
          staysFor={({ pathname, search: next }) =>
            pathname === "/try" && modeOf("mode" in next && next.mode) === "call"
          }
        />
      )}
      <div className="flex min-h-0 flex-1 border-t border-line phone:flex-col">
        <aside
          aria-label={words.options.title}
          className="w-72 shrink-0 overflow-y-auto border-r border-line p-4 phone:max-h-[60%] phone:w-full phone:border-r-0 phone:border-b phone:py-2"
        >
          {found.error && <Problem error={found.error} onRetry={() => void found.refetch()} />}
          <FoldOnPhone title={words.options.folded(chosen?.context ?? "")}>
            <Options
              search={search}
              chosen={chosen}
              onSearch={onSearch}
              canned={canned}
              onCanned={(tool, answer) => setCanned({ ...canned, [tool]: answer })}
            />
            {mode === "call" && <Way search={search} chosen={chosen} onSearch={onSearch} />}
            {mode === "call" && noMicrophone() === null && (
              <Fold title={words.calling.sound}>
                <SoundChoice sound={sound} onSound={setSound} />
              </Fold>
            )}
          </FoldOnPhone>
          <TrialNotes trial={trial.state} onEnd={() => void trial.end()} />
        </aside>
        <div className={PANEL}>
          <Tabs
            label={words.ways}
            tabs={TABS.filter(({ id }) => may[id])}
            current={mode}
            manual
            onChange={(next) => onSearch({ mode: next === "call" ? "call" : undefined })}
          >
            {mode === "call" ? (
              <Call test={tests.call} ready={ready} onBegin={tests.beginCall} />
            ) : (
              <Chat test={tests.chat} ready={ready} onBegin={tests.beginChat} />
            )}
          </Tabs>
        </div>
      </div>
    </Page>
  );
}

function FoldOnPhone({ title, children }: { title: string; children: ReactNode }) {
  const inside = <div className="grid gap-3">{children}</div>;
  return usePhone() ? <Fold title={title}>{inside}</Fold> : inside;
}

type WayProps = { search: Search; chosen: Chosen | undefined; onSearch: OnSearch };

/** Straight to the engine, or through Asterisk's dialplan. */
function Way({ search, chosen, onSearch }: WayProps) {
  const text = words.calling;
  const patterns = chosen?.subject.extensions ?? [];
  const through = search.via === "asterisk";
  const hint = patterns.length > 0 ? text.extensionHint(patterns.join(", ")) : text.noExtensions;
  return (
    <>
      <Field label={text.via} hint={through ? text.viaLimits : undefined}>
        <Select
          value={search.via ?? ""}
          onValue={(via) => onSearch({ via: via || undefined })}
          options={[
            { value: "", label: text.viaEngine },
            { value: "asterisk", label: text.viaAsterisk },
          ]}
        />
      </Field>
      {through && (
        <Field label={text.extension} hint={hint}>
          <LateInput
            value={search.extension ?? ""}
            placeholder="700@from-internal"
            onValue={(extension) => onSearch({ extension: extension || undefined })}
          />
        </Field>
      )}
    </>
  );
}

interface TrialNotesProps {
  /** The trial of this page. */
  trial: Schema<"TrialState"> | null;
  onEnd: () => void;
}

/** The trial that runs for a draft, and those that other tabs, or this one before, have left. */
function TrialNotes({ trial, onEnd }: TrialNotesProps) {
  const enabled = useMay("config.draft");
  const own = useGet("/api/v1/trials", {}, { enabled });
  const others = (own.data?.trials ?? []).filter((each) => each.trial !== trial?.trial);
  return (
    <>
      {trial && <TrialNote trial={trial} onEnd={onEnd} />}
      {others.map((other) => (
        <div
          key={other.trial}
          className="mt-4 flex flex-wrap items-center justify-between gap-2 rounded-md bg-hover p-3"
        >
          <p>
            {words.trial.other(other.context)} <Time at={other.expires_at} />
          </p>
          <Button small onClick={() => void endTrial(other.trial).then(() => own.refetch())}>
            {words.trial.end}
          </Button>
        </div>
      ))}
    </>
  );
}

function TrialNote({ trial, onEnd }: { trial: Schema<"TrialState">; onEnd: () => void }) {
  const own = trial.mcp.filter((server) => server.own);
  const failing = trial.mcp.filter((server) => server.last_error);
  return (
    <section
      className="mt-4 grid gap-2 rounded-md bg-accent-soft p-3"
      aria-label={words.trial.label}
    >
      <div className="flex flex-wrap items-center justify-between gap-2">
        <p>
          {words.trial.running} <Time at={trial.expires_at} />
          {own.length > 0 && `, ${words.trial.servers(own.length)}`}
        </p>
        <Button small onClick={onEnd}>
          {words.trial.end}
        </Button>
      </div>
      {failing.map(({ server, last_error }) => (
        <p key={server} className="text-bad">
          {words.trial.failing(server, last_error)}
        </p>
      ))}
      {trial.problems.map(({ key, message }) => (
        <p key={`${key} ${message}`} className="text-warn">
          {key}: {message}
        </p>
      ))}
    </section>
  );
}
