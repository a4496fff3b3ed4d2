// The command palette's items, and which of them a text finds.
export interface Item {
  id: string;
  label: string;
  /** The kind of thing, beside the label. */
  kind: string;
  /** Further words that find it. */
  also?: string;
  run: () => void;
}

const MOST = 30;

/** The items with all words of the text, those that begin with it first; at most 30. */
export function findItems(items: readonly Item[], text: string): Item[] {
  const wanted = text.trim().toLowerCase();
  const parts = wanted.split(/\s+/);
  const found = items.filter(({ label, kind, also = "" }) => {
    const all = `${label} ${kind} ${also}`.toLowerCase();
    return parts.every((part) => all.includes(part));
  });
  const begins = ({ label }: Item) => (label.toLowerCase().startsWith(wanted) ? 0 : 1);
  return found.sort((one, other) => begins(one) - begins(other)).slice(0, MOST);
}

/** A text that may be a telephone number, without spaces and dashes; else "". */
export function asNumber(text: string): string {
  const digits = text.replace(/[\s()/.-]/g, "");
  return /^\+?\d{3,20}$/.test(digits) ? digits : "";
}

/** A text that may be the id of a call; else "". */
export function asCallId(text: string): string {
  const id = text.trim();
  return /^[\w.:-]{6,100}$/.test(id) && /\d/.test(id) ? id : "";
}
