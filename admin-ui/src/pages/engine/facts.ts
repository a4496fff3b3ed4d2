// Sizes and times of the engine in words.
import { words } from "../../words/engine.ts";

const UNITS = ["B", "kB", "MB", "GB", "TB"] as const;

/** A size in decimal units, as disks are sold: "59.8 GB". */
export function bytesText(bytes: number): string {
  let size = bytes;
  let unit = 0;
  while (size >= 1_000 && unit < UNITS.length - 1) {
    size /= 1_000;
    unit += 1;
  }
  const digits = unit === 0 || size >= 100 ? 0 : 1;
  return `${size.toFixed(digits)} ${UNITS[unit]}`;
}

const MOST_DAYS = 3_650;

/** Until a disk is full. */
export function daysText(days: number | null): string {
  if (days === null) return words.disk.unknown;
  return days > MOST_DAYS ? words.disk.years : words.disk.days(Math.floor(days));
}

/** How long something runs: "5 min", "3 h 12 min", "12 d 4 h". */
export function uptimeText(seconds: number): string {
  const minutes = Math.floor(seconds / 60);
  const hours = Math.floor(minutes / 60);
  const days = Math.floor(hours / 24);
  if (days > 0) return `${days} d ${hours % 24} h`;
  if (hours > 0) return `${hours} h ${minutes % 60} min`;
  return minutes > 0 ? `${minutes} min` : `${Math.floor(seconds)} s`;
}

/** How full a disk is, and whether that is worth a look. */
export function diskTone(free: number, total: number, days: number | null) {
  const share = total > 0 ? free / total : 0;
  if (share < 0.03 || (days !== null && days < 3)) return "bad";
  return share < 0.1 || (days !== null && days < 14) ? "warn" : "good";
}

/** The last `most` values, with one more. */
export function pushed(values: readonly number[], next: number, most: number): readonly number[] {
  return [...values.slice(-(most - 1)), next];
}

/** The points of a line in a box, for SVG; the scale is at least `least`. */
export function sparkPoints(
  values: readonly number[],
  slots: number,
  box: { width: number; height: number },
  least: number,
): string {
  const top = Math.max(least, ...values);
  const first = slots - values.length;
  return values
    .map((value, at) => {
      const x = ((first + at) / (slots - 1)) * box.width;
      const y = box.height - (value / top) * box.height;
      return `${x.toFixed(1)},${y.toFixed(1)}`;
    })
    .join(" ");
}
