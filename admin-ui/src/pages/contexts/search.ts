// The address of the page: which part of the file, which draft, which versions.
import { oneOf, text } from "../../app/search.ts";

export interface Search {
  /** Part of the file, as the engine writes keys: `providers.local`. A context is in the path. */
  readonly at?: string | undefined;
  readonly draft?: string | undefined;
  readonly tab?: "versions" | undefined;
  /** Versions to compare; without `to`, with the file. */
  readonly from?: string | undefined;
  readonly to?: string | undefined;
}

export function search(raw: Record<string, unknown>): Search {
  return {
    at: text(raw.at)?.slice(0, 1_000),
    draft: like(raw.draft, /^[a-z0-9][a-z0-9-]{0,63}$/),
    tab: oneOf(raw.tab, ["versions"]),
    from: like(raw.from, DIGEST),
    to: like(raw.to, DIGEST),
  };
}

const DIGEST = /^[0-9a-f]{4,64}$/;

function like(raw: unknown, pattern: RegExp): string | undefined {
  const given = text(raw);
  return given !== undefined && pattern.test(given) ? given : undefined;
}
