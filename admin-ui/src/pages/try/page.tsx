// Try an agent: the configuration in force or a draft, in writing or by a call from this page.
import { getRouteApi } from "@tanstack/react-router";
import { useCallback, useEffect, useRef, useState } from "react";

import { api, type Schema } from "../../app/api.ts";
import { useMay } from "../../app/session.ts";
import { BrowserCall, noMicrophone, type Ordered, type Sound } from "../../audio/browser-call.ts";
import { Problem } from "../../parts/answer.tsx";
import { Button } from "../../parts/button.tsx";
import { cx } from "../../parts/cx.ts";
import { Field, Select, TextInput } from "../../parts/field.tsx";
import { Page } from "../../parts/page.tsx";
import { Tabs } from "../../parts/tabs.tsx";
import { Time } from "../../parts/time.tsx";
import { words } from "../../words/try.ts";
import { Call, type CallTest } from "./call.tsx";
import { Chat } from "./chat.tsx";
import { SoundChoice } from "./line.tsx";
import { type Canned, type Chosen, Fold, Options, useChosen } from "./options.tsx";
import { type Search, variablesOf } from "./search.ts";
import { type Message, WrittenTest } from "./written-test.ts";

const route = getRouteApi("/try");

/** The tabs and their content take the whole height: the conversation scrolls inside. */
const PANEL = cx(
  "flex min-h-0 min-w-0 flex-1 flex-col bg-raised phone:min-h-[75vh]",
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
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const mayCall = useMay("try.call");
  const mayChat = useMay("try.chat");
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
  const mode = search.mode ?? "chat";
  const tabs = [
    ...(mayChat ? [{ id: "chat" as const, label: words.chat }] : []),
    ...(mayCall ? [{ id: "call" as const, label: words.call }] : []),
  ];
  const ready = chosen !== undefined && chosen.context !== "";
  return (
    <Page title={words.title} fills>
      <div className="flex min-h-0 flex-1 border-t border-line phone:flex-col phone:overflow-y-auto">
        <aside className="w-72 shrink-0 overflow-y-auto border-r border-line p-4 phone:w-full phone:overflow-visible phone:border-r-0 phone:border-b">
          {found.error && <Problem error={found.error} onRetry={() => void found.refetch()} />}
          <Options
            search={search}
            chosen={chosen}
            onSearch={onSearch}
            canned={canned}
            onCanned={(tool, answer) => setCanned({ ...canned, [tool]: answer })}
          />
          {mode === "call" && (
            <div className="grid gap-3 pt-3">
              <Way search={search} chosen={chosen} onSearch={onSearch} />
              {noMicrophone() === null && (
                <Fold title={words.calling.sound}>
                  <SoundChoice sound={sound} onSound={setSound} />
                </Fold>
              )}
            </div>
          )}
          {trial.state && <TrialNote trial={trial.state} onEnd={trial.end} />}
        </aside>
        <div className={PANEL}>
          <Tabs
            label={words.ways}
            tabs={tabs}
            current={mode}
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
          <TextInput
            value={search.extension ?? ""}
            placeholder="700@from-internal"
            onChange={(event) => onSearch({ extension: event.target.value || undefined })}
          />
        </Field>
      )}
    </>
  );
}

/** The trial that runs for a draft. */
function TrialNote({ trial, onEnd }: { trial: Schema<"TrialState">; onEnd: () => void }) {
  const own = trial.mcp.filter((server) => server.own);
  const failing = trial.mcp.filter((server) => server.last_error);
  return (
    <section
      className="mt-4 grid gap-2 rounded-md bg-accent-soft p-3"
      aria-label={words.trial.label}
    >
      <p>
        {words.trial.running} <Time at={trial.expires_at} />
        {own.length > 0 && `, ${words.trial.servers(own.length)}`}
      </p>
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
      <Button small className="justify-self-start" onClick={onEnd}>
        {words.trial.end}
      </Button>
    </section>
  );
}

