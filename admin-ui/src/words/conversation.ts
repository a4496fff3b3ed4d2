import type { MarkItem } from "../conversation/conversation.ts";
import type { Stage } from "../conversation/waits.ts";

const marks: Record<MarkItem["type"], string> = {
  "call.silence": "Silence",
  "call.trouble": "Trouble",
  "call.flagged": "Flag",
  "call.listened": "Listened",
  "line.transfer": "Transfer",
  "message.taken": "Message",
  "callback.requested": "Call-back",
  "operator.hint": "Hint",
  "operator.hangup": "Ended by an operator",
  "operator.takeover": "Taken over by an operator",
  "announcement.heard": "Announcement heard",
  "announcement.unheard": "Announcement not heard",
  "caller.key_chosen": "Key of the menu",
  "line.hold_began": "Caller puts the call on hold",
  "line.hold_ended": "Caller is back",
  "recording.started": "Recording begins",
  "recording.paused": "Recording paused",
  "recording.resumed": "Recording goes on",
  "recording.declined": "Not recorded: no consent",
  "ledger.gap": "Lines are missing",
};

/** The parts of the caller's wait, under the same names on every page. */
export const stages: Record<Stage, string> = {
  endpoint: "End of turn",
  stt: "Recogniser",
  brain: "Model",
  tts: "Voice",
  wire: "Line",
};

export const words = {
  label: "Conversation",
  latest: "To the newest",
  parties: { caller: "Caller", human: "Colleague", agent: "Agent", tool: "Tool", engine: "Engine" },
  speaks: "The caller speaks…",
  hidden: "words are hidden",
  notUnderstood: "Not understood",
  notHeard: "not heard:",
  saidBy: { operator: "operator" } as Readonly<Record<string, string>>,
  sure: (share: number) => `recognised with ${Math.round(share * 100)}\u00a0%`,
  filler: "While the tool runs",
  keys: (keys: string) => `pressed ${keys}`,
  tool: {
    running: "running",
    stepOf: "step of a workflow",
    arguments: "Arguments",
    result: "Result, as the agent got it",
    said: "Spoken",
    cut: "Left out for its size",
    sources: {
      cache: "kept answer",
      joined: "joined an equal run",
      late: "late",
    } as Readonly<Record<string, string>>,
  },
  approvalGiven: "The caller's answer:",
  approvalAsked: "The agent asks for your yes",
  approval: { yes: "Yes", no: "No", none: "no clear answer" } as Readonly<Record<string, string>>,
  yes: "Yes",
  no: "No",
  marks,
  stages,
  waits: "Waits",
  noWaits: "Each answer's wait appears here, by stage.",
  median: "median",
  waiting: "waiting",
  withFiller: (answer: string) => `filler first, answer after ${answer}`,
  turn: (number: number) => `Turn ${number}`,
} as const;
