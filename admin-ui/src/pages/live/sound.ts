// The sound of a call that a person listens to: frames of the engine as samples, and when each is
// played. Format: docs/admin-live-control.md.

export interface Hearing {
  encoding: "slin" | "ulaw";
  rate: number;
  from_ms: number;
  delay_ms: number;
}

export interface Frame {
  /** Time of the first sample, ms since the offer. */
  at_ms: number;
  caller: Float32Array<ArrayBuffer>;
  agent: Float32Array<ArrayBuffer>;
}

const HEADER_BYTES = 4;

/** The samples of one frame; null if it is none. */
export function decodeFrame(content: ArrayBuffer, encoding: Hearing["encoding"]): Frame | null {
  const view = new DataView(content);
  const half = (content.byteLength - HEADER_BYTES) / 2;
  if (half < 0 || !Number.isInteger(half) || (encoding === "slin" && half % 2 !== 0)) return null;
  const decode = encoding === "slin" ? linear : ulaw;
  return {
    at_ms: view.getUint32(0, true),
    caller: decode(view, HEADER_BYTES, half),
    agent: decode(view, HEADER_BYTES + half, half),
  };
}

function linear(view: DataView, from: number, bytes: number): Float32Array<ArrayBuffer> {
  const samples = new Float32Array(bytes / 2);
  for (let i = 0; i < samples.length; i += 1) {
    samples[i] = view.getInt16(from + 2 * i, true) / 32_768;
  }
  return samples;
}

/** ITU-T G.711, µ-law: sign, exponent of three bits and mantissa of four, all inverted. */
function ulaw(view: DataView, from: number, bytes: number): Float32Array<ArrayBuffer> {
  const samples = new Float32Array(bytes);
  for (let i = 0; i < bytes; i += 1) {
    const code = ~view.getUint8(from + i) & 0xff;
    const magnitude = ((((code & 0x0f) << 3) + 0x84) << ((code >> 4) & 0x07)) - 0x84;
    samples[i] = (code & 0x80 ? -magnitude : magnitude) / 32_768;
  }
  return samples;
}

/** The sound that waits to be played when a gap is over, in seconds. */
export const LEAD = 0.2;
/** More than this is too late: what waits is left out, or the listener would fall behind. */
export const MOST_WAITING = 1;

/** Decides when each frame is played, one after the other without a gap. Times are seconds. */
export class Playhead {
  #next = 0;

  /** The moment at which a frame of this duration begins; null to leave it out. */
  place(now: number, duration: number): number | null {
    if (this.#next < now) this.#next = now + LEAD;
    if (this.#next - now > MOST_WAITING) return null;
    const at = this.#next;
    this.#next += duration;
    return at;
  }

  /** Sound that is placed and not yet played. */
  waiting(now: number): number {
    return Math.max(0, this.#next - now);
  }
}

/** Loudness of samples between 0 and 1, for a level that people can see. */
export function levelOf(samples: Float32Array): number {
  let sum = 0;
  for (const sample of samples) sum += sample * sample;
  const rms = Math.sqrt(sum / Math.max(1, samples.length));
  const decibels = 20 * Math.log10(rms + 1e-6);
  return Math.min(1, Math.max(0, (decibels + 60) / 60));
}
