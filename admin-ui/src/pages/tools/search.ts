// What the address of the tools pages says: filters, the open server, the choices of a try.
import { flag, oneOf, type Raw, text } from "../../app/search.ts";

export const EFFECTS = ["read_only", "idempotent", "destructive"] as const;
export const SERVER_VIEWS = ["overview", "definitions", "stderr", "messages"] as const;
export const TOOL_VIEWS = ["try", "places", "uses", "schema"] as const;
export const ANSWER_VIEWS = ["spoken", "data", "raw", "providers"] as const;

export type Effects = (typeof EFFECTS)[number];
export type ServerView = (typeof SERVER_VIEWS)[number];
export type ToolView = (typeof TOOL_VIEWS)[number];
export type AnswerView = (typeof ANSWER_VIEWS)[number];

/** One of the effects; undefined for any other word. */
export function oneEffect(raw: unknown): Effects | undefined {
  return oneOf(raw, EFFECTS);
}

export type Search = {
  /** Text in the name or the description. */
  q?: string | undefined;
  kind?: string | undefined;
  /** Of the list of tools a filter; on the page of the servers the open one. */
  server?: string | undefined;
  effects?: Effects | undefined;
  /** Of the list a filter; of a try the context that runs it. */
  context?: string | undefined;
  /** Only tools that are offered nowhere. */
  missing?: true | undefined;
  sort?: string | undefined;
  view?: ServerView | ToolView | undefined;
  /** The provider in whose form the answer is shown. */
  provider?: string | undefined;
  example?: string | undefined;
  /** A trial of one's own, in place of the configuration in force. */
  trial?: string | undefined;
  answer?: AnswerView | undefined;
  /** The server that is edited; empty for a new one. */
  edit?: string | undefined;
  add?: true | undefined;
  /** The saved draft that the edits go into; left out: a new one. */
  draft?: string | undefined;
};

export function search(raw: Raw): Search {
  return {
    q: text(raw.q),
    kind: text(raw.kind),
    server: text(raw.server),
    effects: oneEffect(raw.effects),
    context: text(raw.context),
    missing: flag(raw.missing),
    sort: text(raw.sort),
    view: oneOf(raw.view, [...SERVER_VIEWS, ...TOOL_VIEWS]),
    provider: text(raw.provider),
    example: text(raw.example),
    trial: text(raw.trial),
    answer: oneOf(raw.answer, ANSWER_VIEWS),
    edit: text(raw.edit),
    add: flag(raw.add),
    draft: text(raw.draft),
  };
}
