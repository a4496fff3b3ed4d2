// The chart of a measure. The canvas is for the eye; the same values are in the table below it, and
// the arrow keys move through the points, each of which is read out.
import "uplot/dist/uPlot.min.css";

import { type KeyboardEvent, useEffect, useEffectEvent, useMemo, useRef, useState } from "react";
import UPlot from "uplot";

import { words } from "../../words/insights.ts";
import { strokeOf, themeColour } from "./chart-colours.ts";
import { tickText, valueText } from "./measures.ts";
import type { Step } from "./period.ts";
import { type Line, type Publish, stepTo } from "./series.ts";
import { axisText, pointText } from "./time-axis.ts";
import { useDark } from "./use-dark.ts";

export interface ChartProps {
  title: string;
  /** Beginnings of the points, in seconds since 1970. */
  seconds: readonly number[];
  /** End of the last point. */
  end: number;
  step: Step;
  lines: readonly Line[];
  /** The same lines in the period before; empty without a comparison. */
  earlier: readonly (Line | null)[];
  /** Number by which a line's colour is chosen: it stays when others are hidden. */
  places: readonly number[];
  publishes: readonly Publish[];
  bars: boolean;
  onOpen: (line: Line, point: number) => void;
  /** A period that was marked with the mouse, in seconds. */
  onZoom: (from: number, to: number) => void;
}

interface Spot {
  point: number;
  line: number;
}

const HEIGHT = 300;

export function Chart(props: ChartProps) {
  const { title, seconds, step, lines, places, onOpen } = props;
  const dark = useDark();
  const [spot, setSpot] = useState<Spot | null>(null);
  const [said, setSaid] = useState("");
  const { frame, plot } = usePlot(props, dark, setSpot);
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const current = spot?.line ?? 0;
    const line = lines[current];
    if (event.key === "Enter") {
      if (spot && line) onOpen(line, spot.point);
    } else if (event.key === "ArrowUp" || event.key === "ArrowDown") {
      const to = (current + (event.key === "ArrowDown" ? 1 : lines.length - 1)) % lines.length;
      move(spot?.point ?? stepTo(lines, null, "End"), to);
    } else if (["ArrowLeft", "ArrowRight", "Home", "End"].includes(event.key)) {
      move(stepTo(lines, spot?.point ?? null, event.key), current);
    } else return;
    event.preventDefault();
  };
  const move = (point: number | null, to: number) => {
    const line = lines[to];
    if (point === null || line === undefined) return;
    setSpot({ point, line: to });
    setSaid(spoken(line, point, seconds[point] ?? 0, step));
    const chart = plot.current;
    const left = chart?.valToPos(seconds[point] ?? 0, "x") ?? 0;
    chart?.setCursor({ left, top: chart.valToPos(line.values[point] ?? 0, "y") }, false);
  };
  return (
    <div className="relative">
      <div
        ref={frame}
        role="application"
        aria-label={words.chart(title)}
        tabIndex={0}
        onKeyDown={onKeyDown}
        className="rounded-md"
        style={{ height: HEIGHT }}
      />
      {spot && (
        <Hint
          spot={spot}
          left={plot.current?.valToPos(seconds[spot.point] ?? 0, "x") ?? 0}
          chart={props}
          colours={places.map((place) => strokeOf(place, dark).colour)}
        />
      )}
      <p role="status" className="sr-only">
        {said}
      </p>
    </div>
  );
}

function spoken(line: Line, point: number, at: number, step: Step): string {
  const value = valueText(line.values[point], line.unit);
  return words.point(pointText(at, step), line.label, value, line.samples[point] ?? 0);
}

const MOST_IN_HINT = 8;

/** The values at the cursor. */
function Hint(props: { spot: Spot; left: number; chart: ChartProps; colours: readonly string[] }) {
  const { spot, left, colours } = props;
  const { seconds, step, lines, earlier } = props.chart;
  const onTheRight = spot.point > seconds.length / 2;
  const at = seconds[spot.point];
  if (at === undefined) return null;
  return (
    <div
      aria-hidden="true"
      className="pointer-events-none absolute top-2 z-10 rounded-md border border-line bg-raised px-2.5 py-1.5 text-xs shadow-high"
      style={{ left: left + 64, transform: onTheRight ? "translateX(calc(-100% - 2rem))" : "" }}
    >
      <p className="mb-0.5 whitespace-nowrap text-muted">{pointText(at, step)}</p>
      {lines.slice(0, MOST_IN_HINT).map((line, number) => (
        <p key={line.id} className="flex items-center gap-2 whitespace-nowrap">
          <span className="h-0.5 w-3" style={{ background: colours[number] }} />
          <span className={number === spot.line && lines.length > 1 ? "font-semibold" : undefined}>
            {line.label}
          </span>
          <span className="ml-auto pl-3 font-medium">
            {valueText(line.values[spot.point], line.unit)}
          </span>
          {earlier[number] && (
            <span className="text-muted">
              {words.before} {valueText(earlier[number].values[spot.point], line.unit)}
            </span>
          )}
        </p>
      ))}
    </div>
  );
}

