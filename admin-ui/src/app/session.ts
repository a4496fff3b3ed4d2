// Who is signed in, and what they may do. The engine checks each request itself: what is hidden here
// is hidden so that no one is offered what will be refused.
import { createContext, useContext } from "react";

import type { Schema } from "./api.ts";

export type Me = Required<Schema<"Me">>;
export type Permission = Schema<"Permission">;

/** Characters of a password; the engine refuses a shorter one, too. */
export const LEAST_PASSWORD = 12;

export const SessionContext = createContext<Me | null>(null);

/** The signed-in person. Only pages inside of the frame may ask. */
export function useSession(): Me {
  const me = useContext(SessionContext);
  if (me === null) throw new Error("useSession needs a signed-in person");
  return me;
}

/** True if the person has the permission. */
export function useMay(permission: Permission): boolean {
  return useSession().permissions.includes(permission);
}

/** True if the person's scope is all contexts, which what is about all of them needs. */
export function seesAll(me: Me): boolean {
  return me.scopes.every((patterns) => patterns.includes("*"));
}
