import { flag } from "../../app/search.ts";

export interface Search {
  /** The dialplan in the form of FreePBX. */
  freepbx?: true | undefined;
}

export function search(raw: Record<string, unknown>): Search {
  return { freepbx: flag(raw.freepbx) };
}
