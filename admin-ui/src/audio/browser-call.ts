// One call from this page: microphone, loudspeaker and the websocket between them and the engine.
//
// Whatever ends a call (either side, the page's end, an error, a lost device), the microphone's
// tracks are stopped and the audio context is closed before `view.phase` says "ended".

import type { components } from "../api/generated.ts";
import { type Format, type OfEngine, type OfPage, SUBPROTOCOL } from "./frames.ts";
import type { OfMicrophone, OfSpeaker, ToSpeaker, WorkletOptions } from "./worklets.ts";
import workletsUrl from "./worklets.ts?worker&url";

export type Ordered = components["schemas"]["BrowserCallOrdered"];

export interface Sound {
  /** The microphone's id; empty for the browser's choice. */
  readonly device: string;
  readonly echoCancellation: boolean;
  readonly noiseSuppression: boolean;
  readonly autoGainControl: boolean;
  readonly format: Format;
}

/** State of the line, for people. */
export interface Line {
  readonly queuedMs: number;
  readonly targetMs: number;
  readonly late: number;
  readonly underruns: number;
  /** Latency of the loudspeaker. */
  readonly outputMs: number;
}

/**
 * `why`: the engine's reason, `left` if this page ended it, the name of a DOMException of the
 * microphone, `microphone_lost`, `audio_failed`, `lost`, or `closed:CODE` of the websocket.
 */
export interface End {
  readonly why: string;
  /** The sentence of the engine, or of the browser; empty if there is none. */
  readonly said: string;
}

export interface CallView {
  readonly phase: "asking" | "ordering" | "connecting" | "live" | "ended";
  /** Id of the call; empty until it is ordered. */
  readonly callId: string;
  /** `performance.now()` when the engine took the call. */
  readonly since: number;
  /** Duration in ms, once it is over; 0 if the engine never took it. */
  readonly lastedMs: number;
  readonly muted: boolean;
  /** Keys that the person pressed. */
  readonly pressed: string;
  /** Keys that the agent sent. */
  readonly received: string;
  readonly line: Line;
  readonly end: End | null;
}

const NO_LINE: Line = { queuedMs: 0, targetMs: 0, late: 0, underruns: 0, outputMs: 0 };
const START: CallView = {
  phase: "asking",
  callId: "",
  since: 0,
  lastedMs: 0,
  muted: false,
  pressed: "",
  received: "",
  line: NO_LINE,
  end: null,
};
/** Gauges of the loudspeaker between two changes of `view.line`: five changes a second. */
const GAUGES = 4;
/** Estimates of the output's latency differ by less from one look to the next. */
const LATENCY_STEP = 0.005;
const NORMAL = 1000;

/** The call was ended while it was still being made. */
class Left extends Error {}

/** Why this browser gives the page no microphone; null if it does. */
export function noMicrophone(): "insecure" | "unsupported" | null {
  if (!globalThis.isSecureContext) return "insecure";
  return "mediaDevices" in navigator && "AudioWorkletNode" in globalThis ? null : "unsupported";
}

export class BrowserCall {
  /** Peaks of the last moment, from 0 to 1; read at each drawn frame. */
  readonly levels = { microphone: 0, speaker: 0 };
  #view = START;
  readonly #sound: Sound;
  readonly #listeners = new Set<() => void>();
  /** Releases what the call holds, in the order of its coming. */
  #undo: (() => void)[] = [];
  #tracks: MediaStreamTrack[] = [];
  #socket: WebSocket | null = null;
  #speaker: AudioWorkletNode | null = null;
  #reason = "";
  #gauges = 0;
  #latency = 0;

