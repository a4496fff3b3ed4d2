// Blocks a long list part by part, at the pace that the engine allows.
import { Refused } from "../../api/client.ts";

/** Numbers that the engine takes in one request. */
export const MOST_AT_ONCE = 1_000;

const TOO_OFTEN = 429;

/** What the engine has of a list. A list that is sent again goes on after it. */
export interface Taken {
  /** As they are written in the list. */
  readonly numbers: Set<string>;
  /** How many of them are new on the do-not-call list. */
  added: number;
}

export interface Ways {
  /** Sends one part, and gives how many of its numbers are new. */
  send(part: string[]): Promise<number>;
  /** Called after each part, and with the seconds to wait before the next one. */
  onPart(wait: number): void;
  /** Rejects if the waiting is called off. */
  pause(seconds: number): Promise<void>;
}

/** Blocks the numbers that are not taken yet. Throws the first refusal other than of the pace. */
export async function blockRest(numbers: readonly string[], taken: Taken, ways: Ways) {
  const rest = numbers.filter((each) => !taken.numbers.has(each));
  for (let at = 0; at < rest.length; ) {
    const part = rest.slice(at, at + MOST_AT_ONCE);
    try {
      taken.added += await ways.send(part);
    } catch (error) {
      const isPace = error instanceof Refused && error.status === TOO_OFTEN;
      if (!isPace || error.retryAfter === 0) throw error;
      ways.onPart(error.retryAfter);
      await ways.pause(error.retryAfter);
      continue;
    }
    for (const each of part) taken.numbers.add(each);
    at += MOST_AT_ONCE;
    ways.onPart(0);
  }
}
