// The state of the page in its address: what is tried, as whom, and with which tools.
import { oneOf, type Raw, text, texts } from "../../app/search.ts";

export interface Search {
  /** A written conversation if it is left out. */
  mode?: "call" | undefined;
  /** A saved draft of one's own; or a version, by its digest; neither: the one in force. */
  draft?: string | undefined;
  version?: string | undefined;
  context?: string | undefined;
  provider?: string | undefined;
  /** `read_only` if it is left out. */
  tools?: "real" | "canned" | undefined;
  /** A call goes straight to the engine if it is left out. */
  via?: "asterisk" | undefined;
  /** `EXTENSION@CONTEXT` of Asterisk's dialplan. */
  extension?: string | undefined;
  number?: string | undefined;
  name?: string | undefined;
  /** Channel variables of the caller, `NAME=value` each. */
  set?: string[] | undefined;
}

/** Take the parameters that make sense, and drop the others. */
export function search(raw: Raw): Search {
  const draft = text(raw.draft);
  const set = texts(raw.set)?.filter((each) => each.indexOf("=") > 0);
  return {
    mode: oneOf(raw.mode, ["call"]),
    draft,
    version: draft ? undefined : text(raw.version),
    context: text(raw.context),
    provider: text(raw.provider),
    tools: oneOf(raw.tools, ["real", "canned"]),
    via: oneOf(raw.via, ["asterisk"]),
    extension: text(raw.extension),
    number: text(raw.number),
    name: text(raw.name),
    set: set?.length ? set : undefined,
  };
}

/** The variables of `set`, by name; only the declared ones. */
export function variablesOf(set: readonly string[], declared: readonly string[]) {
  const pairs = set.map((each) => {
    const at = each.indexOf("=");
    return [each.slice(0, at), each.slice(at + 1)] as const;
  });
  return Object.fromEntries(pairs.filter(([name, value]) => declared.includes(name) && value));
}
