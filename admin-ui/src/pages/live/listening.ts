// Listens to a live call: the engine's sound, played in this browser. Nothing goes the other way: no
// microphone is asked for, and the socket has no way back.
import { decodeHeard, type Hearing } from "../../audio/frames.ts";

const PROTOCOL = "cordboard.listen.v1";
const TOO_SLOW = 4408;
/** Each voice is a little to its side, so that two who speak at once can be told apart. */
const PLACES = { caller: -0.4, agent: 0.4 } as const;

export type Side = keyof typeof PLACES;
export type Ending = "over" | "tooSlow" | "lost" | "refused";

export interface Listener {
  /** The sound has begun; `delay` is how late it is heard, in ms. */
  began(delay: number): void;
  levels(caller: number, agent: number): void;
  ended(how: Ending): void;
}

export class Listening {
  readonly #listener: Listener;
  readonly #socket: WebSocket;
  readonly #head = new Playhead();
  readonly #muted = new Set<Side>();
  #gains: Partial<Record<Side, GainNode>> = {};
  #entry: ChannelSplitterNode | null = null;
  #context: AudioContext | null = null;
  #hearing: Hearing | null = null;

  constructor(callId: string, ticket: string, listener: Listener) {
    this.#listener = listener;
    const origin = window.location.origin.replace(/^http/, "ws");
    const address = `${origin}/api/v1/listen/${encodeURIComponent(callId)}`;
    // In the list of protocols and not in the address: addresses end up in logs.
    this.#socket = new WebSocket(address, [PROTOCOL, `ticket.${ticket}`]);
    this.#socket.binaryType = "arraybuffer";
    this.#socket.onmessage = ({ data }) => this.#take(data);
    this.#socket.onclose = ({ code }) => this.#end(code);
  }

  /** Stops, and gives the loudspeaker back. */
  stop(): void {
    this.#socket.onmessage = this.#socket.onclose = null;
    this.#socket.close();
    void this.#context?.close();
    this.#context = null;
  }

  /** Whether a side is heard. */
  hear(side: Side, heard: boolean): void {
    if (heard) this.#muted.delete(side);
    else this.#muted.add(side);
    const gain = this.#gains[side];
    if (gain) gain.gain.value = heard ? 1 : 0;
  }

  #take(data: string | ArrayBuffer): void {
    if (typeof data === "string") this.#begin(JSON.parse(data) as Hearing);
    else if (this.#hearing !== null) this.#play(data, this.#hearing);
  }

  #begin(hearing: Hearing): void {
    this.#hearing = hearing;
    try {
      this.#open(hearing.rate);
    } catch {
      // This browser has no loudspeaker, or not at this rate.
      this.stop();
      this.#listener.ended("refused");
      return;
    }
    this.#listener.began(hearing.delay_ms);
  }

  #open(rate: number): void {
    // At the rate of the sound: frames that are resampled one by one would click at their edges.
    const context = new AudioContext({ sampleRate: rate });
    this.#context = context;
    void context.resume(); // it may have been made too long after the press
    const entry = context.createChannelSplitter(2);
    for (const [channel, side] of (["caller", "agent"] as const).entries()) {
      const gain = context.createGain();
      gain.gain.value = this.#muted.has(side) ? 0 : 1;
      const place = new StereoPannerNode(context, { pan: PLACES[side] });
      entry.connect(gain, channel).connect(place).connect(context.destination);
      this.#gains[side] = gain;
    }
    this.#entry = entry;
  }

  #play(content: ArrayBuffer, { encoding, rate }: Hearing): void {
    const context = this.#context;
    const frame = decodeHeard(content, encoding);
    if (context === null || this.#entry === null || frame === null) return;
    const length = frame.caller.length;
    if (length === 0) return;
    this.#listener.levels(levelOf(frame.caller), levelOf(frame.agent));
    const at = this.#head.place(context.currentTime, length / rate);
    if (at === null) return;
    const sound = context.createBuffer(2, length, rate);
    sound.copyToChannel(frame.caller, 0);
    sound.copyToChannel(frame.agent, 1);
    const source = new AudioBufferSourceNode(context, { buffer: sound });
    source.connect(this.#entry);
    source.start(at);
  }

  #end(code: number): void {
    const began = this.#hearing !== null;
    this.stop();
    const lost = code === 1006 ? "lost" : "over";
    this.#listener.ended(code === TOO_SLOW ? "tooSlow" : began ? lost : "refused");
  }
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
