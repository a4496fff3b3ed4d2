// The two ends of a call in the browser's audio thread: the microphone and the loudspeaker. The
// build makes one file of this and its imports, which `AudioWorklet.addModule` loads.

import {
  decodeFrame,
  encodeFrame,
  type Format,
  Framer,
  type OfEngine,
  type OfPage,
  RATES,
} from "./frames.ts";
import { Playout } from "./playout.ts";

/** Messages of the loudspeaker besides those for the engine; 20 times a second. */
export interface Gauge {
  readonly type: "gauge";
  readonly queuedMs: number;
  readonly targetMs: number;
  readonly late: number;
  readonly underruns: number;
  /** Peak of the sound since the last message, from 0 to 1. */
  readonly level: number;
}

export type OfSpeaker = Gauge | Extract<OfPage, { type: "played" | "mark_done" }>;
export type ToSpeaker = ArrayBuffer | OfEngine | { type: "latency"; seconds: number };

/** 20 ms of the microphone: `frame` is for the engine, and null until `ToMicrophone`. */
export interface OfMicrophone {
  readonly frame: ArrayBuffer | null;
  readonly level: number;
}
/** The engine takes sound from now on. */
export type ToMicrophone = "begin";

export interface WorkletOptions {
  readonly format: Format;
}

const GAUGE_SECONDS = 0.05;

// The scope of the audio thread, which TypeScript's own libraries do not describe.
declare const sampleRate: number;
declare const currentTime: number;
declare abstract class AudioWorkletProcessor {
  readonly port: MessagePort;
}
declare function registerProcessor(
  name: string,
  processor: new (options: { processorOptions: WorkletOptions }) => AudioWorkletProcessor,
): void;

class Microphone extends AudioWorkletProcessor {
  readonly #format: Format;
  readonly #framer: Framer;
  readonly #mono = new Float32Array(128);
  #seq = 0;
  #begun = false;

  constructor({ processorOptions }: { processorOptions: WorkletOptions }) {
    super();
    this.#format = processorOptions.format;
    this.#framer = new Framer(sampleRate, RATES[this.#format]);
    this.port.onmessage = () => {
      this.#begun = true;
    };
  }

  /** Called by the browser for each 128 samples. Without a channel the microphone is silent. */
  process([channels = []]: Float32Array[][]): boolean {
    const mono = this.#mono.fill(0);
    for (const channel of channels) {
      for (let i = 0; i < mono.length; i++) {
        mono[i] = (mono[i] ?? 0) + (channel[i] ?? 0) / channels.length;
      }
    }
    this.#framer.take(mono, (frame) => this.#give(frame));
    return true;
  }

  #give(samples: Float32Array): void {
    const level = peak(samples);
    if (!this.#begun) {
      this.port.postMessage({ frame: null, level } satisfies OfMicrophone);
      return;
    }
    const frame = encodeFrame(this.#seq++, currentTime * 1000, samples, this.#format);
    this.port.postMessage({ frame, level } satisfies OfMicrophone, [frame]);
  }
}

class Speaker extends AudioWorkletProcessor {
  readonly #format: Format;
  readonly #playout: Playout;
  #level = 0;
  #gaugedAt = 0;

  constructor({ processorOptions }: { processorOptions: WorkletOptions }) {
    super();
    this.#format = processorOptions.format;
    this.#playout = new Playout(RATES[this.#format], sampleRate, {
      played: (report) => this.#tell({ type: "played", ...report }),
      markDone: (name) => this.#tell({ type: "mark_done", name }),
    });
    this.port.onmessage = ({ data }: MessageEvent<ToSpeaker>) => this.#take(data);
  }

  process(_: unknown, outputs: Float32Array[][]): boolean {
    const output = outputs[0]?.[0];
    if (output === undefined) return true;
    this.#playout.render(output);
    this.#level = Math.max(this.#level, peak(output));
    if (currentTime - this.#gaugedAt >= GAUGE_SECONDS) this.#gauge();
    return true;
  }

  #take(message: ToSpeaker): void {
    const playout = this.#playout;
    if (message instanceof ArrayBuffer) playout.write(decodeFrame(message, this.#format));
    else if (message.type === "mark") playout.mark(message.name);
    else if (message.type === "flush") playout.flush(message.flush);
    else if (message.type === "hold") playout.hold();
    else if (message.type === "resume") playout.resume();
    else if (message.type === "latency") playout.latencySeconds = message.seconds;
  }

  #gauge(): void {
    const { queuedMs, targetMs, late, underruns } = this.#playout;
    this.#tell({ type: "gauge", queuedMs, targetMs, late, underruns, level: this.#level });
    this.#level = 0;
    this.#gaugedAt = currentTime;
  }

  #tell(message: OfSpeaker): void {
    this.port.postMessage(message);
  }
}

function peak(samples: Float32Array): number {
  let most = 0;
  for (let i = 0; i < samples.length; i++) most = Math.max(most, Math.abs(samples[i] ?? 0));
  return most;
}

registerProcessor("microphone", Microphone);
registerProcessor("speaker", Speaker);
