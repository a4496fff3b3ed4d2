// Lists that people choose or type: the people of a campaign, numbers to block, days, keys.
export const DAYS = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"] as const;
export type Day = (typeof DAYS)[number];

/** Characters of a campaign's list that the engine takes by this way. */
export const MOST_CSV = 2 * 1024 * 1024;

/** A file as the engine gets it. */
export interface List {
  name: string;
  text: string;
  /** Lines with something in them, below the first one. */
  lines: number;
}

/** What is wrong with a file: its first line that is no UTF-8, or its length. */
export type Fault = { notText: number } | { tooLong: true };

/** Reads a chosen file. Bytes that are no UTF-8 would be other names in the ears of the called. */
export function listOf(name: string, bytes: Uint8Array): List | Fault {
  const decoder = new TextDecoder("utf-8", { fatal: true });
  let text: string;
  try {
    text = decoder.decode(bytes);
  } catch {
    return { notText: firstBroken(bytes) };
  }
  if (text.length > MOST_CSV) return { tooLong: true };
  const lines = text.split("\n").filter((line) => line.trim()).length;
  return { name, text, lines: Math.max(0, lines - 1) };
}

function firstBroken(bytes: Uint8Array): number {
  let [line, begin] = [1, 0];
  while (begin < bytes.length) {
    const found = bytes.indexOf(10, begin);
    const end = found < 0 ? bytes.length : found;
    try {
      new TextDecoder("utf-8", { fatal: true }).decode(bytes.subarray(begin, end));
    } catch {
      return line;
    }
    [line, begin] = [line + 1, end + 1];
  }
  return line;
}

/** The numbers of a text: the first column of each line, without the head of a table. */
export function numbersIn(text: string): string[] {
  const cells = text
    .split(/\r?\n/)
    .map((line) =>
      (line.replace(/^\uFEFF/, "").split(/[,;\t]/)[0] ?? "").replace(/^["'\s]+|["'\s]+$/g, ""),
    );
  const [first, ...rest] = cells.filter(Boolean);
  if (first === undefined) return [];
  return /\d/.test(first) ? [first, ...rest] : rest;
}

/** Days as the engine reads them, three and more in a row as a range: `mon-fri,sun`. */
export function daysText(chosen: ReadonlySet<Day>): string {
  const runs: Day[][] = [];
  for (const [at, day] of DAYS.entries()) {
    if (!chosen.has(day)) continue;
    const before = DAYS[at - 1];
    const last = runs.at(-1);
    if (last && before && last.at(-1) === before) last.push(day);
    else runs.push([day]);
  }
  return runs.flatMap((run) => (run.length > 2 ? `${run[0]}-${run.at(-1)}` : run)).join(",");
}

/** Keys for a menu, as they are typed: steps with spaces or commas between. */
export const stepsOf = (typed: string): string[] => typed.split(/[\s,]+/).filter(Boolean);
