// The live feed's websocket: one for each tab, with all topics that its pages show. It connects
// again by itself, and goes on where it was cut off. Frames: docs/admin-live.md.
import type { components } from "../api/generated.ts";

export type LiveFrame = components["schemas"]["LiveFrame"];

export interface TopicOf {
  topic: "calls" | "call" | "engine" | "mcp" | "alarms" | "log";
  /** Topic `call`: the call's id; topic `log`: only that call's lines. */
  call?: string;
  from_ms?: number;
  level?: "debug" | "info" | "warning" | "error";
}

/**
 * How a topic stands: `since` is when it came into that state, ms since 1970. It is `connecting`
 * until the first frame, or until the second failure to connect, and `stale` while it is cut off.
 */
export interface TopicState {
  state: "connecting" | "live" | "stale" | "refused" | "over";
  since: number;
  /** The engine's sentence, of `refused`. */
  message: string;
}

export interface Listener {
  frame(frame: LiveFrame): void;
  state(state: TopicState): void;
}

/** One connection. */
export interface Socket {
  send(text: string): void;
  close(): void;
}

/** What a connection tells. */
export interface SocketEvents {
  opened(): void;
  message(text: string): void;
  closed(code: number): void;
}

export interface Surroundings {
  open(events: SocketEvents): Socket;
  now(): number;
  /** Calls `then` after a time; returns how to call that off. */
  later(ms: number, then: () => void): () => void;
  /** Called when the session is over, its rights are others, or the handshake is refused. */
  sessionChanged(): void;
}

interface Subscription {
  id: number;
  topic: TopicOf;
  listener: Listener;
  /** Number of the last frame, for topics that go on without a gap. */
  seq: number;
  state: TopicState;
}

const SESSION_OVER = 4401;
const RIGHTS_CHANGED = 4403;
const LONGEST_WAIT_MS = 10_000;
// The topic `engine` has a frame each second, so a silent socket with it is a dead one: a laptop
// that slept, a network that changed.
const SILENCE_MS = 15_000;

export class LiveSocket {
  readonly #around: Surroundings;
  readonly #topics = new Map<number, Subscription>();
  #socket: Socket | null = null;
  #open = false;
  #lastId = 0;
  #connections = 0;
  #failures = 0;
  #heard = 0;
  #callOff: (() => void) | null = null;
  #stopWatching: (() => void) | null = null;

  constructor(around: Surroundings) {
    this.#around = around;
  }

  /** Follows a topic, until the returned function is called. */
  subscribe(topic: TopicOf, listener: Listener): () => void {
    const id = ++this.#lastId;
    const state: TopicState = { state: "connecting", since: this.#around.now(), message: "" };
    const subscription = { id, topic, listener, seq: 0, state };
    this.#topics.set(id, subscription);
    if (this.#open) this.#ask(subscription);
    else this.#connect();
    return () => {
      if (this.#topics.delete(id) && this.#open) this.#send({ op: "unsubscribe", id });
    };
  }

  /**
   * Connects at once if it is cut off: the browser is online again, or someone has signed in after
   * the session ended.
   */
  hurry(): void {
    this.#callOff?.();
    this.#callOff = null;
    this.#connect();
  }

  /** Ends it for good. */
  close(): void {
    this.#topics.clear();
    this.#drop();
  }

  #connect(): void {
    if (this.#socket !== null || this.#callOff !== null || this.#topics.size === 0) return;
    // A connection that was dropped may still say something.
    const number = ++this.#connections;
    const current = () => number === this.#connections;
    this.#socket = this.#around.open({
      opened: () => current() && this.#opened(),
      message: (text) => current() && this.#take(JSON.parse(text) as LiveFrame),
      closed: (code) => current() && this.#closed(code),
    });
  }

  #opened(): void {
    this.#open = true;
    this.#heard = this.#around.now();
    this.#watch();
    for (const each of this.#topics.values()) this.#ask(each);
  }

  #take(frame: LiveFrame): void {
    this.#heard = this.#around.now();
    this.#failures = 0;
    const topic = frame.id === null ? undefined : this.#topics.get(frame.id);
    if (topic === undefined) return; // it was given up while the frame was on its way
    if (frame.error) {
      this.#stand(topic, "refused", frame.error.message ?? "");
      return;
    }
    topic.seq = frame.seq ?? topic.seq;
    this.#stand(topic, frame.over ? "over" : "live");
    topic.listener.frame(frame);
  }

  #closed(code: number): void {
    const wasOpen = this.#open;
    this.#drop();
    for (const each of this.#topics.values()) {
      const { state } = each.state;
      // One failure may be an engine that is just starting.
      const givenUp = state === "connecting" && this.#failures > 0;
      if (state === "live" || givenUp) this.#stand(each, "stale");
      // With other rights it may be allowed.
      if (state === "refused" && code === RIGHTS_CHANGED) this.#stand(each, "connecting");
    }
    const isOther = code === SESSION_OVER || code === RIGHTS_CHANGED;
    if (isOther || !wasOpen) this.#around.sessionChanged();
    if (code === SESSION_OVER) return;
    const wait = code === RIGHTS_CHANGED ? 0 : Math.min(500 * 2 ** this.#failures, LONGEST_WAIT_MS);
    this.#failures += 1;
    this.#callOff = this.#around.later(wait, () => {
      this.#callOff = null;
      this.#connect();
    });
  }

  #drop(): void {
    const socket = this.#socket;
    this.#socket = null;
    this.#open = false;
    this.#stopWatching?.();
    this.#stopWatching = null;
    this.#callOff?.();
    this.#callOff = null;
    this.#connections += 1;
    socket?.close();
  }

  #watch(): void {
    this.#stopWatching = this.#around.later(SILENCE_MS, () => {
      const speaks = [...this.#topics.values()].some((each) => each.topic.topic === "engine");
      if (speaks && this.#around.now() - this.#heard >= SILENCE_MS) this.#closed(0);
      else this.#watch();
    });
  }

  #ask({ id, topic, seq, state }: Subscription): void {
    if (state.state === "over" || state.state === "refused") return;
    const goesOn = topic.topic === "call" || topic.topic === "log";
    this.#send({ op: "subscribe", id, ...topic, ...(goesOn && { after: seq }) });
  }

  #send(frame: object): void {
    this.#socket?.send(JSON.stringify(frame));
  }

  #stand(topic: Subscription, state: TopicState["state"], message = ""): void {
    if (topic.state.state === state) return;
    topic.state = { state, since: this.#around.now(), message };
    topic.listener.state(topic.state);
  }
}
