import type { Schema } from "../app/api.ts";

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
  next: "When all is in order",
  nextAbout: "Talk to a context from here, by text or by voice, before you send callers to it.",
  tryIt: "Try a context",
  live: "Watch live calls",
} as const;
