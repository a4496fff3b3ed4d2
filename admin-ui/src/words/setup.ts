import type { Schema } from "../app/api.ts";
import type { Verdict } from "../pages/setup/verdict.ts";

export const words = {
  title: "Set-up",
  again: "Check again",
  about:
    "The engine looks at Asterisk, its own ports, voices and disk. Nothing is changed; what is missing comes with the lines to paste.",
  freepbx: "Dialplan for FreePBX",
  states: {
    ok: "In order",
    warn: "Look at this",
    bad: "Does not work",
    skipped: "Not checked",
  } satisfies Record<Schema<"Step">["state"], string>,
  summary: (good: number, all: number) => `${good} of ${all} in order`,
  paste: (what: string) => `Lines for: ${what}`,
  microphone: "Microphone of this browser",
  microphoneOk: "It can be used: this page is on a safe address.",
  microphoneNot: (host: string) =>
    `Browsers allow it over https and on this machine only, not on ${host}.`,
  microphoneFix: "Open the page through a tunnel, on the machine with this browser:",
  testCall: {
    title: "Test call",
    about:
      "A caller inside of the engine calls a context, waits for the greeting, asks a question and waits for the answer. Services cost as in any call; of the tools, only those run that read.",
    context: "Context",
    place: "Place a test call",
    runs: (says: string) =>
      says ? `The call is running. Its caller asks: “${says}”` : "The call is running.",
    verdicts: {
      answered: "The caller was greeted and understood, and got an answer",
      greeted:
        "The greeting was heard. Nothing was asked: the engine has no offline voice for the caller",
      not_heard: "The greeting was heard, but no answer to the caller's question",
      silent: "The agent said nothing",
      refused: "The engine refused the call",
    } satisfies Record<Verdict["what"], string>,
    after: (wait: string) => `after ${wait}`,
    said: (text: string) => `“${text}”`,
    open: "Open the call",
  },
  next: "When all is in order",
  nextAbout: "Talk to a context from here, by text or by voice, before you send callers to it.",
  tryIt: "Try a context",
  live: "Watch live calls",
} as const;
