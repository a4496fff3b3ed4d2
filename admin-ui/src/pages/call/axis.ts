// The time axis of one call: which time is at which place. Long stretches in which nothing matters
// are folded to a short mark, so that the rest has room. Pure.

/** A stretch of the call, ms since the offer. */
export interface Span {
  readonly from: number;
  readonly to: number;
}

/** Room of a fold on the axis, in the ms that it would stand for. */
export const FOLD_ROOM = 400;
/** The narrowest view, ms. */
export const LEAST_VIEW = 200;

/**
 * Call time and room are both ms; they differ by the folds. Both directions rise strictly, so each
 * place has one time and each time one place.
 */
export interface Axis {
  /** End of the call, ms. */
  readonly end: number;
  /** Room of the whole call. */
  readonly room: number;
  readonly folds: readonly Span[];
  readonly times: readonly number[];
  readonly places: readonly number[];
}

/** Make an axis. Folds lie within the call, in order, apart, and are longer than `FOLD_ROOM`. */
export function makeAxis(end: number, folds: readonly Span[] = []): Axis {
  const times = [0];
  const places = [0];
  let saved = 0;
  for (const fold of folds) {
    times.push(fold.from);
    places.push(fold.from - saved);
    saved += fold.to - fold.from - FOLD_ROOM;
    times.push(fold.to);
    places.push(fold.to - saved);
  }
  const last = Math.max(1, end);
  times.push(last);
  places.push(last - saved);
  return { end: last, room: last - saved, folds, times, places };
}

/** Place of a time: room from the beginning of the call. Times outside of the call are its ends. */
export function placeOf(axis: Axis, time: number): number {
  return interpolate(axis.times, axis.places, time);
}

/** Time at a place. */
export function timeAt(axis: Axis, place: number): number {
  return interpolate(axis.places, axis.times, place);
}

function interpolate(from: readonly number[], to: readonly number[], value: number): number {
  let low = 0;
  let high = from.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if ((from[middle] ?? 0) <= value) low = middle;
    else high = middle;
  }
  const [x0 = 0, x1 = 0, y0 = 0, y1 = 0] = [from[low], from[high], to[low], to[high]];
  if (value <= x0 || x1 <= x0) return y0;
  if (value >= x1) return y1;
  return y0 + ((value - x0) / (x1 - x0)) * (y1 - y0);
}

/** Find the stretches outside of `kept`, which get a margin, that are longer than `least`. */
export function foldsBetween(
  kept: readonly Span[],
  end: number,
  margin: number,
  least: number,
): Span[] {
  const longest = Math.max(least, FOLD_ROOM + 1);
  const folds: Span[] = [];
  let quietFrom = 0;
  for (const span of [...kept].sort((a, b) => a.from - b.from)) {
    const until = Math.min(end, span.from - margin);
    if (until - quietFrom > longest) folds.push({ from: quietFrom, to: until });
    quietFrom = Math.max(quietFrom, span.to + margin);
  }
  if (end - quietFrom > longest) folds.push({ from: quietFrom, to: end });
  return folds;
}

/** The shown part of an axis, on so many pixels. */
export interface Scale {
  readonly axis: Axis;
  readonly view: Span;
  readonly width: number;
  readonly begin: number;
  readonly perPixel: number;
}

export function makeScale(axis: Axis, view: Span, width: number): Scale {
  const begin = placeOf(axis, view.from);
  const room = Math.max(1e-6, placeOf(axis, view.to) - begin);
  return { axis, view, width, begin, perPixel: room / Math.max(1, width) };
}

export function xOf(scale: Scale, time: number): number {
  return (placeOf(scale.axis, time) - scale.begin) / scale.perPixel;
}

export function timeOf(scale: Scale, x: number): number {
  return timeAt(scale.axis, scale.begin + x * scale.perPixel);
}

/** The whole call. */
export function wholeView(axis: Axis): Span {
  return { from: 0, to: axis.end };
}

/** Zoom so that `around` stays where it is; a factor below 1 shows less. */
export function zoomed(axis: Axis, view: Span, factor: number, around: number): Span {
  const [from, to] = [placeOf(axis, view.from), placeOf(axis, view.to)];
  const room = clamp((to - from) * factor, Math.min(LEAST_VIEW, axis.room), axis.room);
  const held = clamp(placeOf(axis, around), from, to);
  const share = to > from ? (held - from) / (to - from) : 0.5;
  return placed(axis, held - share * room, room);
}

/** Move the view by a share of its own width. */
export function panned(axis: Axis, view: Span, share: number): Span {
  const from = placeOf(axis, view.from);
  const room = placeOf(axis, view.to) - from;
  return placed(axis, from + share * room, room);
}

/** Move the view, if need be, so that it shows a time. */
export function following(axis: Axis, view: Span, time: number): Span {
  if (time >= view.from && time <= view.to) return view;
  const room = placeOf(axis, view.to) - placeOf(axis, view.from);
  return placed(axis, placeOf(axis, time) - room / 10, room);
}

function placed(axis: Axis, from: number, room: number): Span {
  const begin = clamp(from, 0, axis.room - room);
  return { from: timeAt(axis, begin), to: timeAt(axis, begin + room) };
}

function clamp(value: number, least: number, most: number): number {
  return Math.max(least, Math.min(most, value));
}

export interface Tick {
  readonly time: number;
  readonly x: number;
}

const STEPS = [50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 15e3, 3e4, 6e4, 12e4, 3e5, 6e5, 18e5, 36e5];

/** Pixels of a fold from which on no tick stands in it: times pass there as nowhere else. */
const WIDE_FOLD = 8;

/** Round times at least `apart` pixels from each other; none within a fold that is seen. */
export function ticksOf(scale: Scale, apart: number): Tick[] {
  const least = scale.perPixel * apart;
  const step = STEPS.find((each) => each >= least) ?? Math.ceil(least / 36e5) * 36e5;
  const ticks: Tick[] = [];
  let right = Number.NEGATIVE_INFINITY;
  let time = Math.ceil(scale.view.from / step) * step;
  const folds = FOLD_ROOM / scale.perPixel < WIDE_FOLD ? [] : scale.axis.folds;
  while (time <= scale.view.to) {
    const fold = folds.find((each) => each.from < time && time < each.to);
    if (fold) {
      time = Math.ceil(fold.to / step) * step;
      continue;
    }
    const x = xOf(scale, time);
    if (x - right >= apart) {
      ticks.push({ time, x });
      right = x;
    }
    time += step;
  }
  return ticks;
}
