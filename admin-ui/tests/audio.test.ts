// The sound of a call in the browser: resampling, framing, the jitter buffer and its clock.
import { describe, expect, test } from "vitest";

import { decodeFrame, encodeFrame, Framer } from "../src/audio/frames.ts";
import { type Played, Playout, QUANTUM } from "../src/audio/playout.ts";
import { RateQueue } from "../src/audio/rate-queue.ts";

function tone(hertz: number, rate: number, seconds: number): Float32Array {
  const samples = new Float32Array(Math.round(rate * seconds));
  for (let i = 0; i < samples.length; i++) samples[i] = Math.sin((2 * Math.PI * hertz * i) / rate);
  return samples;
}

/** Amplitude of one frequency, in dB of a full sine (Goertzel), away from the clip's ends. */
function decibels(samples: Float32Array, hertz: number, rate: number): number {
  const part = samples.subarray(1000, samples.length - 1000);
  let real = 0;
  let imaginary = 0;
  part.forEach((sample, i) => {
    const window = 1 - Math.cos((2 * Math.PI * i) / part.length);
    real += window * sample * Math.cos((2 * Math.PI * hertz * i) / rate);
    imaginary += window * sample * Math.sin((2 * Math.PI * hertz * i) / rate);
  });
  return 20 * Math.log10((2 * Math.hypot(real, imaginary)) / part.length + 1e-12);
}

function converted(samples: Float32Array, from: number, to: number): Float32Array {
  const queue = new RateQueue(from, to, 2);
  const output = new Float32Array(Math.ceil((samples.length * to) / from));
  let end = 0;
  for (let at = 0; at < samples.length; at += 128) {
    queue.write(samples.subarray(at, at + 128));
    end = queue.read(output.subarray(0, end + queue.settled), end);
  }
  expect(queue.read(output, end)).toBe(output.length);
  return output;
}

describe.each([48_000, 44_100, 96_000, 16_000])("a microphone of %i Hz at 16 kHz", (rate) => {
  test.each([300, 1_000, 3_400, 6_000])("keeps %i Hz, in phase", (hertz) => {
    const output = converted(tone(hertz, rate, 1), rate, 16_000);
    expect(Math.abs(decibels(output, hertz, 16_000))).toBeLessThan(0.1);
    const expected = tone(hertz, 16_000, 1);
    const wrong = output.map((sample, i) => Math.abs(sample - (expected[i] ?? 0)));
    expect(Math.max(...wrong.subarray(1000, 15_000))).toBeLessThan(0.01);
  });

  test.runIf(rate > 16_000)("has no alias of 10 kHz", () => {
    const output = converted(tone(10_000, rate, 1), rate, 16_000);
    expect(decibels(output, 6_000, 16_000)).toBeLessThan(-60);
    expect(Math.max(...output.subarray(1000, 15_000))).toBeLessThan(0.002);
  });
});

test.each([48_000, 44_100])("a loudspeaker of %i Hz has no image of 3 kHz", (rate) => {
  const output = converted(tone(3_000, 16_000, 1), 16_000, rate);
  expect(Math.abs(decibels(output, 3_000, rate))).toBeLessThan(0.1);
  expect(decibels(output, 13_000, rate)).toBeLessThan(-60);
});

test("a full queue says so, and a cleared one is as new", () => {
  const queue = new RateQueue(16_000, 48_000, 1);
  queue.write(new Float32Array(16_000).fill(1));
  expect(() => queue.write(new Float32Array(1_000))).toThrow(RangeError);
  queue.clear();
  queue.write(new Float32Array(16));
  const output = new Float32Array(100);
  expect(queue.read(output)).toBe(48);
  expect([...output]).toEqual([...new Float32Array(100)]);
  expect(queue.position).toBe(16);
});

test.each([48_000, 44_100])("the microphone is cut into 20 ms, without gap, at %i Hz", (rate) => {
  const framer = new Framer(rate, 16_000);
  const frames: Float32Array[] = [];
  const sound = tone(440, rate, 1);
  for (let at = 0; at + 128 <= sound.length; at += 128) {
    framer.take(sound.subarray(at, at + 128), (frame) => frames.push(frame.slice()));
  }
  expect(frames.every((frame) => frame.length === 320)).toBe(true);
  expect(frames.length).toBe(49); // the look-ahead of the filter is still to come
  const whole = Float32Array.from(frames.flatMap((frame) => [...frame]));
  const expected = tone(440, 16_000, 1);
  expect(whole.subarray(100).every((s, i) => Math.abs(s - (expected[i + 100] ?? 0)) < 0.01)).toBe(
    true,
  );
});

