// Begins what the page tries: the trial of a draft, a conversation, a call.
import { useQueryClient } from "@tanstack/react-query";
import { useCallback, useEffect, useRef, useState } from "react";

import { api, keyOf, type Schema } from "../../app/api.ts";
import { BrowserCall, type Ordered, type Sound } from "../../audio/browser-call.ts";
import { words } from "../../words/try.ts";
import type { CallTest } from "./call.tsx";
import type { Canned, Chosen } from "./options.tsx";
import { type Search, variablesOf } from "./search.ts";
import { type Message, WrittenTest } from "./written-test.ts";

type Trial = Schema<"TrialState">;

/** End a trial. It may have expired by now, which is the same. */
export async function endTrial(trial: string): Promise<void> {
  const params = { path: { trial_id: trial } };
  const ending = api.DELETE("/api/v1/trials/{trial_id}", { params, keepalive: true });
  await ending.catch(() => undefined);
}

/** The trial of a draft: begun at the first use, ended with the page, or when another begins. */
export function useTrial(chosen: Chosen | undefined) {
  const [state, setState] = useState<Trial | null>(null);
  const current = useRef<{ key: string; state: Trial } | null>(null);
  const queries = useQueryClient();
  const ends = useRef(0);
  const end = useCallback(async () => {
    ends.current += 1;
    const trial = current.current?.state.trial;
    if (trial === undefined) return;
    current.current = null;
    setState(null);
    await endTrial(trial);
  }, []);
  useLeaving(end);
  /** Return the id of the trial; empty for the configuration in force. Throws `Refused`. */
  const begin = async (): Promise<string> => {
    if (!chosen?.trial) return "";
    const running = current.current;
    if (running?.key === chosen.key && Date.parse(running.state.expires_at) > Date.now()) {
      return running.state.trial;
    }
    await end();
    const before = ends.current;
    const { data } = await api.POST("/api/v1/trials", { body: chosen.trial });
    if (data === undefined) throw new Error("the engine gave no trial");
    if (ends.current !== before) {
      await endTrial(data.trial); // the page was left while the engine made it
      throw new Error(words.trial.left);
    }
    current.current = { key: chosen.key, state: data };
    setState(data);
    void queries.invalidateQueries({ queryKey: keyOf("/api/v1/trials") });
    return data.trial;
  };
  return { state, begin, end };
}

/** Calls `leave` when the page is left, closed, or another `leave` takes its place. */
function useLeaving(leave: () => unknown): void {
  useEffect(() => {
    window.addEventListener("pagehide", leave);
    return () => {
      window.removeEventListener("pagehide", leave);
      leave();
    };
  }, [leave]);
}

export interface Given {
  search: Search;
  chosen: Chosen | undefined;
  canned: Readonly<Record<string, Canned>>;
  sound: Sound;
  begin: () => Promise<string>;
}

/** The conversation and the call of this page. Both end when it is left, or another begins. */
export function useTests(given: Given) {
  const [chat, setChat] = useState<WrittenTest | null>(null);
  const [call, setCall] = useState<CallTest | null>(null);
  useLeaving(useCallback(() => chat?.leave(), [chat]));
  useLeaving(useCallback(() => call?.call.leave(), [call]));
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

function toolsOf({ search, canned }: Given): Pick<Schema<"ChatOf">, "tools" | "answers"> {
  const tools = search.tools ?? "read_only";
  if (tools !== "canned") return { tools, answers: {} };
  const given = Object.entries(canned).filter(([, { message, failed }]) => message || failed);
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
      api.DELETE("/api/v1/chats/{chat_id}", {
        params: { path: { chat_id: chat } },
        keepalive: true,
      }),
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
