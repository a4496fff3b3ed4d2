// Reads a ledger: JSON lines. Pure.

export interface LedgerLine {
  readonly key: string;
  readonly at: number;
  readonly type: string;
  /** All but time and type, as JSON. */
  readonly fields: string;
  readonly value: unknown;
}

/** The lines of a ledger; what is not JSON, such as a line that is half written, is left out. */
export function ledgerLines(content: string): LedgerLine[] {
  const lines: LedgerLine[] = [];
  for (const [index, raw] of content.split("\n").entries()) {
    const value = parsed(raw);
    if (typeof value !== "object" || value === null) continue;
    const { at_ms = 0, type = "", ...rest }: { at_ms?: unknown; type?: unknown } = value;
    const fields = Object.keys(rest).length > 0 ? JSON.stringify(rest) : "";
    lines.push({ key: String(index), at: Number(at_ms), type: String(type), fields, value });
  }
  return lines;
}

function parsed(raw: string): unknown {
  try {
    return JSON.parse(raw);
  } catch {
    return undefined;
  }
}