test("a frame is its header in network order and its samples", () => {
  const frame = encodeFrame(258, 1_000.7, Float32Array.of(0, 0.5, -2), "slin16");
  expect([...new Uint8Array(frame)]).toEqual([1, 0, 0, 1, 2, 0, 0, 3, 232, 0, 0, 0, 64, 0, 128]);
  expect([...decodeFrame(frame, "slin16")]).toEqual([0, 0.5, -1]);
});

test("µ-law is that of G.711", () => {
  const levels = [0, 8, -8, 1_000, -1_000, 32_767, -32_768].map((each) => each / 32_768);
  const frame = encodeFrame(0, 0, Float32Array.from(levels), "ulaw");
  expect([...new Uint8Array(frame, 9)]).toEqual([0xff, 0xfe, 0x7e, 0xce, 0x4e, 0x80, 0x00]);
  for (let code = 0; code < 256; code++) {
    if (code === 0x7f) continue; // the second zero
    const one = new Uint8Array(10);
    one[9] = code;
    const again = encodeFrame(0, 0, decodeFrame(one.buffer, "ulaw"), "ulaw");
    expect(new Uint8Array(again)[9]).toBe(code);
  }
});

/** A loudspeaker, fed with 16 kHz. */
class Listener {
  readonly #rate: number;
  readonly reports: Played[] = [];
  readonly marks: number[] = [];
  readonly playout: Playout;

  constructor(rate = 48_000) {
    this.#rate = rate;
    this.playout = new Playout(16_000, rate, {
      played: (report) => this.reports.push(report),
      markDone: (name) => this.marks.push(name),
    });
  }

