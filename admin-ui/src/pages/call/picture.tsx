// The picture: both voices, the waits between them, tools and events below, on one axis.
import {
  type PointerEvent,
  type ReactNode,
  useEffect,
  useEffectEvent,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
} from "react";

import { useShortcut } from "../../app/shortcuts.tsx";
import { IconButton } from "../../parts/button.tsx";
import { cx } from "../../parts/cx.ts";
import { durationText } from "../../parts/time.tsx";
import { words } from "../../words/call.ts";
import {
  following,
  makeScale,
  panned,
  type Scale,
  type Span,
  timeOf,
  wholeView,
  xOf,
  zoomed,
} from "./axis.ts";
import { usePalette, useWidth } from "./canvas.ts";
import { drawScene, labelOf, rulerText } from "./draw.ts";
import { type Layout, layoutOf, RULER_HEIGHT, shapeAt } from "./layout.ts";
import { Overview } from "./overview.tsx";
import type { Tiles } from "./peaks.ts";
import type { Shown } from "./shown.ts";
import { type Shape, STAGES, turnAt, visible } from "./timeline.ts";

export interface PictureProps {
  shown: Shown;
  tiles: Tiles;
  view: Span;
  onView: (view: Span) => void;
}

const WHEEL = 1.0015;
const STEP_MS = 5000;

export function Picture({ shown, tiles, view, onView }: PictureProps) {
  const { shapes, axis, search, call } = shown;
  const box = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const width = useWidth(box);
  const palette = usePalette(box);
  const layout = useMemo(() => layoutOf(shapes), [shapes]);
  const scale = useMemo(() => makeScale(axis, view, width), [axis, view, width]);
  const inView = useMemo(() => visible(shapes, view), [shapes, view]);
  const began = tiles.size > 0 ? call.recording.began_ms : null;
  useLayoutEffect(() => {
    if (!canvas.current || !palette || width === 0) return;
    const { turn, tool } = search;
    const scene = { layout, scale, shapes: inView, tiles, began, turn, tool, palette };
    drawScene(canvas.current, scene);
  }, [layout, scale, inView, tiles, began, search, palette, width]);
  const onWheel = useEffectEvent((event: WheelEvent) => wheel(event, scale, onView));
  useEffect(() => {
    const element = box.current;
    // React's own listener is passive: it could not keep the page from zooming.
    element?.addEventListener("wheel", onWheel, { passive: false });
    return () => element?.removeEventListener("wheel", onWheel);
  }, []);
  return (
    <div className="border-y border-line bg-raised">
      <div className="flex">
        <LaneNames layout={layout} />
        <div
          ref={box}
          className="relative min-w-0 flex-1 overflow-hidden"
          style={{ height: layout.height }}
        >
          <canvas ref={canvas} className="absolute inset-0 h-full w-full" />
          <Cursor shown={shown} scale={scale} onView={onView} />
          <Touch shown={shown} scale={scale} layout={layout} inView={inView} onView={onView} />
        </div>
      </div>
      <div className="flex items-center border-t border-line">
        <Zoom shown={shown} view={view} onView={onView} />
        <Overview shown={shown} view={view} palette={palette} onView={onView} />
      </div>
    </div>
  );
}

function wheel(event: WheelEvent, scale: Scale, onView: (view: Span) => void): void {
  const box = event.currentTarget;
  if (!(box instanceof HTMLElement)) return;
  if (event.ctrlKey || event.metaKey) {
    event.preventDefault();
    const around = timeOf(scale, event.clientX - box.getBoundingClientRect().left);
    onView(zoomed(scale.axis, scale.view, WHEEL ** event.deltaY, around));
    return;
  }
  const sideways = event.shiftKey ? event.deltaY : event.deltaX;
  if (Math.abs(sideways) <= Math.abs(event.shiftKey ? 0 : event.deltaY)) return;
  event.preventDefault();
  onView(panned(scale.axis, scale.view, sideways / Math.max(1, scale.width)));
}

function LaneNames({ layout }: { layout: Layout }) {
  return (
    <div
      aria-hidden="true"
      className="relative w-20 shrink-0 border-r border-line text-xs text-muted phone:w-16"
      style={{ height: layout.height }}
    >
      {layout.lanes.map(({ lane, top, height }) => (
        <span
          key={lane}
          className="absolute left-0 flex items-center pl-6 phone:pl-2"
          style={{ top, height }}
        >
          {words.lanes[lane]}
        </span>
      ))}
    </div>
  );
}