  /** Must be made in a click: browsers let no other page make sounds. */
  constructor(sound: Sound, order: () => Promise<Ordered>) {
    this.#sound = sound;
    this.#make(order).catch((error: unknown) => {
      if (!(error instanceof Left)) this.#finish(whyOf(error), saidBy(error));
    });
  }

  /** The state now; a new object after each change. */
  get view(): CallView {
    return this.#view;
  }

  /** Call `listener` after each change of `view`; returns what ends that. */
  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  /** Hang up; the owner calls it when the page is left, too. Idempotent. */
  readonly leave = (): void => this.#finish("left", "");

  /** Send silence, or the microphone again. */
  mute(muted: boolean): void {
    if (this.#view.phase === "ended") return;
    for (const track of this.#tracks) track.enabled = !muted;
    this.#change({ muted });
  }

  press(digit: string): void {
    if (this.#view.phase !== "live") return;
    this.#say({ type: "key", digit });
    this.#change({ pressed: this.#view.pressed + digit });
  }

  async #make(order: () => Promise<Ordered>): Promise<void> {
    const context = new AudioContext({ latencyHint: "interactive" });
    this.#keep(() => void context.close());
    const { device, format: _, ...processing } = this.#sound;
    const wanted = device ? { ...processing, deviceId: { exact: device } } : processing;
    const stream = await navigator.mediaDevices.getUserMedia({ audio: wanted });
    this.#tracks = stream.getTracks();
    // The person may have muted the call while the browser asked for the microphone.
    for (const track of this.#tracks) track.enabled = !this.#view.muted;
    this.#keep(() => {
      for (const track of this.#tracks) track.stop();
    });
    await context.audioWorklet.addModule(workletsUrl);
    await context.resume();
    this.#change({ phase: "ordering" });
    const ordered = await order();
    this.#connect(context, stream, ordered);
  }

  #connect(context: AudioContext, stream: MediaStream, ordered: Ordered): void {
    this.#change({ phase: "connecting", callId: ordered.id });
    const address = new URL(ordered.url, location.href);
    address.protocol = location.protocol === "https:" ? "wss:" : "ws:";
    const socket = new WebSocket(address, [SUBPROTOCOL, `ticket.${ordered.ticket}`]);
    socket.binaryType = "arraybuffer";
    this.#socket = socket;
    this.#keep(() => {
      socket.onmessage = socket.onclose = null;
      socket.close(NORMAL);
    });
    const microphone = this.#addMicrophone(context, stream, socket);
    this.#speaker = this.#addSpeaker(context);
    socket.onmessage = ({ data }: MessageEvent<string | ArrayBuffer>) => {
      if (data instanceof ArrayBuffer) this.#speaker?.port.postMessage(data, [data]);
      else this.#take(JSON.parse(data), microphone);
    };
    socket.onclose = ({ code, reason }) => this.#closed(code, reason);
    for (const track of this.#tracks) {
      this.#listen(track, "ended", () => this.#finish("microphone_lost", ""));
    }
    // A phone call or another tab may interrupt the sound; the call goes on behind it.
    this.#listen(context, "statechange", () => {
      if (context.state === "suspended") void context.resume();
    });
  }

  #addMicrophone(context: AudioContext, stream: MediaStream, socket: WebSocket): AudioWorkletNode {
    const node = this.#node(context, "microphone", 0);
    node.port.onmessage = ({ data: { frame, level } }: MessageEvent<OfMicrophone>) => {
      this.levels.microphone = level;
      if (frame !== null && socket.readyState === WebSocket.OPEN) socket.send(frame);
    };
    const source = context.createMediaStreamSource(stream);
    source.connect(node);
    this.#keep(() => source.disconnect());
    return node;
  }

  #addSpeaker(context: AudioContext): AudioWorkletNode {
    const node = this.#node(context, "speaker", 1);
    node.port.onmessage = ({ data }: MessageEvent<OfSpeaker>) => {
      if (data.type !== "gauge") {
        this.#say(data);
        return;
      }
      this.levels.speaker = data.level;
      if (this.#gauges++ % GAUGES !== 0) return;
      this.#measureLatency(context, node);
      const { queuedMs, targetMs, late, underruns } = data;
      const outputMs = this.#latency * 1000;
      this.#change({ line: { queuedMs, targetMs, late, underruns, outputMs } });
    };
    node.connect(context.destination);
    return node;
  }

  #node(context: AudioContext, name: string, numberOfOutputs: 0 | 1): AudioWorkletNode {
    const processorOptions: WorkletOptions = { format: this.#sound.format };
    const node = new AudioWorkletNode(context, name, {
      numberOfInputs: 1 - numberOfOutputs,
      numberOfOutputs,
      ...(numberOfOutputs === 1 ? { outputChannelCount: [1] } : {}),
      processorOptions,
    });
    this.#listen(node, "processorerror", () => this.#finish("audio_failed", ""));
    this.#keep(() => {
      node.port.onmessage = null;
      node.disconnect();
    });
    return node;
  }

  #measureLatency(context: AudioContext, speaker: AudioWorkletNode): void {
    const seconds = context.baseLatency + (context.outputLatency || 0); // Safari has none
    if (Math.abs(seconds - this.#latency) < LATENCY_STEP) return;
    this.#latency = seconds;
    speaker.port.postMessage({ type: "latency", seconds } satisfies ToSpeaker);
  }

  #take(message: OfEngine, microphone: AudioWorkletNode): void {
    if (message.type === "ready") {
      microphone.port.postMessage("begin");
      this.#change({ phase: "live", since: performance.now() });
    } else if (message.type === "ended") {
      this.#reason = message.reason;
    } else if (message.type === "keys") {
      this.#change({ received: this.#view.received + message.keys });
    } else {
      this.#speaker?.port.postMessage(message);
    }
  }

  #closed(code: number, said: string): void {
    if (this.#reason) this.#finish(this.#reason, "");
    else this.#finish(code === 1006 ? "lost" : `closed:${code}`, said);
  }

  #say(message: OfPage): void {
    if (this.#socket?.readyState === WebSocket.OPEN) this.#socket.send(JSON.stringify(message));
  }

  /** Note how to release a part; if the call is over by now, release it at once. */
  #keep(undo: () => void): void {
    if (this.#view.phase === "ended") {
      undo();
      throw new Left();
    }
    this.#undo.push(undo);
  }

  #listen(target: EventTarget, event: string, listener: () => void): void {
    target.addEventListener(event, listener);
    this.#keep(() => target.removeEventListener(event, listener));
  }

  #finish(why: string, said: string): void {
    if (this.#view.phase === "ended") return;
    const { late, outputMs } = this.#view.line;
    this.#say({ type: "stats", output_ms: outputMs, late });
    for (const undo of this.#undo.splice(0).reverse()) undo();
    this.levels.microphone = this.levels.speaker = 0;
    const { since } = this.#view;
    const lastedMs = since > 0 ? performance.now() - since : 0;
    this.#view = { ...this.#view, phase: "ended", lastedMs, end: { why, said } };
    this.#tell();
  }

  /** Throws `Left` if the call is over. */
  #change(change: Partial<CallView>): void {
    if (this.#view.phase === "ended") throw new Left();
    this.#view = { ...this.#view, ...change };
    this.#tell();
  }

  #tell(): void {
    for (const listener of this.#listeners) listener();
  }
}

function whyOf(error: unknown): string {
  return error instanceof DOMException ? error.name : "refused";
}

function saidBy(error: unknown): string {
  return error instanceof Error && !(error instanceof DOMException) ? error.message : "";
}
