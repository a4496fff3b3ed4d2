// Loudness of a recording, in tiles of five minutes: each 20 ms has the least and the greatest
// sample of the caller, then of the agent, int8. Pure.

import type { Span } from "./axis.ts";

export const PEAK_MS = 20;
export const TILE_MS = 300_000;
const BYTES = 4;

export type Side = "caller" | "agent";

/** Tiles by number; one that is missing was not loaded. */
export type Tiles = ReadonlyMap<number, Int8Array>;

/** Numbers of the tiles that a stretch of the recording touches. `duration` is ms. */
export function tilesOf(stretch: Span, duration: number): number[] {
  const last = Math.floor(Math.max(0, Math.min(stretch.to, duration - 1)) / TILE_MS);
  const first = Math.floor(Math.max(0, stretch.from) / TILE_MS);
  return Array.from({ length: Math.max(0, last - first + 1) }, (_, index) => first + index);
}

/** Peaks that the coarse copy of a tile has in one; a tile is a multiple of them. */
const COARSE = 25;
const coarseTiles = new WeakMap<Int8Array, Int8Array>();

/** A tile with fewer peaks, for views in which a pixel is many of them. Made once. */
function coarse(tile: Int8Array): Int8Array {
  const known = coarseTiles.get(tile);
  if (known) return known;
  const made = new Int8Array(Math.ceil(tile.length / BYTES / COARSE) * BYTES);
  for (let at = 0; at < tile.length; at += 1) {
    const into = Math.floor(at / BYTES / COARSE) * BYTES + (at % BYTES);
    const [before, sample] = [made[into] ?? 0, tile[at] ?? 0];
    made[into] = at % 2 === 0 ? Math.min(before, sample) : Math.max(before, sample);
  }
  coarseTiles.set(tile, made);
  return made;
}

/** Least and greatest sample (-128 to 127) of a side within a stretch of the recording. */
export function loudness(tiles: Tiles, side: Side, stretch: Span): [number, number] {
  const rough = stretch.to - stretch.from >= 4 * COARSE * PEAK_MS;
  const step = rough ? COARSE * PEAK_MS : PEAK_MS;
  const perTile = TILE_MS / step;
  const first = Math.max(0, Math.floor(stretch.from / step));
  const last = Math.max(first + 1, Math.ceil(stretch.to / step));
  const offset = side === "caller" ? 0 : 2;
  let [least, most] = [0, 0];
  for (let number = Math.floor(first / perTile); number * perTile < last; number += 1) {
    const tile = tiles.get(number);
    if (!tile) continue;
    const peaks = rough ? coarse(tile) : tile;
    const begin = Math.max(first - number * perTile, 0) * BYTES + offset;
    const end = Math.min((last - number * perTile) * BYTES, peaks.length);
    for (let at = begin; at + 1 < end; at += BYTES) {
      const low = peaks[at] ?? 0;
      const high = peaks[at + 1] ?? 0;
      if (low < least) least = low;
      if (high > most) most = high;
    }
  }
  return [least, most];
}

/** Samples from -128 to 127 that are taken for a voice: about -36 dBFS. */
const VOICE = 2;

export interface TimedWord {
  readonly word: string;
  /** Estimated time, ms since the offer. */
  readonly at: number;
}

/**
 * Spread words over the time in which they were spoken. The ledger has no times of words, so they
 * are estimated: by their letters, over those 20 ms in which the side is loud enough for a voice.
 * Without loudness they are spread evenly. `began` is the call time at which the recording begins.
 */
export function timedWords(
  words: readonly string[],
  spoken: Span,
  tiles: Tiles,
  side: Side,
  began: number,
): TimedWord[] {
  const voiced = voicedTimes(spoken, tiles, side, began);
  const letters = words.reduce((sum, word) => sum + word.length + 1, 0);
  let before = 0;
  return words.map((word) => {
    const share = letters ? before / letters : 0;
    before += word.length + 1;
    const even = spoken.from + share * (spoken.to - spoken.from);
    return { word, at: Math.round(voiced[Math.floor(share * voiced.length)] ?? even) };
  });
}

function voicedTimes(spoken: Span, tiles: Tiles, side: Side, began: number): number[] {
  const times: number[] = [];
  if (!tiles.size) return times;
  for (let time = spoken.from; time < spoken.to; time += PEAK_MS) {
    const stretch = { from: time - began, to: time - began + 1 };
    const [least, most] = loudness(tiles, side, stretch);
    if (most >= VOICE || least < -VOICE) times.push(time);
  }
  return times;
}
