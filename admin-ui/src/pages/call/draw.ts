// Draws the picture of a call on a canvas: only the shapes that the view shows.

import { durationText } from "../../parts/time.tsx";
import { words } from "../../words/call.ts";
import { type Scale, ticksOf, timeOf, xOf } from "./axis.ts";
import { type Box, boxOf, type Layout, RULER_HEIGHT, roomsOf } from "./layout.ts";
import { loudness, type Side, type Tiles } from "./peaks.ts";
import { type Kind, type Shape, STAGES, type Stage } from "./timeline.ts";

const COLOURS = [
  "raised",
  "surface",
  "hover",
  "selected",
  "ink",
  "muted",
  "line",
  "strong",
  "accent",
  "good",
  "warn",
  "bad",
  "caller",
  "agent",
  "tool",
] as const;
type Colour = (typeof COLOURS)[number];
export type Palette = Readonly<Record<Colour, string>> & { readonly font: string };

/** The colours in force; of forced colours the browser's own. */
export function paletteOf(element: HTMLElement): Palette {
  const style = getComputedStyle(element);
  const forced = window.matchMedia("(forced-colors: active)").matches;
  const colour = (name: Colour) => {
    if (!forced) return style.getPropertyValue(`--${name}`).trim();
    if (name === "raised" || name === "surface" || name === "hover") return "Canvas";
    return name === "selected" || name === "accent" ? "Highlight" : "CanvasText";
  };
  // `fromEntries` forgets which keys it was given.
  const found = Object.fromEntries(COLOURS.map((name) => [name, colour(name)]));
  return { ...(found as Record<Colour, string>), font: style.fontFamily };
}

/** Each stage has its colour and its pattern, so that it can be told without colours. */
export const STAGE_LOOKS: Readonly<Record<Stage, { colour: Colour; pattern: Pattern }>> = {
  vad: { colour: "strong", pattern: "dots" },
  endpoint: { colour: "strong", pattern: "up" },
  stt: { colour: "caller", pattern: "solid" },
  brain: { colour: "accent", pattern: "solid" },
  tts: { colour: "agent", pattern: "solid" },
  wire: { colour: "strong", pattern: "upright" },
  answer: { colour: "warn", pattern: "down" },
};
type Pattern = "solid" | "dots" | "up" | "down" | "upright";

export interface Scene {
  readonly layout: Layout;
  readonly scale: Scale;
  /** Those that the view shows. */
  readonly shapes: readonly Shape[];
  readonly tiles: Tiles;
  /** Call time at which the recording begins; null without one. */
  readonly began: number | null;
  readonly turn: number | undefined;
  readonly tool: string | undefined;
  readonly palette: Palette;
}

export function drawScene(canvas: HTMLCanvasElement, scene: Scene): void {
  const context = canvas.getContext("2d");
  if (!context) return;
  const { width } = scene.scale;
  const { height } = scene.layout;
  const ratio = window.devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * ratio)) canvas.width = Math.round(width * ratio);
  if (canvas.height !== Math.round(height * ratio)) canvas.height = Math.round(height * ratio);
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  context.font = `11px ${scene.palette.font}`;
  context.textBaseline = "middle";
  drawSelection(context, scene);
  drawLanes(context, scene);
  drawRuler(context, scene);
  drawWaves(context, scene);
  drawFolds(context, scene);
  const rooms = roomsOf(scene.scale, scene.shapes);
  for (const shape of scene.shapes) {
    const box = boxOf(scene.layout, scene.scale, shape);
    if (box) drawShape(context, scene, shape, box, rooms.get(shape) ?? 0);
  }
}

type Context = CanvasRenderingContext2D;

function drawSelection(context: Context, { scale, shapes, turn, layout, palette }: Scene): void {
  // What was not heard has no true place in time.
  const own = shapes.filter(
    (shape) => turn !== undefined && shape.turn === turn && shape.kind !== "unheard",
  );
  if (own.length === 0) return;
  const from = xOf(scale, Math.min(...own.map((shape) => shape.from)));
  const to = xOf(scale, Math.max(...own.map((shape) => shape.to)));
  context.fillStyle = palette.selected;
  context.fillRect(from - 4, RULER_HEIGHT, Math.max(2, to - from) + 8, layout.height);
}

function drawLanes(context: Context, { scale, layout, palette }: Scene): void {
  context.fillStyle = palette.line;
  for (const { top } of layout.lanes) context.fillRect(0, top, scale.width, 1);
}

