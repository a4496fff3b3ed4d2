// A queue of sound that is written at one sample rate and read at another.
//
// The filter is a windowed sinc (Kaiser): linear phase, flat to 85 % of the lower Nyquist frequency,
// and down by more than 60 dB where aliases or images would begin. A sample is read at an exact
// position of the written sound, without delay, so what was read is known to the sample.

const STOP_DB = 66;
/** End of the flat band, as a fraction of the lower sample rate. */
const PASS = 0.425;

interface Filter {
  /** Read positions between two written samples. */
  readonly phases: number;
  /** Steps of `1 / phases` between two read samples. */
  readonly step: number;
  /** Written samples on either side of a position that the filter needs. */
  readonly reach: number;
  /** For each phase, the weights of the samples from `reach` before to `reach` behind. */
  readonly weights: Float32Array;
}

export class RateQueue {
  readonly #rate: number;
  readonly #filter: Filter;
  readonly #ring: Float32Array;
  #written = 0;
  #index = 0;
  #phase = 0;

  /** `seconds`: sound that it can hold. Rates are in Hz, integers. */
  constructor(fromRate: number, toRate: number, seconds: number) {
    this.#rate = fromRate;
    this.#filter = design(fromRate, toRate);
    this.#ring = new Float32Array(2 ** Math.ceil(Math.log2(fromRate * seconds)));
  }

  /** Samples written since the last `clear`. */
  get written(): number {
    return this.#written;
  }

  /** Position of the next sample to read, in written samples; never behind the last one. */
  get position(): number {
    return Math.min(this.#index + this.#phase / this.#filter.phases, this.#written);
  }

  /** Sound that is written and not read. */
  get queuedMs(): number {
    return ((this.#written - this.position) * 1000) / this.#rate;
  }

  /** Samples, at the rate of reading, for which all that the filter needs is written. */
  get settled(): number {
    const { phases, step, reach } = this.#filter;
    const end = (this.#written - reach) * phases;
    const at = this.#index * phases + this.#phase;
    return Math.max(0, Math.ceil((end - at) / step));
  }

  /** Append samples. Throws a RangeError if it is full. */
  write(samples: Float32Array): void {
    const { reach } = this.#filter;
    if (this.#written + samples.length - this.#index + reach > this.#ring.length) {
      throw new RangeError(`the queue holds ${this.#ring.length} samples`);
    }
    const mask = this.#ring.length - 1;
    for (let i = 0; i < samples.length; i++) this.#ring[this.#written++ & mask] = samples[i] ?? 0;
  }

  /**
   * Fill `output` from `start` on, as far as there is sound, and return the end of what was filled.
   * Sound that is not written yet counts as silence.
   */
  read(output: Float32Array, start = 0): number {
    const { phases, step } = this.#filter;
    let at = start;
    while (at < output.length && this.#index < this.#written) {
      output[at++] = this.#sample();
      this.#phase += step;
      this.#index += Math.floor(this.#phase / phases);
      this.#phase %= phases;
    }
    return at;
  }

  /** Forget all sound and begin to count anew. */
  clear(): void {
    this.#written = this.#index = this.#phase = 0;
  }

  #sample(): number {
    const { reach, weights } = this.#filter;
    const mask = this.#ring.length - 1;
    const first = Math.max(this.#index - reach, 0);
    const last = Math.min(this.#index + reach, this.#written - 1);
    let weight = this.#phase * (2 * reach + 1) + first - this.#index + reach;
    let sum = 0;
    for (let at = first; at <= last; at++) {
      sum += (this.#ring[at & mask] ?? 0) * (weights[weight++] ?? 0);
    }
    return sum;
  }
}

function design(fromRate: number, toRate: number): Filter {
  const common = greatestCommonDivisor(fromRate, toRate);
  const phases = toRate / common;
  const step = fromRate / common;
  if (fromRate === toRate) return { phases, step, reach: 0, weights: new Float32Array([1]) };
  const lower = Math.min(fromRate, toRate) / (fromRate * phases);
  const stop = toRate < fromRate ? 0.5 : 1 - PASS;
  const half = Math.ceil((STOP_DB - 8) / (2.285 * 2 * Math.PI * (stop - PASS) * lower) / 2);
  const cutoff = (stop + PASS) * lower;
  const reach = Math.ceil(half / phases);
  const weights = new Float32Array(phases * (2 * reach + 1));
  for (let phase = 0; phase < phases; phase++) {
    const own = weights.subarray(phase * (2 * reach + 1), (phase + 1) * (2 * reach + 1));
    for (let i = 0; i < own.length; i++) {
      own[i] = windowedSinc(phase + (reach - i) * phases, half, cutoff);
    }
    const sum = own.reduce((all, each) => all + each, 0);
    for (let i = 0; i < own.length; i++) own[i] = (own[i] ?? 0) / sum; // no ripple at 0 Hz
  }
  return { phases, step, reach, weights };
}

function windowedSinc(at: number, half: number, cutoff: number): number {
  if (Math.abs(at) > half) return 0;
  const beta = 0.1102 * (STOP_DB - 8.7);
  const window = bessel(beta * Math.sqrt(1 - (at / half) ** 2)) / bessel(beta);
  const angle = Math.PI * cutoff * at;
  return window * (at === 0 ? 1 : Math.sin(angle) / angle);
}

/** The modified Bessel function of the first kind, of order 0. */
function bessel(x: number): number {
  let sum = 1;
  let term = 1;
  for (let k = 1; term > 1e-12 * sum; k++) {
    term *= (x / (2 * k)) ** 2;
    sum += term;
  }
  return sum;
}

function greatestCommonDivisor(a: number, b: number): number {
  return b === 0 ? a : greatestCommonDivisor(b, a % b);
}
