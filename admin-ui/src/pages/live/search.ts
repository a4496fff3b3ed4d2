// The address of the live calls: filters, order, and the call that is open beside the list.
import { flag, oneOf, type Raw, text, texts } from "../../app/search.ts";

export const ORDERS = ["oldest", "newest", "waiting", "cost"] as const;
export type Order = (typeof ORDERS)[number];

export interface Search {
  /** Id of the open call. */
  call?: string | undefined;
  context?: string[] | undefined;
  provider?: string[] | undefined;
  state?: string[] | undefined;
  /** Within number, name, words, id or dialled number. */
  text?: string | undefined;
  /** Only calls with troubles or failed tools. */
  troubled?: true | undefined;
  order?: Order | undefined;
}

export function search(raw: Raw): Search {
  const found: Search = {};
  const call = text(raw.call);
  if (call !== undefined) found.call = call;
  for (const name of ["context", "provider", "state"] as const) {
    const chosen = texts(raw[name]);
    if (chosen) found[name] = chosen;
  }
  const words = text(raw.text);
  if (words !== undefined) found.text = words;
  if (flag(raw.troubled)) found.troubled = true;
  const order = oneOf(raw.order, ORDERS);
  if (order !== undefined && order !== "oldest") found.order = order;
  return found;
}