function drawRuler(context: Context, { scale, layout, palette }: Scene): void {
  const ticks = ticksOf(scale, 76);
  const fine = ticks.some(({ time }) => time % 1000 !== 0);
  for (const { time, x } of ticks) {
    context.fillStyle = palette.line;
    context.fillRect(Math.round(x), RULER_HEIGHT - 6, 1, layout.height);
    context.fillStyle = palette.muted;
    context.fillText(rulerText(time, fine), Math.round(x) + 4, RULER_HEIGHT / 2);
  }
}

/** "1:05", or "1:05.25" where ticks are closer than a second. */
export function rulerText(time: number, fine: boolean): string {
  const two = (value: number) => String(value).padStart(2, "0");
  const seconds = Math.floor(time / 1000);
  const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60];
  const clock = hours ? `${hours}:${two(minutes)}` : String(minutes);
  const part = fine ? `.${two(Math.floor((time % 1000) / 10))}` : "";
  return `${clock}:${two(seconds % 60)}${part}`;
}

function drawWaves(context: Context, scene: Scene): void {
  if (scene.began === null) return;
  for (const lane of scene.layout.lanes) {
    if (lane.lane !== "caller" && lane.lane !== "agent") continue;
    drawWave(context, scene, lane.lane, lane.top + lane.height / 2, lane.height / 2 - 4);
  }
}

function drawWave(context: Context, scene: Scene, side: Side, middle: number, half: number): void {
  const { scale, tiles, palette } = scene;
  const began = scene.began ?? 0;
  context.fillStyle = palette[side];
  let from = timeOf(scale, 0) - began;
  for (let x = 0; x < scale.width; x += 1) {
    const to = timeOf(scale, x + 1) - began;
    // In a fold a pixel would be many seconds.
    const stretch = { from, to: Math.min(to, from + scale.perPixel * 1.01) };
    const [least, most] = loudness(tiles, side, stretch);
    from = to;
    const [up, down] = [lift(most) * half, lift(-least) * half];
    if (up + down >= 1) context.fillRect(x, middle - up, 1, up + down);
  }
}

/** A sample as a share of the height. The root lifts quiet voices, as the ear does. */
function lift(sample: number): number {
  return sample > 1 ? Math.sqrt(sample / 128) : 0;
}

function drawShape(context: Context, scene: Scene, shape: Shape, box: Box, room: number): void {
  const { palette } = scene;
  if (shape.lane === "caller" || shape.lane === "agent") {
    drawSpoken(context, palette, shape, box);
  } else if (shape.lane === "waited") {
    drawStage(context, palette, shape.kind, box);
  } else {
    drawEvent(context, scene, shape, box, room);
  }
}

function drawSpoken(context: Context, palette: Palette, { kind, lane }: Shape, box: Box): void {
  const colour = lane === "caller" ? palette.caller : palette.agent;
  const width = Math.max(1, box.width);
  context.globalAlpha = kind === "unheard" ? 0.5 : 0.16;
  context.fillStyle =
    kind === "unheard" ? patternOf(context, "down", palette.agent, palette.raised) : colour;
  context.fillRect(box.x, box.y, width, box.height);
  context.globalAlpha = 1;
  context.fillStyle = colour;
  if (kind !== "unheard") context.fillRect(box.x, box.y + box.height - 2, width, 2);
  else context.fillRect(box.x, box.y, 2, box.height);
}

/** Pixels below which no label has room. */
const LEAST_LABEL = 18;

function drawStage(context: Context, palette: Palette, kind: Kind, box: Box): void {
  const stage = STAGES.find((each) => each === kind);
  if (!stage) return;
  const { colour, pattern } = STAGE_LOOKS[stage];
  context.fillStyle = patternOf(context, pattern, palette[colour], palette.raised);
  context.fillRect(
    box.x,
    box.y + 3,
    Math.max(1, box.width - (box.width > 3 ? 1 : 0)),
    box.height - 6,
  );
  if (box.width < LEAST_LABEL) return; // measuring a text takes longer than drawing a box
  const label = words.stageShort[stage];
  const width = context.measureText(label).width;
  if (box.width < width + 8) return;
  context.fillStyle = palette.raised;
  context.fillRect(box.x + 3, box.y + 4, width + 5, box.height - 8);
  context.fillStyle = palette.ink;
  context.fillText(label, box.x + 5, box.y + box.height / 2 + 0.5);
}

const EVENT_COLOURS: Readonly<Record<string, Colour>> = {
  tools: "tool",
  line: "strong",
  people: "accent",
  trouble: "bad",
};

