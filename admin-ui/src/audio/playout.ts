// The loudspeaker's side of a call: a jitter buffer whose play-out clock is the sound card's.
//
// What the caller has heard is what was rendered, less what is still on its way through the sound
// card. It is known to the sample, so an answer that is cut ends at the exact word.

import { RateQueue } from "./rate-queue.ts";

/** Samples of one render call of the Web Audio API. */
export const QUANTUM = 128;
export const LEAST_TARGET_MS = 40;
export const FIRST_TARGET_MS = 60;
export const MOST_TARGET_MS = 200;
const REPORT_SECONDS = 0.1;
/** Sound that comes so soon behind a gap was late; later, it is another sentence. */
const LATE_SECONDS = 0.5;
const FRAME_MS = 20;
/** Time without a late frame after which the buffer is made smaller. */
const CALM_SECONDS = 10;
const SHRINK_MS = 10;
/** Sound that it can hold: the engine sends at most five seconds ahead. */
const CAPACITY_SECONDS = 8;
/** Render calls whose positions are kept: more than two seconds. */
const TRAIL = 1024;

/** As the message `played` of the protocol, without its type. */
export interface Played {
  readonly flush: number;
  readonly ms: number;
  readonly playing: boolean;
  readonly queued_ms: number;
  readonly underruns: number;
}

export interface PlayoutEvents {
  played(report: Played): void;
  markDone(name: number): void;
}

export class Playout {
  readonly #rate: number;
  readonly #deviceRate: number;
  readonly #events: PlayoutEvents;
  readonly #queue: RateQueue;
  /** Position at the end of each of the last render calls, by its number modulo `TRAIL`. */
  readonly #trail = new Float64Array(TRAIL);
  #marks: { name: number; position: number }[] = [];
  /** Position of the last mark, also of one that was reached: there may be an answer's end. */
  #markedAt = 0;
  #quantum = 0;
  #latency = 0;
  #flush = 0;
  #heard = 0;
  #playing = false;
  #leaving = false;
  #held = false;
  #last = 0;
  #dryAt = Number.NEGATIVE_INFINITY;
  #waitsFrom: number | null = null;
  #calmFrom = 0;
  #reportedAt = 0;
  /** Sound that is waited for before it begins to play. */
  targetMs = FIRST_TARGET_MS;
  /** Gaps in the middle of an answer. */
  underruns = 0;
  /** Frames that came when their time to be played was over. */
  late = 0;

  /** `rate` of the engine's sound and `deviceRate` of the sound card, in Hz. */
  constructor(rate: number, deviceRate: number, events: PlayoutEvents) {
    this.#rate = rate;
    this.#deviceRate = deviceRate;
    this.#events = events;
    this.#queue = new RateQueue(rate, deviceRate, CAPACITY_SECONDS);
  }

  get queuedMs(): number {
    return this.#queue.queuedMs;
  }

  /** Set the time from a render call to the loudspeaker. */
  set latencySeconds(seconds: number) {
    this.#latency = Math.min((seconds * this.#deviceRate) / QUANTUM, TRAIL - 2);
  }

