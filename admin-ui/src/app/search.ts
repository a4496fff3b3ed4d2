// The URL's search parameters are the state of a page. They come as text from the address and as
// values from the page's own links, so each reader takes both.
export type Raw = Record<string, unknown>;

/** Reads `?a=1&b=2&b=3` as `{a: "1", b: ["2", "3"]}`. */
export function parseSearch(address: string): Raw {
  const found: Raw = {};
  const given = new URLSearchParams(address);
  for (const key of new Set(given.keys())) {
    const all = given.getAll(key);
    found[key] = all.length === 1 ? all[0] : all;
  }
  return found;
}

/** Writes it back; what is undefined, null, empty or false is left out. */
export function stringifySearch(search: Raw): string {
  const written = new URLSearchParams();
  for (const [key, value] of Object.entries(search)) {
    for (const each of Array.isArray(value) ? value : [value]) {
      if (each !== undefined && each !== null && each !== "" && each !== false) {
        written.append(key, String(each));
      }
    }
  }
  const text = written.toString();
  return text && `?${text}`;
}

/** A text; of several the first; undefined if there is none. */
export function text(raw: unknown): string | undefined {
  const first = Array.isArray(raw) ? raw[0] : raw;
  if (typeof first === "number") return String(first);
  return typeof first === "string" && first !== "" ? first : undefined;
}

/** All texts, without doubles; undefined if there are none. */
export function texts(raw: unknown): string[] | undefined {
  const all = (Array.isArray(raw) ? raw : [raw]).flatMap((each) => text(each) ?? []);
  return all.length > 0 ? [...new Set(all)] : undefined;
}

/** A whole number, not below `least`. */
export function whole(raw: unknown, least = 0): number | undefined {
  const given = text(raw);
  const number = given === undefined ? Number.NaN : Number(given);
  return Number.isSafeInteger(number) && number >= least ? number : undefined;
}

/** One of the known words. */
export function oneOf<T extends string>(raw: unknown, known: readonly T[]): T | undefined {
  const given = text(raw);
  return known.find((each) => each === given);
}

/** True for `?key=true` and `?key=1`; undefined otherwise, so that it leaves the address. */
export function flag(raw: unknown): true | undefined {
  return raw === true || raw === "true" || raw === "1" || raw === 1 ? true : undefined;
}
