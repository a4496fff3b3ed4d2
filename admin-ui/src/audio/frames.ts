// The frames of the protocols `cordboard.call.v1` (docs/browser-call.md) and `cordboard.listen.v1`
// (docs/admin-live-control.md). No I/O.

import type { Played } from "./playout.ts";
import { RateQueue } from "./rate-queue.ts";

export const SUBPROTOCOL = "cordboard.call.v1";
export const FRAME_MS = 20;
const HEADER_BYTES = 9;
const SOUND = 1;

export type Format = "slin16" | "ulaw";
export const RATES: Readonly<Record<Format, number>> = { slin16: 16_000, ulaw: 8_000 };

/** Messages of the engine. */
export type OfEngine =
  | { type: "ready"; call: string; format: Format; rate: number; frame_ms: number }
  | { type: "hold" | "resume" }
  | { type: "flush"; flush: number }
  | { type: "mark"; name: number }
  | { type: "keys"; keys: string }
  | { type: "ended"; reason: string };

/** Messages of the page. */
export type OfPage =
  | ({ type: "played" } & Played)
  | { type: "mark_done"; name: number }
  | { type: "key"; digit: string }
  | { type: "hangup" }
  | { type: "stats"; output_ms: number; late: number };

/** Cuts the microphone's sound into frames of 20 ms, at the rate of the call. */
export class Framer {
  readonly #queue: RateQueue;
  readonly #frame: Float32Array;
  #filled = 0;

  /** `deviceRate` of the microphone and `rate` of the call, in Hz. */
  constructor(deviceRate: number, rate: number) {
    this.#queue = new RateQueue(deviceRate, rate, 1);
    this.#frame = new Float32Array((rate * FRAME_MS) / 1000);
  }

  /** Take samples of one channel. `onFrame` gets each full frame, and must not keep it. */
  take(samples: Float32Array, onFrame: (frame: Float32Array) => void): void {
    this.#queue.write(samples);
    for (let left = this.#queue.settled; left > 0; ) {
      const end = Math.min(this.#frame.length, this.#filled + left);
      this.#queue.read(this.#frame.subarray(0, end), this.#filled);
      left -= end - this.#filled;
      this.#filled = end;
      if (end < this.#frame.length) return;
      this.#filled = 0;
      onFrame(this.#frame);
    }
  }
}

/** Return a binary frame: number `seq` of the page, of the time `atMs` on its clock. */
export function encodeFrame(
  seq: number,
  atMs: number,
  samples: Float32Array,
  format: Format,
): ArrayBuffer {
  const width = format === "ulaw" ? 1 : 2;
  const frame = new DataView(new ArrayBuffer(HEADER_BYTES + samples.length * width));
  frame.setUint8(0, SOUND);
  frame.setUint32(1, seq);
  frame.setUint32(5, atMs);
  for (let i = 0; i < samples.length; i++) {
    const sample = toInteger(samples[i] ?? 0);
    if (format === "ulaw") frame.setUint8(HEADER_BYTES + i, toUlaw(sample));
    else frame.setInt16(HEADER_BYTES + 2 * i, sample, true);
  }
  return frame.buffer;
}

/** Return the samples of a binary frame of the engine, from -1 to 1. */
export function decodeFrame(data: ArrayBuffer, format: Format): Float32Array {
  const frame = new DataView(data);
  return samplesOf(frame, HEADER_BYTES, frame.byteLength, format === "ulaw" ? "ulaw" : "slin");
}

/** The first message to a listener. */
export interface Hearing {
  encoding: Encoding;
  rate: number;
  from_ms: number;
  delay_ms: number;
}

export interface HeardFrame {
  /** Time of the first sample, ms since the offer. */
  at_ms: number;
  caller: Samples;
  agent: Samples;
}

const HEARD_HEADER_BYTES = 4;

/** Return the samples of a frame for a listener, caller first; null if it is none. */
export function decodeHeard(data: ArrayBuffer, encoding: Encoding): HeardFrame | null {
  const frame = new DataView(data);
  const half = (data.byteLength - HEARD_HEADER_BYTES) / 2;
  if (half < 0 || half % (encoding === "slin" ? 2 : 1) !== 0) return null;
  const middle = HEARD_HEADER_BYTES + half;
  return {
    at_ms: frame.getUint32(0, true),
    caller: samplesOf(frame, HEARD_HEADER_BYTES, middle, encoding),
    agent: samplesOf(frame, middle, data.byteLength, encoding),
  };
}

/** 16 bit, little endian, or µ-law. */
type Encoding = "slin" | "ulaw";
type Samples = Float32Array<ArrayBuffer>;

function samplesOf(frame: DataView, from: number, to: number, encoding: Encoding): Samples {
  const width = encoding === "ulaw" ? 1 : 2;
  const samples = new Float32Array(Math.max(0, Math.floor((to - from) / width)));
  for (let i = 0; i < samples.length; i++) {
    const at = from + i * width;
    const sample = width === 1 ? fromUlaw(frame.getUint8(at)) : frame.getInt16(at, true);
    samples[i] = sample / 32_768;
  }
  return samples;
}

function toInteger(sample: number): number {
  return Math.max(-32_768, Math.min(32_767, Math.round(sample * 32_768)));
}

// G.711 µ-law (ITU-T G.711, table 2a): sign, exponent and mantissa, all inverted.

const BIAS = 132;
const CLIP = 32_635;

function toUlaw(sample: number): number {
  const magnitude = Math.min(Math.abs(sample), CLIP) + BIAS;
  const exponent = 24 - Math.clz32(magnitude);
  const mantissa = (magnitude >> (exponent + 3)) & 0x0f;
  return ~((sample < 0 ? 0x80 : 0) | (exponent << 4) | mantissa) & 0xff;
}

function fromUlaw(byte: number): number {
  const code = ~byte & 0xff;
  const magnitude = ((((code & 0x0f) << 3) + BIAS) << ((code >> 4) & 0x07)) - BIAS;
  return code & 0x80 ? -magnitude : magnitude;
}
