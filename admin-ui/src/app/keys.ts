// Which shortcut the pressed keys mean: a single key (`j`, `?`), or two one after the other (`g l`).
const SECOND_KEY_MS = 1_200;

export class KeySequence {
  #first = "";
  #at = 0;

  /**
   * Takes a key. Returns the shortcut among `known` that it completes, or "" if there is none yet.
   * `now` in ms.
   */
  press(key: string, known: { has(keys: string): boolean; keys(): Iterable<string> }, now: number) {
    const both = this.#first && now - this.#at < SECOND_KEY_MS ? `${this.#first} ${key}` : "";
    this.#first = "";
    if (both && known.has(both)) return both;
    if (known.has(key)) return key;
    if ([...known.keys()].some((keys) => keys.startsWith(`${key} `))) {
      this.#first = key;
      this.#at = now;
    }
    return "";
  }
}
