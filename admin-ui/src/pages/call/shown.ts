// What the parts of the page share: the call, its shapes on an axis, the player, and the address.
import { useQueries } from "@tanstack/react-query";
import { useEffect, useMemo, useState } from "react";

import { api } from "../../app/api.ts";
import { type Axis, foldsBetween, type Span, wholeView } from "./axis.ts";
import { TILE_MS, type Tiles, tilesOf } from "./peaks.ts";
import { Player } from "./player.ts";
import type { Search } from "./search.ts";
import { axisOf, type Call, endOf, type Shape, shapesOf } from "./timeline.ts";

export interface Shown {
  readonly id: string;
  readonly call: Call;
  readonly live: boolean;
  /** False: words and numbers are hidden. */
  readonly personal: boolean;
  /** The name under which one's own notes of this call stand. */
  readonly you: string;
  readonly end: number;
  readonly shapes: readonly Shape[];
  readonly axis: Axis;
  readonly player: Player;
  readonly search: Search;
  /** Changes the address; a change that one may want to go back from is an entry of the history. */
  readonly go: (changes: Search, entry?: boolean) => void;
  /** Asks for the call again. */
  readonly refresh: () => void;
}

/** The shapes of a call and their axis in a mode. */
export function useShapes(call: Call, { mode, unfolded }: Search) {
  const shapes = useMemo(() => shapesOf(call), [call]);
  const end = useMemo(() => endOf(call), [call]);
  const axis = useMemo(() => axisOf(shapes, end, mode, !unfolded), [shapes, end, mode, unfolded]);
  return { shapes, end, axis };
}

/** The player of a call; without a sound that may be heard it only keeps the position. */
export function usePlayer(id: string, call: Call, playable: boolean, at: number): Player {
  const address = playable ? `/api/v1/calls/${encodeURIComponent(id)}/audio` : "";
  const began = call.recording.began_ms ?? 0;
  // The position in the address is where the page begins; later it follows the player.
  const [start] = useState(at);
  const player = useMemo(() => new Player(address, began, start), [address, began, start]);
  useEffect(() => {
    player.open();
    return () => player.close();
  }, [player]);
  return player;
}

const SILENCE = { margin: 250, least: 1200 };

/** Tells the player what it may skip: what is folded in a mode, else silence. */
export function useSilences(player: Player, shapes: readonly Shape[], axis: Axis, search: Search) {
  useEffect(() => {
    const spoken = shapes.filter(({ lane }) => lane === "caller" || lane === "agent");
    const silent = foldsBetween(spoken, axis.end, SILENCE.margin, SILENCE.least);
    player.setSilences(search.mode ? axis.folds : silent);
  }, [player, shapes, axis, search.mode]);
}

const SETTLED_MS = 250;

/** The shown part of the call. It moves at once, and is in the address when it has settled. */
export function useView(axis: Axis, search: Search, go: Shown["go"]) {
  const [moving, setMoving] = useState<Span | null>(null);
  const { from, to } = search;
  const view = useMemo(() => {
    if (moving) return moving;
    if (from === undefined || to === undefined || from >= axis.end) return wholeView(axis);
    return { from, to: Math.min(to, axis.end) };
  }, [moving, from, to, axis]);
  useEffect(() => {
    if (!moving) return;
    const timer = setTimeout(() => {
      const whole = moving.from <= 0 && moving.to >= axis.end;
      const [begin, end] = [Math.round(moving.from), Math.round(moving.to)];
      go(whole ? { from: undefined, to: undefined } : { from: begin, to: end });
      setMoving(null);
    }, SETTLED_MS);
    return () => clearTimeout(timer);
  }, [moving, axis, go]);
  return [view, setMoving] as const;
}

/** Peaks of a recording, the tiles that a stretch of the call touches. */
export function useTiles(id: string, call: Call, allowed: boolean, view: Span, end: number): Tiles {
  const { began_ms: began, duration_ms, state } = call.recording;
  const duration = duration_ms ?? (began === null ? 0 : end - began);
  const from = Math.max(0, view.from - (began ?? 0));
  const numbers =
    allowed && state === "there" && began !== null
      ? tilesOf({ from, to: view.to - began }, duration)
      : [];
  const loaded = useQueries({
    queries: numbers.map((number) => {
      const stretch = { from_ms: number * TILE_MS, to_ms: (number + 1) * TILE_MS };
      // A running recording grows: its last tile is another one every few seconds.
      const grown = duration_ms === null ? Math.round(end / 3000) : -1;
      return {
        queryKey: ["peaks", id, number, stretch.to_ms > duration ? grown : -1],
        queryFn: async ({ signal }: { signal: AbortSignal }) => {
          const { data } = await api.GET("/api/v1/calls/{call_id}/peaks", {
            params: { path: { call_id: id }, query: stretch },
            parseAs: "arrayBuffer",
            signal,
          });
          return new Int8Array(data ?? new ArrayBuffer(0));
        },
        staleTime: Number.POSITIVE_INFINITY,
      };
    }),
    combine: (results) => results.map(({ data }) => data),
  });
  const names = numbers.join();
  return useMemo(() => {
    const tiles = new Map<number, Int8Array>();
    names.split(",").forEach((name, index) => {
      const tile = loaded[index];
      if (tile) tiles.set(Number(name), tile);
    });
    return tiles;
  }, [names, loaded]);
}
