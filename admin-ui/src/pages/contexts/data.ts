// What the page asks the engine, beside the hooks of the shell.
import { api, isSignedOut, Refused } from "../../app/api.ts";
import type { Begin, Checked, Desk } from "./draft.ts";
import type { Conflict } from "./merge.ts";
import { isMapping } from "./outline.ts";
import type { Root } from "./schema.ts";

/** The engine, for a draft that is saved under an id. */
export function deskOf(id: string): Desk {
  return {
    check: (text, base) => told(api.POST("/api/v1/config/check", { body: { text, base } })),
    edit: (text, base, edits) =>
      told(api.POST("/api/v1/config/edit", { body: { text, base, edits } })),
    save: (text, base) =>
      told(
        api.PUT("/api/v1/drafts/{draft}", {
          params: { path: { draft: id } },
          body: { text, base },
        }),
      ),
  };
}

/** What a saved draft begins with. Its base may be older than the file. */
export async function savedDraft(
  id: string,
  config: Checked & { text: string; digest: string },
): Promise<Begin> {
  const path = { draft: id };
  const { text, base } = await told(api.GET("/api/v1/drafts/{draft}", { params: { path } }));
  const stale = base !== config.digest;
  if (!stale) return { text, base, original: config.text, verdict: config, stale };
  const original = (await versionText(base)) ?? config.text;
  return { text, base, original, verdict: await deskOf(id).check(original, base), stale };
}

async function versionText(version: string): Promise<string | undefined> {
  try {
    const params = { path: { version } };
    return (await told(api.GET("/api/v1/config/versions/{version}", { params }))).text;
  } catch (error) {
    if (error instanceof Refused && error.status === 404) return undefined; // it was not kept
    throw error;
  }
}

export async function textDifference(text: string, base: string, against: string) {
  const body = { text, base, against };
  return await told(api.POST("/api/v1/config/diff", { body }));
}

/** True if the same request may succeed in a moment. */
export function isPassing(error: unknown): boolean {
  if (isSignedOut(error)) return true; // the sign-in is shown
  if (error instanceof Refused) return [408, 429, 502, 503, 504].includes(error.status);
  return error instanceof TypeError; // no connection
}

/** What a refused publish says beside its sentence: somebody was faster, or the file is read-only. */
export interface Clash {
  readonly theirs: string;
  readonly digest: string;
  readonly withOurs: string | undefined;
  readonly conflicts: readonly Conflict[];
}

export function clashOf(error: unknown): Clash | undefined {
  if (!(error instanceof Refused) || error.refusal.code !== "conflict") return undefined;
  const more: Record<string, unknown> = { ...error.refusal };
  const { theirs, digest, with_ours: withOurs, conflicts } = more;
  if (typeof theirs !== "string" || typeof digest !== "string") return undefined;
  return {
    theirs,
    digest,
    withOurs: typeof withOurs === "string" ? withOurs : undefined,
    conflicts: Array.isArray(conflicts) ? conflicts.filter(isConflict) : [],
  };
}

export function patchOf(error: unknown): string | undefined {
  if (!(error instanceof Refused) || error.refusal.code !== "read_only") return undefined;
  const { patch }: Record<string, unknown> = { ...error.refusal };
  return typeof patch === "string" ? patch : undefined;
}

export function rootOf(schema: unknown): Root {
  if (!isRoot(schema)) throw new Error("the engine's schema has no $defs");
  return schema;
}

/** An id for a draft. `crypto.randomUUID` needs https; this does not. */
export function newId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(8));
  return `d${[...bytes].map((each) => each.toString(16).padStart(2, "0")).join("")}`;
}

function isRoot(schema: unknown): schema is Root {
  return isMapping(schema) && isMapping(schema.$defs);
}

function isConflict(value: unknown): value is Conflict {
  return isMapping(value) && typeof value.at === "number" && typeof value.ours === "string";
}

/** `api` throws for every refusal, so an answer always has data. */
async function told<T>(asked: Promise<{ data?: T }>): Promise<T> {
  const { data } = await asked;
  if (data === undefined) throw new Error("the engine gave an empty answer");
  return data;
}