/** The trial of a draft: begun at the first use, ended with the page, or when another is chosen. */
function useTrial(chosen: Chosen | undefined) {
  const [state, setState] = useState<Schema<"TrialState"> | null>(null);
  const current = useRef<{ key: string; state: Schema<"TrialState"> } | null>(null);
  const end = useCallback(() => {
    const trial = current.current?.state.trial;
    current.current = null;
    setState(null);
    // It may have expired by now, which is the same.
    if (trial) {
      api
        .DELETE("/api/v1/trials/{trial_id}", { params: { path: { trial_id: trial } } })
        .catch(() => undefined);
    }
  }, []);
  const key = chosen?.key ?? "";
  // biome-ignore lint/correctness/useExhaustiveDependencies: another draft needs another trial
  useEffect(() => end, [key, end]);
  /** Return the id of the trial; empty for the configuration in force. Throws `Refused`. */
  const begin = async (): Promise<string> => {
    if (!chosen?.trial) return "";
    const running = current.current;
    if (running?.key === key && Date.parse(running.state.expires_at) > Date.now()) {
      return running.state.trial;
    }
    const { data } = await api.POST("/api/v1/trials", { body: chosen.trial });
    if (data === undefined) throw new Error("the engine gave no trial");
    current.current = { key, state: data };
    setState(data);
    return data.trial;
  };
  return { state, begin, end };
}

interface Given {
  search: Search;
  chosen: Chosen | undefined;
  canned: Readonly<Record<string, Canned>>;
  sound: Sound;
  begin: () => Promise<string>;
}

/** The conversation and the call of this page. Both end when it is left, or another begins. */
function useTests(given: Given) {
  const [chat, setChat] = useState<WrittenTest | null>(null);
  const [call, setCall] = useState<CallTest | null>(null);
  useEffect(() => () => chat?.leave(), [chat]);
  useEffect(() => () => call?.call.leave(), [call]);
  return {
    chat,
    call,
    beginChat: () => setChat(new WrittenTest(deskOf(given))),
    beginCall: () => {
      const made = new BrowserCall(given.sound, () => orderOf(given));
      setCall({ call: made, number: (call?.number ?? 0) + 1 });
    },
  };
}

function toolsOf({ search, chosen, canned }: Given): Pick<Schema<"ChatOf">, "tools" | "answers"> {
  const tools = search.tools ?? "real";
  if (tools !== "canned") return { tools, answers: {} };
  const given = Object.entries(canned).filter(
    ([tool, { message, failed }]) => chosen?.tools.includes(tool) && (message || failed),
  );
  const answers = given.map(
    ([tool, each]) => [tool, { ...each, data: null, after_ms: 0 }] as const,
  );
  return { tools, answers: Object.fromEntries(answers) };
}

function callerOf({ search, chosen }: Given) {
  const { number = "", name = "", set = [] } = search;
  return { number, name, variables: variablesOf(set, chosen?.variables ?? []) };
}

function deskOf(given: Given) {
  const { search, chosen, begin } = given;
  return {
    begin: async () => {
      const trial = await begin();
      const { data } = await api.POST("/api/v1/chats", {
        body: {
          ...toolsOf(given),
          context: chosen?.context ?? null,
          trial: trial || null,
          provider: search.provider ?? null,
          caller: { ...callerOf(given), called_number: "" },
        },
      });
      if (data === undefined) throw new Error("the engine gave no conversation");
      return data;
    },
    answer: async (chat: string, message: Message, signal: AbortSignal) => {
      const { data } = await api.POST("/api/v1/chats/{chat_id}/messages", {
        params: { path: { chat_id: chat } },
        body: { message: null, approve: null, ...message },
        signal,
        parseAs: "stream",
      });
      if (!data) throw new Error("the engine gave no answer");
      return data;
    },
    end: (chat: string) =>
      api.DELETE("/api/v1/chats/{chat_id}", { params: { path: { chat_id: chat } } }),
  };
}

async function orderOf(given: Given): Promise<Ordered> {
  const { search, chosen, sound, begin } = given;
  const through = search.via === "asterisk";
  const { data } = await api.POST("/api/v1/browser-calls", {
    body: {
      ...(through ? { tools: "real", answers: {} } : toolsOf(given)),
      context: chosen?.context ?? "",
      provider: search.provider ?? "",
      trial: through ? "" : await begin(),
      via: search.via ?? "engine",
      extension: through ? (search.extension ?? "") : "",
      caller: callerOf(given),
      format: sound.format,
    },
  });
  if (data === undefined) throw new Error("the engine gave no call");
  return data;
}