  /** Append a frame of the engine. Throws a RangeError for more than fits. */
  write(samples: Float32Array): void {
    const now = this.#now;
    if (this.#waitsFrom === null && !this.#playing) this.#waitsFrom = now;
    if (now - this.#dryAt < LATE_SECONDS) this.#bridge((now - this.#dryAt) * 1000);
    this.#dryAt = Number.NEGATIVE_INFINITY;
    this.#queue.write(samples);
  }

  /** Report when the sound so far has been heard. */
  mark(name: number): void {
    this.#markedAt = this.#queue.written;
    this.#marks.push({ name, position: this.#markedAt });
  }

  /** Fall silent and keep the queue. */
  hold(): void {
    this.#held = true;
    this.#playing = false;
    this.#report();
  }

  /** Go on at the sample where the hold began. */
  resume(): void {
    this.#held = false;
    this.#playing = this.#queue.queuedMs > 0;
    this.#report();
  }

  /** Drop the queue and its marks, and begin to count anew. */
  flush(number: number): void {
    this.#flush = number;
    this.#queue.clear();
    this.#trail.fill(0);
    this.#marks = [];
    this.#markedAt = 0;
    this.#heard = 0;
    this.#held = this.#playing = this.#leaving = false;
    this.#waitsFrom = null;
    this.#dryAt = Number.NEGATIVE_INFINITY;
    this.#report();
  }

  /** Fill the next `QUANTUM` samples of the loudspeaker, at most. */
  render(output: Float32Array): void {
    if (!this.#playing && !this.#held && this.#isFull) this.#playing = true;
    let end = 0;
    if (this.#playing) {
      end = this.#queue.read(output);
      this.#last = output[end - 1] ?? 0;
      if (end < output.length) this.#ranDry();
    }
    this.#fadeFrom(output, end);
    this.#trail[this.#quantum++ % TRAIL] = this.#queue.position;
    this.#hear();
  }

  get #now(): number {
    return (this.#quantum * QUANTUM) / this.#deviceRate;
  }

  /** True if enough waits to begin: so much sound, or any for so long. */
  get #isFull(): boolean {
    if (this.#waitsFrom === null || this.#queue.queuedMs === 0) return false;
    const waited = (this.#now - this.#waitsFrom) * 1000;
    return Math.max(this.#queue.queuedMs, waited) >= this.targetMs;
  }

  /** Make the buffer larger, after a gap that it did not bridge. */
  #bridge(gapMs: number): void {
    this.underruns++;
    this.late += Math.ceil(gapMs / FRAME_MS);
    this.targetMs = Math.min(MOST_TARGET_MS, this.targetMs + Math.max(gapMs, FRAME_MS));
    this.#calmFrom = this.#now;
  }

  #ranDry(): void {
    this.#playing = false;
    this.#waitsFrom = null;
    if (this.#markedAt < this.#queue.written) this.#dryAt = this.#now;
  }

  /** A cut in the middle of a wave is a click: let the last sample die away instead. */
  #fadeFrom(output: Float32Array, start: number): void {
    const from = this.#last;
    for (let i = start; i < output.length; i++) {
      output[i] = from * (1 - (i - start + 1) / (output.length - start));
    }
    if (start < output.length) this.#last = 0;
  }

  /** Note what has left the loudspeaker by now, and report it when that is due. */
  #hear(): void {
    const behind = Math.floor(this.#latency);
    const newer = this.#positionOf(this.#quantum - 1 - behind);
    const older = this.#positionOf(this.#quantum - 2 - behind);
    const heard = newer - (newer - older) * (this.#latency - behind);
    const leaving = heard > this.#heard;
    this.#heard = Math.max(heard, this.#heard); // the latency is an estimate, and may jump
    this.#reachMarks();
    const now = this.#now;
    if (leaving !== this.#leaving || (leaving && now - this.#reportedAt >= REPORT_SECONDS)) {
      this.#leaving = leaving;
      this.#report();
    }
    if (now - this.#calmFrom >= CALM_SECONDS) {
      this.#calmFrom = now;
      this.targetMs = Math.max(LEAST_TARGET_MS, this.targetMs - SHRINK_MS);
    }
  }

  #positionOf(quantum: number): number {
    return quantum < 0 ? 0 : (this.#trail[quantum % TRAIL] ?? 0);
  }

  #reachMarks(): void {
    let first = this.#marks[0];
    while (first !== undefined && first.position <= this.#heard) {
      this.#marks.shift();
      this.#events.markDone(first.name);
      first = this.#marks[0];
    }
  }

  #report(): void {
    this.#reportedAt = this.#now;
    this.#events.played({
      flush: this.#flush,
      ms: (Math.floor(this.#heard) * 1000) / this.#rate,
      playing: this.#leaving,
      queued_ms: this.#queue.queuedMs,
      underruns: this.underruns,
    });
  }
}
