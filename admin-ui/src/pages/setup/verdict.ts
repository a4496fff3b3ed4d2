// What a test call has shown, from its record.
import type { Schema } from "../../app/api.ts";

type Call = Schema<"CallRecord">;

export interface Verdict {
  readonly state: "ok" | "warn" | "bad";
  readonly what: "answered" | "greeted" | "not_heard" | "silent" | "refused";
  /** The agent's words, the answer first; empty if it said none, or they may not be seen. */
  readonly said: string;
  /** Ms between the caller's last word and the answer; null without an answer. */
  readonly answerMs: number | null;
}

/** Judge a test call that is over. `spoke`: its caller had a voice to speak with. */
export function verdictOf(call: Call, spoke: boolean): Verdict {
  const none = { said: "", answerMs: null };
  if (call.row.outcome === "refused") return { state: "bad", what: "refused", ...none };
  const answered = call.turns.find(({ caller, agent }) => caller && agent?.begin_ms != null);
  if (answered) {
    const { agent, answer_ms: answerMs } = answered;
    return { state: "ok", what: "answered", said: agent?.heard ?? "", answerMs };
  }
  const greeting = call.turns.find(({ agent }) => agent?.begin_ms != null)?.agent;
  if (!greeting) return { state: "bad", what: "silent", ...none };
  const said = greeting.heard;
  if (spoke) return { state: "bad", what: "not_heard", said, answerMs: null };
  return { state: "warn", what: "greeted", said, answerMs: null };
}