  /** Let time pass. */
  run(ms: number): Float32Array {
    const quanta = Math.round((ms * this.#rate) / 1_000 / QUANTUM);
    const output = new Float32Array(quanta * QUANTUM);
    for (let i = 0; i < quanta; i++) {
      this.playout.render(output.subarray(i * QUANTUM, (i + 1) * QUANTUM));
    }
    return output;
  }

  /** Write frames of 20 ms. */
  give(ms: number): void {
    for (let at = 0; at < ms; at += 20) this.playout.write(new Float32Array(320).fill(0.5));
  }

  get last(): Played {
    const last = this.reports.at(-1);
    if (last === undefined) throw new Error("nothing was reported");
    return last;
  }
}

function peak(sound: Float32Array): number {
  return sound.reduce((most, sample) => Math.max(most, Math.abs(sample)), 0);
}

describe("the loudspeaker", () => {
  test("waits for 60 ms, or for so long, and then plays to the end", () => {
    const listener = new Listener();
    listener.give(40);
    expect(peak(listener.run(40))).toBe(0);
    listener.give(20);
    expect(peak(listener.run(10))).toBeGreaterThan(0.4);
    listener.run(200);
    expect(listener.last).toMatchObject({ ms: 60, playing: false, queued_ms: 0, underruns: 0 });
    const short = new Listener();
    short.give(20);
    expect(peak(short.run(59))).toBe(0);
    expect(peak(short.run(10))).toBeGreaterThan(0.4);
  });

  test("reports every 100 ms what has left it, less the latency, and never backwards", () => {
    const listener = new Listener();
    listener.playout.latencySeconds = 0.05;
    listener.give(1_000);
    listener.run(40);
    expect(listener.reports).toEqual([]); // on its way
    listener.run(600);
    const steps = listener.reports.map((report) => report.ms);
    expect(listener.reports.every((report) => report.playing)).toBe(true);
    expect(steps.length).toBe(6);
    expect(steps.at(-1)).toBeGreaterThan(480);
    expect(steps.at(-1)).toBeLessThan(595);
    listener.playout.latencySeconds = 0.4;
    listener.run(600);
    const all = listener.reports.map((report) => report.ms);
    expect(all).toEqual([...all].sort((a, b) => a - b));
    listener.run(400);
    expect(listener.last).toMatchObject({ ms: 1_000, playing: false });
  });

  test("holds at once, reports the exact sample, and goes on behind it", () => {
    const listener = new Listener();
    const ramp = Float32Array.from({ length: 16_000 }, (_, i) => i / 16_000);
    for (let at = 0; at < 16_000; at += 320) listener.playout.write(ramp.subarray(at, at + 320));
    const before = listener.run(400);
    listener.playout.hold();
    expect(listener.last.ms).toBeGreaterThan(395);
    listener.run(3);
    expect(peak(listener.run(500))).toBe(0);
    expect(listener.last.playing).toBe(false);
    const held = listener.last.ms;
    expect(held / 1_000).toBeCloseTo(before.at(-1) ?? 0, 3);
    listener.playout.resume();
    const after = listener.run(3);
    expect((after[0] ?? 0) - (before.at(-1) ?? 0)).toBeCloseTo(1 / 48_000, 5);
    listener.run(10);
    expect(listener.last.playing).toBe(true);
  });

  test("is silent within one render call of a flush, and counts anew", () => {
    const listener = new Listener();
    listener.give(500);
    listener.playout.mark(1);
    listener.run(200);
    listener.playout.flush(1);
    expect(listener.last).toMatchObject({ flush: 1, ms: 0, playing: false, queued_ms: 0 });
    const cut = listener.run(3);
    expect(Math.abs(cut.at(-1) ?? 1)).toBe(0); // it fades, so that there is no click
    expect(peak(listener.run(100))).toBe(0);
    expect(listener.marks).toEqual([]);
    listener.give(100);
    listener.playout.mark(2);
    listener.run(200);
    expect(listener.last).toMatchObject({ flush: 1, ms: 100 });
    expect(listener.marks).toEqual([2]);
  });

  test("answers a mark when the sound before it was heard, also without sound", () => {
    const listener = new Listener();
    listener.playout.latencySeconds = 0.03;
    listener.playout.mark(1);
    listener.run(3);
    expect(listener.marks).toEqual([1]);
    listener.give(100);
    listener.playout.mark(2);
    listener.give(100);
    listener.playout.mark(3);
    listener.run(125);
    expect(listener.marks).toEqual([1]);
    listener.run(12);
    expect(listener.marks).toEqual([1, 2]);
    listener.run(200);
    expect(listener.marks).toEqual([1, 2, 3]);
  });

  test("waits for more after a gap, up to 200 ms, and for less when all is calm", () => {
    const listener = new Listener();
    listener.give(100);
    listener.run(180);
    listener.give(100); // 80 ms late
    expect(listener.playout.targetMs).toBeCloseTo(140, -1);
    expect(peak(listener.run(130))).toBe(0);
    listener.run(270);
    listener.give(100);
    expect(listener.playout.targetMs).toBe(200);
    expect(listener.playout.underruns).toBe(2);
    expect(listener.playout.late).toBeGreaterThanOrEqual(12);
    for (let i = 0; i < 25; i++) {
      listener.give(1_000);
      listener.run(1_000);
    }
    expect(listener.playout.targetMs).toBeLessThan(190);
    for (let i = 0; i < 200; i++) listener.run(1_000);
    expect(listener.playout.targetMs).toBe(40);
  });

  test("does not take the end of an answer for a gap", () => {
    const listener = new Listener();
    for (let i = 0; i < 3; i++) {
      listener.give(100);
      listener.playout.mark(i);
      listener.run(200);
    }
    expect(listener.last).toMatchObject({ ms: 300, underruns: 0 });
    expect(listener.playout.targetMs).toBe(60);
  });

  test("plays every sample once, in order, however the network delivers it", () => {
    let seed = 1;
    const random = () => {
      seed = (seed * 48_271) % 2_147_483_647;
      return seed / 2_147_483_647;
    };
    for (let round = 0; round < 8; round++) {
      const listener = new Listener(16_000); // without a filter, which would ring at a gap
      const rising = Float32Array.from({ length: 32_000 }, (_, i) => 0.1 + i / 40_000);
      let sent = 0;
      let most = 0;
      let risen = 0;
      let jump = 0;
      for (let ms = 0; ms < 6_000; ms += 8) {
        const burst = random() < 0.35 ? 1 + Math.floor(random() * 4) : 0;
        for (let i = 0; i < burst && sent < rising.length; i++, sent += 320) {
          listener.playout.write(rising.subarray(sent, sent + 320));
        }
        for (const sample of listener.run(8)) {
          if (sample <= most) continue; // silence, or the fading end before a gap
          if (most > 0) jump = Math.max(jump, sample - most);
          most = sample;
          risen++;
        }
      }
      expect(listener.last).toMatchObject({ ms: 2_000, playing: false, queued_ms: 0 });
      expect(risen).toBe(32_000);
      expect(jump).toBeLessThan(1.1 / 40_000);
      const reports = listener.reports.map((report) => report.ms);
      expect(reports).toEqual([...reports].sort((a, b) => a - b));
    }
  });
});
