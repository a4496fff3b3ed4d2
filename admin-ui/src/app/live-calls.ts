// The rows of the live calls, from the frames of the topic `calls`.
import type { components } from "../api/generated.ts";
import type { LiveFrame } from "./live-socket.ts";

export type LiveRow = components["schemas"]["LiveRow"];

/** By `call_id`, the oldest call first. A row that did not change stays the same object. */
export type Rows = ReadonlyMap<string, LiveRow>;

/** The rows after a frame: all of them, or the changed fields of some and the calls that ended. */
export function takeRows(rows: Rows, frame: LiveFrame): Rows {
  if (Array.isArray(frame.snapshot)) {
    return new Map(frame.snapshot.map((row) => [row.call_id, row]));
  }
  const changed = frame.rows ?? [];
  const gone = frame.gone ?? [];
  if (changed.length === 0 && gone.length === 0) return rows;
  const after = new Map(rows);
  for (const id of gone) after.delete(id);
  for (const fields of changed as Partial<LiveRow>[]) {
    const id = fields.call_id ?? "";
    // The first frame with a call has all of its fields.
    after.set(id, { ...after.get(id), ...fields } as LiveRow);
  }
  return after;
}

/**
 * The number of a node's calls that began on another configuration than the one of this digest.
 * Other nodes have files of their own. A test may run a draft, which is no older version.
 */
export function callsOnOthers(rows: readonly LiveRow[], node: string, digest: string): number {
  return rows.filter(
    (row) => row.node === node && row.config && !row.test && !digest.startsWith(row.config),
  ).length;
}