function drawEvent(context: Context, scene: Scene, shape: Shape, box: Box, room: number): void {
  const { palette } = scene;
  const failed = shape.kind === "failed";
  const colour = palette[failed ? "bad" : (EVENT_COLOURS[shape.lane] ?? "strong")];
  if (shape.mark === "muted") drawMuted(context, scene, box);
  const middle = box.y + box.height / 2;
  const width = Math.max(4, box.width);
  context.fillStyle = failed ? patternOf(context, "down", colour, palette.raised) : colour;
  if (box.width < 5) drawDiamond(context, box.x, middle);
  else context.fillRect(box.x, box.y + box.height - 5, width, 4);
  if (shape.tool && shape.tool === scene.tool) {
    context.strokeStyle = palette.accent;
    context.lineWidth = 2;
    context.strokeRect(box.x - 1, box.y, width + 2, box.height);
  }
  const wide = box.width >= 5;
  const left = box.x + (wide ? 0 : 8);
  const label = labelOf(shape);
  const most = room - (wide ? 4 : 12);
  if (most < LEAST_LABEL || !label) return;
  context.save();
  context.beginPath();
  context.rect(left, box.y, most, box.height);
  context.clip();
  context.fillStyle = failed || shape.lane === "trouble" ? palette.bad : palette.ink;
  context.fillText(label, left, wide ? box.y + 7 : middle);
  context.restore();
}

function drawDiamond(context: Context, x: number, y: number): void {
  context.beginPath();
  context.moveTo(x, y - 4.5);
  context.lineTo(x + 4.5, y);
  context.lineTo(x, y + 4.5);
  context.lineTo(x - 4.5, y);
  context.fill();
}

/** Secret parts are hatched over both voices: they are silence in the recording. */
function drawMuted(context: Context, { layout, palette }: Scene, box: Box): void {
  context.globalAlpha = 0.7;
  context.fillStyle = patternOf(context, "up", palette.strong, palette.hover);
  for (const lane of layout.lanes) {
    if (lane.lane !== "caller" && lane.lane !== "agent") continue;
    context.fillRect(box.x, lane.top + 1, Math.max(3, box.width), lane.height - 1);
  }
  context.globalAlpha = 1;
}

/** The word of a shape: of a tool its name, of a mark its kind and text. */
export function labelOf(shape: Shape): string {
  if (shape.kind !== "mark") return shape.text;
  if (shape.mark === "trouble") return shape.text;
  const key = shape.mark === "key";
  if (key && shape.text === "*") return words.marks.secret ?? "";
  const kind = words.marks[shape.mark] ?? shape.mark;
  return shape.text && shape.mark !== "overlap" ? `${kind}: ${shape.text}` : kind;
}

function drawFolds(context: Context, { scale, layout, palette }: Scene): void {
  for (const fold of scale.axis.folds) {
    const [x, end] = [xOf(scale, fold.from), xOf(scale, fold.to)];
    if (end < 0 || x > scale.width || end - x < 2) continue;
    const width = Math.min(end - x, 14);
    const left = (x + end - width) / 2;
    context.fillStyle = palette.surface;
    context.fillRect(left, RULER_HEIGHT, width, layout.height);
    context.strokeStyle = palette.strong;
    context.lineWidth = 1;
    context.beginPath();
    for (let y = RULER_HEIGHT, side = 0; y <= layout.height; y += 5, side = 1 - side) {
      context.lineTo(left + width / 2 + (side ? 2 : -2), y);
    }
    context.stroke();
    if (end - x < 60) continue;
    context.fillStyle = palette.muted;
    const text = words.picture.folded(durationText(fold.to - fold.from));
    const room = context.measureText(text).width;
    if (end - x > room + 30) context.fillText(text, left + width + 6, RULER_HEIGHT + 10);
  }
}

const patterns = new Map<string, CanvasPattern | string>();

/** A pattern of lines or dots; a plain colour where the browser makes none. */
function patternOf(context: Context, pattern: Pattern, colour: string, ground: string) {
  if (pattern === "solid") return colour;
  const key = `${pattern} ${colour} ${ground}`;
  const known = patterns.get(key);
  if (known) return known;
  const size = 6;
  const tile = document.createElement("canvas");
  tile.width = size;
  tile.height = size;
  const pen = tile.getContext("2d");
  if (!pen) return colour;
  pen.fillStyle = ground;
  pen.fillRect(0, 0, size, size);
  pen.fillStyle = colour;
  for (let at = 0; at < size; at += 1) {
    if (pattern === "up") pen.fillRect(at, size - 1 - at, 1.6, 1.6);
    if (pattern === "down") pen.fillRect(at, at, 1.6, 1.6);
    if (pattern === "upright") pen.fillRect(1, at, 2, 1);
  }
  if (pattern === "dots") {
    pen.fillRect(1, 1, 2, 2);
    pen.fillRect(4, 4, 2, 2);
  }
  const made = context.createPattern(tile, "repeat") ?? colour;
  patterns.set(key, made);
  return made;
}
