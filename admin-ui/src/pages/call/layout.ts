// Where the shapes of a call stand in its picture, and which of them is at a point. Pure.

import { type Scale, xOf } from "./axis.ts";
import { LANES, type Lane, type Shape } from "./timeline.ts";

export const RULER_HEIGHT = 22;
const VOICE_HEIGHT = 46;
const WAIT_HEIGHT = 28;
const ROW_HEIGHT = 20;
const PADDING = 3;
/** Pixels beside a shape that still count as the shape: a key press has no width. */
const NEAR = 4;

export interface LaneBox {
  readonly lane: Lane;
  readonly top: number;
  readonly height: number;
}

export interface Layout {
  readonly lanes: readonly LaneBox[];
  readonly height: number;
}

/** The lanes that have something to show, from top to bottom; the voices and waits always. */
export function layoutOf(shapes: readonly Shape[]): Layout {
  const rows = new Map<Lane, number>();
  for (const { lane, row } of shapes) rows.set(lane, Math.max(rows.get(lane) ?? 0, row + 1));
  const lanes: LaneBox[] = [];
  let top = RULER_HEIGHT;
  for (const lane of LANES) {
    const height = heightOf(lane, rows.get(lane) ?? 0);
    if (height > 0) lanes.push({ lane, top, height });
    top += height;
  }
  return { lanes, height: top };
}

function heightOf(lane: Lane, rows: number): number {
  if (lane === "waited") return WAIT_HEIGHT;
  if (lane === "caller" || lane === "agent") return VOICE_HEIGHT;
  return rows && rows * ROW_HEIGHT + 2 * PADDING;
}

export interface Box {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
}

/** The box of a shape; undefined if its lane is not shown. */
export function boxOf(layout: Layout, scale: Scale, shape: Shape): Box | undefined {
  const lane = layout.lanes.find((each) => each.lane === shape.lane);
  if (!lane) return undefined;
  const x = xOf(scale, shape.from);
  const inRows = shape.lane !== "caller" && shape.lane !== "waited" && shape.lane !== "agent";
  return {
    x,
    y: lane.top + PADDING + (inRows ? shape.row * ROW_HEIGHT : 0),
    width: xOf(scale, shape.to) - x,
    height: inRows ? ROW_HEIGHT - 2 : lane.height - 2 * PADDING,
  };
}

/** The shape at a point: the one whose middle is nearest, if several are. */
export function shapeAt(
  layout: Layout,
  scale: Scale,
  shapes: readonly Shape[],
  x: number,
  y: number,
): Shape | undefined {
  let found: Shape | undefined;
  let nearest = Number.POSITIVE_INFINITY;
  for (const shape of shapes) {
    const box = boxOf(layout, scale, shape);
    if (!box || y < box.y || y > box.y + box.height) continue;
    if (x < box.x - NEAR || x > box.x + box.width + NEAR) continue;
    const inside = x >= box.x && x <= box.x + box.width;
    const away = Math.abs(x - (box.x + box.width / 2)) + (inside ? 0 : 1e6);
    if (away < nearest) [found, nearest] = [shape, away];
  }
  return found;
}

/** Pixels from each shape's beginning to the next one of its row: the room for its label. */
export function roomsOf(scale: Scale, shapes: readonly Shape[]): Map<Shape, number> {
  const rooms = new Map<Shape, number>();
  const next = new Map<string, number>();
  for (const shape of [...shapes].reverse()) {
    const row = `${shape.lane}/${shape.row}`;
    const x = xOf(scale, shape.from);
    rooms.set(shape, (next.get(row) ?? scale.width) - x);
    next.set(row, x);
  }
  return rooms;
}
