// The engine's words beside the fields that they are about.
import { Refused } from "../../api/client.ts";

export interface Faults<Name extends string> {
  of: Readonly<Partial<Record<Name, string>>>;
  /** An error that is about none of the fields. */
  rest: Error | null;
}

/** Sorts a refusal by the places that it names (`at`), such as `hours` or `keys.0`. */
export function faultsOf<Name extends string>(
  error: Error | null,
  fields: readonly Name[],
): Faults<Name> {
  const of: Partial<Record<Name, string>> = {};
  if (error === null) return { of, rest: null };
  const places = error instanceof Refused ? error.refusal.at : [];
  for (const place of places as readonly { key?: unknown; message?: unknown }[]) {
    const name = fields.find((each) => each === String(place.key).split(".")[0]);
    if (name !== undefined) of[name] ??= String(place.message);
  }
  return { of, rest: Object.keys(of).length > 0 ? null : error };
}