/** Keeps a uPlot of the props in the returned frame. */
function usePlot(props: ChartProps, dark: boolean, onSpot: (spot: Spot | null) => void) {
  const frame = useRef<HTMLDivElement>(null);
  const plot = useRef<UPlot | null>(null);
  const click = useEffectEvent((spot: Spot | null) => {
    const line = spot && props.lines[spot.line];
    if (line) props.onOpen(line, spot.point);
  });
  const zoom = useEffectEvent((from: number, to: number) => props.onZoom(from, to));
  const hover = useEffectEvent(onSpot);
  const { seconds, end, lines, earlier, places, publishes, bars } = props;
  const data = useMemo<UPlot.AlignedData>(
    () => [
      [...seconds],
      ...lines.map((line) => [...line.values]),
      ...earlier.map((line) => seconds.map((_, at) => line?.values[at] ?? null)),
    ],
    [seconds, lines, earlier],
  );
  useEffect(() => {
    const element = frame.current;
    if (element === null) return;
    const chart = new UPlot(
      {
        width: element.clientWidth,
        height: HEIGHT,
        legend: { show: false },
        scales: {
          x: { time: true, range: (_, min, max) => [min, Math.max(end, max)] },
          y: { range: (_, __, max) => [0, max > 0 ? max * 1.08 : 1] },
        },
        cursor: {
          y: false,
          points: { size: 7 },
          drag: { x: true, y: false, setScale: false },
          // A click that ends a drag opens nothing.
          bind: { dblclick: () => null },
        },
        axes: axesOf(lines[0]?.unit ?? ""),
        series: [
          {},
          ...strokes(lines, places, dark, bars),
          ...strokes(earlier, places, dark, false, true),
        ],
        hooks: {
          setCursor: [(u) => hover(spotOf(u, lines))],
          setSelect: [
            (u) => {
              const { left, width } = u.select;
              if (width > 8) zoom(u.posToVal(left, "x"), u.posToVal(left + width, "x"));
              u.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
            },
          ],
          draw: [(u) => drawPublishes(u, publishes)],
        },
      },
      data,
      element,
    );
    plot.current = chart;
    let pressed = 0;
    chart.over.addEventListener("mousedown", (event) => {
      pressed = event.clientX;
    });
    chart.over.addEventListener("click", (event) => {
      if (Math.abs(event.clientX - pressed) < 4) click(spotOf(chart, lines));
    });
    const sizes = new ResizeObserver(() =>
      chart.setSize({ width: element.clientWidth, height: HEIGHT }),
    );
    sizes.observe(element);
    return () => {
      sizes.disconnect();
      chart.destroy();
      plot.current = null;
      hover(null);
    };
  }, [data, end, lines, earlier, places, publishes, bars, dark]);
  return { frame, plot };
}

/** The point under the cursor, and the line that is nearest to it. */
function spotOf(chart: UPlot, lines: readonly Line[]): Spot | null {
  const { idx, top } = chart.cursor;
  if (idx === null || idx === undefined || top === undefined || top < 0) return null;
  const distance = (line: Line) => {
    const value = line.values[idx];
    return value === null || value === undefined
      ? Number.POSITIVE_INFINITY
      : Math.abs(chart.valToPos(value, "y") - top);
  };
  let nearest = 0;
  for (const [number, line] of lines.entries()) {
    if (distance(line) < distance(lines[nearest] ?? line)) nearest = number;
  }
  return { point: idx, line: nearest };
}

function axesOf(unit: string): UPlot.Axis[] {
  const [ink, line] = [themeColour("muted"), themeColour("line")];
  const font = `12px ${getComputedStyle(document.body).fontFamily}`;
  const shared = {
    stroke: ink,
    font,
    ticks: { show: false },
  };
  return [
    {
      ...shared,
      grid: { show: false },
      space: 80,
      size: 32,
      values: (_, ticks, __, ___, seconds) => ticks.map((tick) => axisText(tick, seconds)),
    },
    {
      ...shared,
      grid: { stroke: line, width: 1 },
      border: { show: false },
      size: 64,
      values: (_, ticks) => ticks.map((tick) => tickText(tick, unit)),
    },
  ];
}

function strokes(
  lines: readonly (Line | null)[],
  places: readonly number[],
  dark: boolean,
  bars: boolean,
  faint = false,
): UPlot.Series[] {
  return lines.map((line, number) => {
    const { colour, dash } = strokeOf(places[number] ?? 0, dark);
    const alone = (line?.values.filter((value) => value !== null).length ?? 0) < 3;
    return {
      stroke: colour,
      width: faint ? 1.25 : 1.75,
      dash: faint ? [3, 4] : dash,
      alpha: faint ? 0.65 : 1,
      spanGaps: false,
      points: { show: !bars && alone, size: 6 },
      ...(bars && UPlot.paths.bars
        ? {
            fill: colour,
            width: 0,
            paths: UPlot.paths.bars({ size: [0.72, 44], align: 1, radius: 0.12 }),
          }
        : {}),
    };
  });
}

/** A line at each publish, with the beginning of the version's digest. */
function drawPublishes(chart: UPlot, publishes: readonly Publish[]): void {
  const { ctx, bbox } = chart;
  ctx.save();
  ctx.strokeStyle = themeColour("strong");
  ctx.fillStyle = themeColour("muted");
  ctx.textAlign = "left";
  ctx.textBaseline = "alphabetic";
  ctx.setLineDash([2, 3]);
  ctx.lineWidth = devicePixelRatio;
  ctx.font = `${11 * devicePixelRatio}px ${getComputedStyle(document.body).fontFamily}`;
  let free = Number.NEGATIVE_INFINITY;
  for (const each of publishes) {
    const x = Math.round(chart.valToPos(each.at, "x", true));
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    const text = each.version.slice(0, 7);
    const gap = 4 * devicePixelRatio;
    const { width } = ctx.measureText(text);
    const fits = x + gap + width < bbox.left + bbox.width;
    const left = fits ? x + gap : x - gap - width;
    if (left < free) continue; // names do not lie over each other
    ctx.fillText(text, left, bbox.top + 11 * devicePixelRatio);
    free = left + width + gap;
  }
  ctx.restore();
}