interface CursorProps {
  shown: Shown;
  scale: Scale;
  onView: (view: Span) => void;
}

/** The line at the position of the sound. It is moved in each frame, without React. */
function Cursor({ shown, scale, onView }: CursorProps) {
  const line = useRef<HTMLDivElement>(null);
  const { player, axis } = shown;
  const place = useEffectEvent((time: number) => {
    if (line.current) line.current.style.transform = `translateX(${xOf(scale, time)}px)`;
  });
  const follow = useEffectEvent((time: number, moved: boolean) => {
    place(time);
    // Who pans away from the sound stays there until it moves.
    const seen = following(axis, scale.view, time);
    if (moved && seen !== scale.view) onView(seen);
  });
  useEffect(() => player.follow((time, moved) => follow(time, moved)), [player]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: another scale, another place
  useLayoutEffect(() => place(player.time), [scale, player]);
  return (
    <div
      ref={line}
      aria-hidden="true"
      data-cursor=""
      className="pointer-events-none absolute inset-y-0 -left-px w-0.5 bg-bad"
    />
  );
}

interface TouchProps extends CursorProps {
  layout: Layout;
  inView: readonly Shape[];
}

interface Drag {
  readonly from: number;
  readonly to: number;
}

/** Least pixels of a stretch that is drawn with the pointer to zoom to it. */
const STRETCH = 6;

/** Takes pointer and keys: jump, choose, zoom to a stretch, say what is under the pointer. */
function Touch({ shown, scale, layout, inView, onView }: TouchProps) {
  const [drag, setDrag] = useState<Drag | null>(null);
  const [over, setOver] = useState<{ shape: Shape; x: number; y: number } | null>(null);
  const place = (event: PointerEvent<HTMLElement>) => {
    const { left, top } = event.currentTarget.getBoundingClientRect();
    return { x: event.clientX - left, y: event.clientY - top };
  };
  const onMove = (event: PointerEvent<HTMLElement>) => {
    const { x, y } = place(event);
    if (drag) {
      setDrag({ ...drag, to: x });
      return;
    }
    const shape = shapeAt(layout, scale, inView, x, y);
    setOver(shape ? { shape, x, y } : null);
  };
  const onUp = (event: PointerEvent<HTMLElement>) => {
    if (event.button !== 0) return;
    const { x, y } = place(event);
    const from = drag?.from ?? x;
    setDrag(null);
    if (Math.abs(x - from) >= STRETCH && event.pointerType !== "touch") {
      const [a, b] = [timeOf(scale, Math.min(from, x)), timeOf(scale, Math.max(from, x))];
      onView(zoomed(scale.axis, { from: a, to: b }, 1, a));
    } else choose(shown, shapeAt(layout, scale, inView, x, y), timeOf(scale, x), y);
  };
  return (
    <PositionSlider shown={shown}>
      <div
        className="absolute inset-0 cursor-crosshair touch-pan-y"
        onPointerDown={(event) => {
          if (event.button !== 0) return;
          event.currentTarget.setPointerCapture(event.pointerId);
          const { x } = place(event);
          setDrag({ from: x, to: x });
        }}
        onPointerMove={onMove}
        onPointerUp={onUp}
        onPointerLeave={() => setOver(null)}
        onPointerCancel={() => setDrag(null)}
      />
      {drag && Math.abs(drag.to - drag.from) >= STRETCH && (
        <div
          className="pointer-events-none absolute inset-y-0 border-x border-accent bg-accent/15"
          style={{ left: Math.min(drag.from, drag.to), width: Math.abs(drag.to - drag.from) }}
        />
      )}
      {over && !drag && <Tip {...over} width={scale.width} height={layout.height} />}
    </PositionSlider>
  );
}

function choose(shown: Shown, shape: Shape | undefined, time: number, y: number): void {
  const { player, call, go } = shown;
  player.seek(time);
  const at = Math.round(time);
  const turn = shape?.turn ?? (y > RULER_HEIGHT && !shape ? turnAt(call, time)?.number : undefined);
  if (shape?.tool) go({ tool: shape.tool, turn, tab: "tools", at });
  else if (shape?.turn === null) go({ tab: "events", at });
  else go(turn === undefined ? { at } : { turn, tab: "turn", at });
}

function PositionSlider({ shown, children }: { shown: Shown; children: ReactNode }) {
  const slider = useRef<HTMLDivElement>(null);
  const { player, end, call, personal } = shown;
  const say = useEffectEvent((time: number) => {
    const element = slider.current;
    const seconds = String(Math.round(time / 1000));
    if (!element || element.getAttribute("aria-valuenow") === seconds) return;
    const turn = turnAt(call, time);
    const caller = turn?.caller && time <= turn.caller.end_ms;
    const said = caller ? turn.caller?.understood || turn.caller?.text : turn?.agent?.heard;
    const line = (personal && said) || "";
    element.setAttribute("aria-valuenow", seconds);
    const text = words.player.at(rulerText(time, false), rulerText(end, false), line);
    element.setAttribute("aria-valuetext", text);
  });
  useEffect(() => player.follow((time) => say(time)), [player]);
  return (
    <div
      ref={slider}
      role="slider"
      tabIndex={0}
      aria-label={words.player.position}
      aria-valuemin={0}
      aria-valuemax={Math.round(end / 1000)}
      aria-valuenow={0}
      className="absolute inset-0 -outline-offset-2"
      onKeyDown={(event) => {
        const steps: Record<string, number> = {
          ArrowLeft: player.time - STEP_MS,
          ArrowRight: player.time + STEP_MS,
          Home: 0,
          End: end,
        };
        const to = steps[event.key];
        if (to === undefined || event.altKey || event.ctrlKey || event.metaKey) return;
        event.preventDefault();
        player.seek(Math.min(end, to));
      }}
    >
      {children}
    </div>
  );
}

function Tip(props: { shape: Shape; x: number; y: number; width: number; height: number }) {
  const { shape, x, y, width, height } = props;
  return (
    <div
      aria-hidden="true"
      className={cx(
        "pointer-events-none absolute z-10 max-w-80 rounded-md bg-ink px-2 py-1 text-xs text-surface",
        "line-clamp-3",
      )}
      style={{
        ...(x > width / 2 ? { right: width - x + 10 } : { left: x + 10 }),
        ...(y > height / 2 ? { bottom: height - y + 8 } : { top: y + 12 }),
      }}
    >
      <b className="font-semibold">{tipTitle(shape)}</b> {rulerText(shape.from, true)}
      {shape.to > shape.from && `, ${durationText(shape.to - shape.from)}`}
      {shape.text && shape.kind !== "mark" && shape.lane !== "tools" && (
        <span className="block">{shape.text}</span>
      )}
    </div>
  );
}

function tipTitle(shape: Shape): string {
  const stage = STAGES.find((each) => each === shape.kind);
  if (stage) return words.stages[stage];
  if (shape.kind === "unheard") return words.unheard;
  if (shape.lane === "caller" || shape.lane === "agent") return words.lanes[shape.lane];
  return labelOf(shape);
}

function Zoom({ shown, view, onView }: Omit<PictureProps, "tiles">) {
  const { axis, player } = shown;
  const around = () => {
    const { time } = player;
    return time >= view.from && time <= view.to ? time : (view.from + view.to) / 2;
  };
  const zoom = (factor: number) => onView(zoomed(axis, view, factor, around()));
  useShortcut("+", words.keys.zoomIn, () => zoom(0.5));
  useShortcut("-", words.keys.zoomOut, () => zoom(2));
  useShortcut("0", words.keys.whole, () => onView(wholeView(axis)));
  return (
    <div className="flex w-20 shrink-0 items-center justify-center border-r border-line py-0.5 phone:w-16">
      <IconButton small icon="minus" label={words.picture.zoomOut} onClick={() => zoom(2)} />
      <IconButton small icon="plus" label={words.picture.zoomIn} onClick={() => zoom(0.5)} />
      <IconButton
        small
        icon="whole"
        label={words.picture.whole}
        onClick={() => onView(wholeView(axis))}
        className="phone:hidden"
      />
    </div>
  );
}
