// What of an answer the caller heard. Pure.

export interface SaidPart {
  readonly text: string;
  readonly heard: boolean;
}

/**
 * Divide an answer into what the caller heard and what not. An interruption cuts within a
 * sentence; a sentence after it, such as "Yes?", was heard again.
 */
export function heardParts(text: string, heard: string, cut: boolean): SaidPart[] {
  if (!cut || !text) return text || heard ? [{ text: text || heard, heard: true }] : [];
  const [all, got] = [wordsOf(text), wordsOf(heard)];
  let begin = 0;
  while (begin < got.length && begin < all.length && same(all[begin], got[begin])) begin += 1;
  let end = 0;
  const most = Math.min(got.length, all.length) - begin;
  while (end < most && same(all[all.length - 1 - end], got[got.length - 1 - end])) end += 1;
  if (begin + end < got.length) {
    // The engine heard back other words than it had announced: show its own account of both.
    return [
      { text: heard, heard: true },
      { text, heard: false },
    ];
  }
  const parts = [
    { text: all.slice(0, begin).join(" "), heard: true },
    { text: all.slice(begin, all.length - end).join(" "), heard: false },
    { text: all.slice(all.length - end).join(" "), heard: true },
  ];
  return parts.filter((part) => part.text);
}

export function wordsOf(text: string): string[] {
  return text.split(/\s+/).filter(Boolean);
}

function same(one: string | undefined, other: string | undefined): boolean {
  return bare(one) === bare(other);
}

function bare(word: string | undefined): string {
  return (word ?? "").replace(/[^\p{L}\p{N}]+$/u, "").toLowerCase();
}
