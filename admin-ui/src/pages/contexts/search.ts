// The address of the page: which section, which draft, which versions.

export interface Search {
  /** Section of the file that is shown, as the engine writes keys: `providers.local`. */
  readonly at?: string;
  readonly draft?: string;
  readonly tab?: "versions";
  /** Digests of two versions; without `to`, the file. */
  readonly from?: string;
  readonly to?: string;
}

export function search(raw: Record<string, unknown>): Search {
  const { at, draft, tab, from, to } = raw;
  return {
    ...(isText(at) && at.length <= 1_000 ? { at } : {}),
    ...(isText(draft) && /^[a-z0-9][a-z0-9-]{0,63}$/.test(draft) ? { draft } : {}),
    ...(tab === "versions" ? { tab } : {}),
    ...(isDigest(from) ? { from } : {}),
    ...(isDigest(to) ? { to } : {}),
  };
}

function isText(value: unknown): value is string {
  return typeof value === "string" && value !== "";
}

function isDigest(value: unknown): value is string {
  return isText(value) && /^[0-9a-f]{4,64}$/.test(value);
}
