// The whole call in a narrow strip, with a window on the part that is shown. A convenience for the
// pointer: by keyboard the view follows the position.
import { type PointerEvent, useLayoutEffect, useMemo, useRef } from "react";

import { makeScale, type Span, timeOf, wholeView, xOf } from "./axis.ts";
import { useWidth } from "./canvas.ts";
import type { Palette } from "./draw.ts";
import type { Shown } from "./shown.ts";

const HEIGHT = 20;

export interface OverviewProps {
  shown: Shown;
  view: Span;
  palette: Palette | null;
  onView: (view: Span) => void;
}

export function Overview({ shown, view, palette, onView }: OverviewProps) {
  const { axis, shapes } = shown;
  const box = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const width = useWidth(box);
  const scale = useMemo(() => makeScale(axis, wholeView(axis), width), [axis, width]);
  useLayoutEffect(() => {
    const context = canvas.current?.getContext("2d");
    if (!canvas.current || !context || !palette || width === 0) return;
    canvas.current.width = width;
    canvas.current.height = HEIGHT;
    for (const { lane, kind, from, to } of shapes) {
      if (lane !== "caller" && lane !== "agent" && lane !== "trouble" && kind !== "failed")
        continue;
      const x = xOf(scale, from);
      context.fillStyle = lane === "caller" || lane === "agent" ? palette[lane] : palette.bad;
      const top = lane === "caller" ? 4 : lane === "agent" ? 10 : 2;
      const height = lane === "caller" || lane === "agent" ? 5 : HEIGHT - 4;
      context.fillRect(x, top, Math.max(1, xOf(scale, to) - x), height);
    }
  }, [shapes, scale, palette, width]);
  const [left, right] = [xOf(scale, view.from), xOf(scale, view.to)];
  const onPointer = (event: PointerEvent<HTMLDivElement>) => {
    if (event.buttons === 0) return;
    event.currentTarget.setPointerCapture(event.pointerId);
    const x = event.clientX - event.currentTarget.getBoundingClientRect().left;
    const half = (right - left) / 2;
    const middle = Math.max(half, Math.min(width - half, x));
    onView({ from: timeOf(scale, middle - half), to: timeOf(scale, middle + half) });
  };
  return (
    <div
      ref={box}
      aria-hidden="true"
      className="relative h-5 min-w-0 flex-1 touch-pan-y overflow-hidden"
      onPointerDown={onPointer}
      onPointerMove={onPointer}
    >
      <canvas ref={canvas} className="absolute inset-0 h-full w-full opacity-60" />
      {right - left < width - 1 && (
        <div
          className="absolute inset-y-0 rounded-sm border border-accent bg-accent/15"
          style={{ left, width: Math.max(6, right - left) }}
        />
      )}
    </div>
  );
}
