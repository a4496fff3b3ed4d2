// Plays the sound of a call and says where it is. The picture and the transcript ask it in each
// frame; React renders only when the player's state changes, not as the sound moves on.
import { useSyncExternalStore } from "react";

import type { Span } from "./axis.ts";
import type { Side } from "./peaks.ts";

export const RATES = [0.75, 1, 1.25, 1.5, 2] as const;

export interface PlayerState {
  readonly playing: boolean;
  readonly rate: number;
  readonly hears: Readonly<Record<Side, boolean>>;
  readonly skips: boolean;
  /** The sound cannot be loaded. */
  readonly failed: boolean;
}

/** `moved` is false only for the first call, which says where the player stands. */
type Follower = (time: number, moved: boolean) => void;

const START: PlayerState = {
  playing: false,
  rate: 1,
  hears: { caller: true, agent: true },
  skips: false,
  failed: false,
};

/** Times are ms since the offer. Without a source it is silent, and only keeps a position. */
export class Player {
  readonly #audio: HTMLAudioElement | null;
  readonly #address: string;
  /** Call time at which the recording begins. */
  readonly #began: number;
  readonly #followers = new Set<Follower>();
  readonly #lookers = new Set<() => void>();
  #state = START;
  #position: number;
  /** Where to begin once the sound is there; null: it is there, or nobody asked for it. */
  #wanted: number | null = null;
  #silences: readonly Span[] = [];
  #frame = 0;

  constructor(address: string, began: number, at: number) {
    this.#address = address;
    this.#began = began;
    this.#position = at;
    this.#audio = address ? this.#makeAudio() : null;
  }

  /** Begins to load the sound. */
  open(): void {
    this.#load();
  }

  get hasSound(): boolean {
    return this.#audio !== null;
  }

  /** The present position. */
  get time(): number {
    if (this.#wanted !== null) return this.#wanted;
    if (this.#audio === null || this.#audio.readyState === 0) return this.#position;
    return this.#began + this.#audio.currentTime * 1000;
  }

  readonly subscribe = (looker: () => void): (() => void) => {
    this.#lookers.add(looker);
    return () => this.#lookers.delete(looker);
  };

  readonly current = (): PlayerState => this.#state;

  /** Calls `follower` with the position: now, in each frame while it plays, and after a jump. */
  follow(follower: Follower): () => void {
    this.#followers.add(follower);
    follower(this.time, false);
    return () => this.#followers.delete(follower);
  }

  toggle(): void {
    const audio = this.#audio;
    if (audio === null) return;
    // While another source loads, the element is paused whatever was asked for.
    const playing = this.#wanted === null ? !audio.paused : this.#state.playing;
    if (!playing) {
      void this.#play();
      return;
    }
    audio.pause();
    this.#show({ playing: false });
  }

  async playFrom(time: number): Promise<void> {
    this.seek(time);
    await this.#play();
  }

  seek(time: number): void {
    this.#position = Math.max(0, time);
    if (this.#wanted !== null) {
      this.#wanted = this.#position;
    } else if (this.#audio !== null && this.#audio.readyState > 0) {
      this.#audio.currentTime = Math.max(0, (time - this.#began) / 1000);
    }
    this.#tell();
  }

  setRate(rate: number): void {
    if (this.#audio !== null) this.#audio.playbackRate = rate;
    this.#show({ rate });
  }

  setHears(side: Side, heard: boolean): void {
    this.#show({ hears: { ...this.#state.hears, [side]: heard } });
    this.#load();
  }

  setSkips(skips: boolean): void {
    this.#show({ skips });
  }

  /** What is left out while silence is skipped, in the order of time. */
  setSilences(silences: readonly Span[]): void {
    this.#silences = silences;
  }

  /** Stops and lets go of the sound; it can be opened again. */
  close(): void {
    cancelAnimationFrame(this.#frame);
    if (this.#audio === null) return;
    this.#position = this.time;
    this.#wanted = null;
    this.#audio.pause();
    this.#show({ playing: false });
    this.#audio.removeAttribute("src");
    this.#audio.load(); // ends the download
  }

  #makeAudio(): HTMLAudioElement {
    const audio = new Audio();
    audio.preload = "metadata";
    audio.onplay = () => {
      this.#show({ playing: true });
      this.#run();
    };
    audio.onpause = () => this.#show({ playing: false });
    audio.onended = () => this.#show({ playing: false });
    audio.onseeked = () => this.#tell();
    audio.onerror = () => this.#show({ failed: audio.hasAttribute("src"), playing: false });
    return audio;
  }

  /** The engine leaves out a side itself (`track`), so a change of sides is another file. */
  #load(): void {
    const audio = this.#audio;
    if (audio === null) return;
    const { caller, agent } = this.#state.hears;
    audio.muted = !caller && !agent;
    const track = caller === agent ? "both" : caller ? "caller" : "agent";
    const source = `${this.#address}?track=${track}`;
    if (audio.getAttribute("src") === source && !this.#state.failed) return;
    this.#wanted = this.time;
    if (this.#state.failed) this.#show({ failed: false });
    audio.src = source;
    audio.onloadedmetadata = () => {
      audio.playbackRate = this.#state.rate;
      const time = this.#wanted ?? this.#position;
      this.#wanted = null;
      this.seek(time);
      if (this.#state.playing) void this.#play();
    };
  }

  async #play(): Promise<void> {
    if (this.#audio === null) return;
    if (this.#state.failed) this.#load();
    try {
      await this.#audio.play();
    } catch (error) {
      // A pause or another source in the meantime is none of the listener's concern.
      if (!(error instanceof DOMException) || error.name !== "AbortError") {
        this.#show({ failed: true, playing: false });
      }
    }
  }

  #run(): void {
    cancelAnimationFrame(this.#frame);
    const step = () => {
      if (!this.#state.playing) return;
      this.#skip();
      this.#tell();
      this.#frame = requestAnimationFrame(step);
    };
    this.#frame = requestAnimationFrame(step);
  }

  #skip(): void {
    if (!this.#state.skips || this.#audio?.seeking) return;
    const time = this.time;
    const silence = this.#silences.find(({ from, to }) => from <= time && time < to - 50);
    if (silence) this.seek(silence.to);
  }

  #tell(): void {
    const time = this.time;
    this.#position = time;
    for (const each of this.#followers) each(time, true);
  }

  #show(changes: Partial<PlayerState>): void {
    this.#state = { ...this.#state, ...changes };
    for (const each of this.#lookers) each();
  }
}

export function usePlayerState(player: Player): PlayerState {
  return useSyncExternalStore(player.subscribe, player.current);
}
