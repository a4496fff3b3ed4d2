// Hooks of the live feed. All pages of a tab share one websocket.
import { useQueryClient } from "@tanstack/react-query";
import {
  createContext,
  createElement,
  type ReactNode,
  useContext,
  useEffect,
  useEffectEvent,
  useState,
  useSyncExternalStore,
} from "react";

import { keyOf } from "./api.ts";
import { type LiveRow, type Rows, takeRows } from "./live-calls.ts";
import { type LiveFrame, LiveSocket, type TopicOf, type TopicState } from "./live-socket.ts";

export type { LiveFrame, LiveRow, TopicOf, TopicState };

const PROTOCOL = "cordboard.live.v1";
const START: TopicState = { state: "connecting", since: 0, message: "" };

/** The live calls; the feed is followed while anybody looks. */
class CallsStore {
  readonly #socket: LiveSocket;
  readonly #lookers = new Set<() => void>();
  #end: (() => void) | null = null;
  #rows: Rows = new Map();
  #shown: LiveCalls = { rows: [], known: false, ...START };

  constructor(socket: LiveSocket) {
    this.#socket = socket;
  }

  readonly subscribe = (looker: () => void): (() => void) => {
    this.#lookers.add(looker);
    this.#end ??= this.#socket.subscribe(
      { topic: "calls" },
      {
        frame: (frame) => {
          const rows = takeRows(this.#rows, frame);
          if (rows === this.#rows) return;
          this.#rows = rows;
          this.#show({ ...this.#shown, rows: [...rows.values()], known: true });
        },
        state: (state) => this.#show({ ...this.#shown, ...state }),
      },
    );
    return () => {
      this.#lookers.delete(looker);
      if (this.#lookers.size > 0) return;
      this.#end?.();
      this.#end = null;
    };
  };

  readonly current = (): LiveCalls => this.#shown;

  #show(shown: LiveCalls): void {
    this.#shown = shown;
    for (const each of this.#lookers) each();
  }
}

export interface LiveCalls extends TopicState {
  /** The oldest first. */
  rows: readonly LiveRow[];
  /** False before the first frame: there may be calls. */
  known: boolean;
}

const Context = createContext<{ socket: LiveSocket; calls: CallsStore } | null>(null);

/** Gives the tab's socket to all that is inside. After a new sign-in it connects again. */
export function LiveProvider(props: { signedIn: boolean; children: ReactNode }) {
  const { signedIn, children } = props;
  const queries = useQueryClient();
  const [live] = useState(() => {
    const socket = new LiveSocket({
      open: (events) => {
        const socket = new WebSocket(address(), PROTOCOL);
        socket.onopen = () => events.opened();
        socket.onmessage = ({ data }) => events.message(String(data));
        socket.onclose = ({ code }) => events.closed(code);
        return {
          // The last pages take their topics back while it closes.
          send: (text) => socket.readyState === WebSocket.OPEN && socket.send(text),
          close: () => socket.close(),
        };
      },
      now: () => Date.now(),
      later: (ms, then) => {
        const timer = setTimeout(then, ms);
        return () => clearTimeout(timer);
      },
      sessionChanged: () => void queries.invalidateQueries({ queryKey: keyOf("/api/v1/session") }),
    });
    return { socket, calls: new CallsStore(socket) };
  });
  useEffect(() => {
    if (!signedIn) return;
    const hurry = () => live.socket.hurry();
    hurry();
    window.addEventListener("online", hurry);
    document.addEventListener("visibilitychange", hurry);
    return () => {
      window.removeEventListener("online", hurry);
      document.removeEventListener("visibilitychange", hurry);
    };
  }, [live, signedIn]);
  return createElement(Context, { value: live }, children);
}

function address(): string {
  return `${window.location.origin.replace(/^http/, "ws")}/api/v1/live`;
}

function useLive() {
  const live = useContext(Context);
  if (live === null) throw new Error("the live feed needs a signed-in person");
  return live;
}

/** The live calls, as they change: at most four times a second. */
export function useLiveCalls(): LiveCalls {
  const { calls } = useLive();
  return useSyncExternalStore(calls.subscribe, calls.current);
}

export interface Topic extends TopicState {
  /** The newest whole state, of the topics that have one (`engine`, `mcp`, `alarms`). */
  snapshot: LiveFrame["snapshot"];
}

/** True if an answer of a query came after the feed of a topic was cut off: it counts instead. */
export const isNewer = ({ dataUpdatedAt }: { dataUpdatedAt: number }, topic: TopicState) =>
  topic.state === "stale" && dataUpdatedAt > topic.since;

/**
 * Follows a topic while the component is shown; null follows none. `onFrame` gets each frame, such
 * as those of `call` and `log`, which have no whole state; after a frame with `restart` everything
 * before it is to be forgotten.
 */
export function useTopic(topic: TopicOf | null, onFrame?: (frame: LiveFrame) => void): Topic {
  const { socket } = useLive();
  const [shown, setShown] = useState<Topic>({ ...START, snapshot: null });
  const key = JSON.stringify(topic);
  const take = useEffectEvent((frame: LiveFrame) => onFrame?.(frame));
  useEffect(() => {
    const wanted: TopicOf | null = JSON.parse(key);
    setShown({ ...START, snapshot: null });
    if (wanted === null) return;
    return socket.subscribe(wanted, {
      frame: (frame) => {
        const { snapshot } = frame;
        if (snapshot) setShown((before) => ({ ...before, snapshot }));
        take(frame);
      },
      state: (state) => setShown((before) => ({ ...before, ...state })),
    });
  }, [socket, key]);
  return shown;
}
