import { type Raw, text } from "../../app/search.ts";

export interface Search {
  /** The alarm that a link points to. */
  alarm?: string | undefined;
}

export function search(raw: Raw): Search {
  return { alarm: text(raw.alarm) };
}
