// A written conversation that tests an agent. Messages typed while an answer streams wait for its
// end, because the engine answers one at a time.
import type { components } from "../../api/generated.ts";
import {
  answered,
  type Conversation,
  NOTHING_YET,
  text,
  withChatEvent,
  withLines,
} from "../../conversation/conversation.ts";
import { ServerEvents } from "./server-events.ts";

type ChatBegun = components["schemas"]["ChatBegun"];
/** A message, a yes or no, or neither: the greeting alone. */
export type Message = Partial<components["schemas"]["ChatMessage"]>;

/** The engine, as far as a conversation needs it. Each may throw. */
export interface Desk {
  begin(): Promise<ChatBegun>;
  /** Return the stream of the answer. */
  answer(chat: string, message: Message, signal: AbortSignal): Promise<ReadableStream<Uint8Array>>;
  end(chat: string): Promise<unknown>;
}

/** Waits for the answer to one message, in ms. */
export interface Took {
  readonly firstMs: number | null;
  readonly wholeMs: number;
}

export interface WrittenView {
  readonly phase: "beginning" | "answering" | "open" | "approval" | "ended" | "failed";
  readonly begun: ChatBegun | null;
  readonly conversation: Conversation;
  /** Messages that wait for the end of the answer. */
  readonly waiting: readonly string[];
  readonly took: Took | null;
  /** The engine's reason of the end. */
  readonly reason: string;
  /** Why it could not begin, or go on. */
  readonly error: Error | null;
}

export class WrittenTest {
  readonly #desk: Desk;
  readonly #now: () => number;
  readonly #listeners = new Set<() => void>();
  #view: WrittenView = {
    phase: "beginning",
    begun: null,
    conversation: NOTHING_YET,
    waiting: [],
    took: null,
    reason: "",
    error: null,
  };
  #stop = new AbortController();
  #left = false;

  /** Begins at once, with the greeting. `now`: a clock in ms. */
  constructor(desk: Desk, now = () => performance.now()) {
    this.#desk = desk;
    this.#now = now;
    void this.#begin();
  }

  get view(): WrittenView {
    return this.#view;
  }

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  /** Send a message, now or after the answer that streams. */
  say(message: string): void {
    const { phase, waiting } = this.#view;
    if (phase === "open" || phase === "approval") void this.#ask({ message });
    else if (phase !== "ended") this.#change({ waiting: [...waiting, message] });
  }

  /** Answer the question that is open. */
  approve(approve: boolean): void {
    if (this.#view.phase === "approval") void this.#ask({ approve });
  }

  /** Drop the rest of the answer. */
  stop(): void {
    this.#stop.abort();
  }

  /** End the conversation. Idempotent. */
  leave(): void {
    if (this.#left) return;
    this.#left = true;
    this.#stop.abort();
    if (this.#view.phase === "ended") return;
    this.#end();
    this.#change({ phase: "ended", waiting: [] });
  }

  #end(): void {
    // Its trial may be over by now, and it too: then the engine refuses, and nothing is left to do.
    const { begun } = this.#view;
    if (begun) this.#desk.end(begun.chat).catch(() => undefined);
  }

  async #begin(): Promise<void> {
    try {
      const begun = await this.#desk.begin();
      this.#view = { ...this.#view, begun };
    } catch (error) {
      if (!this.#left) this.#change({ phase: "failed", error: asError(error) });
      return;
    }
    if (this.#left) this.#end();
    else await this.#ask({});
  }

  async #ask(message: Message): Promise<void> {
    const { begun } = this.#view;
    if (begun === null) return;
    this.#stop = new AbortController();
    const conversation = withMessage(this.#view.conversation, message);
    this.#change({ phase: "answering", conversation, took: null, error: null });
    const asked = this.#now();
    try {
      const stream = await this.#desk.answer(begun.chat, message, this.#stop.signal);
      await this.#read(stream, asked);
    } catch (error) {
      if (!this.#stop.signal.aborted) this.#change({ error: asError(error) });
    }
    if (this.#left) return;
    if (this.#view.phase === "answering") this.#change({ phase: "open" });
    const [next, ...waiting] = this.#view.waiting;
    if (next === undefined || this.#view.phase === "ended") return;
    this.#change({ waiting });
    await this.#ask({ message: next });
  }

  async #read(stream: ReadableStream<Uint8Array>, asked: number): Promise<void> {
    const events = new ServerEvents();
    const decoder = new TextDecoder();
    const reader = stream.getReader();
    let firstMs: number | null = null;
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      for (const { event, data } of events.take(decoder.decode(value, { stream: true }))) {
        const fields = JSON.parse(data);
        if (event === "token") firstMs ??= this.#now() - asked;
        if (event === "done") this.#done(fields, { firstMs, wholeMs: this.#now() - asked });
        else {
          const conversation = withChatEvent(this.#view.conversation, event, fields);
          this.#change({ conversation });
        }
      }
    }
  }

  #done(fields: Record<string, unknown>, took: Took): void {
    const phase = fields.state === "ended" || fields.state === "approval" ? fields.state : "open";
    this.#change({ phase, took, reason: text(fields.reason) });
  }

  #change(change: Partial<WrittenView>): void {
    this.#view = { ...this.#view, ...change };
    for (const listener of this.#listeners) listener();
  }
}

function withMessage(before: Conversation, { message, approve }: Message): Conversation {
  if (typeof approve === "boolean") return answered(before, approve ? "yes" : "no");
  return message ? withLines(before, [{ type: "caller.text", text: message }]) : before;
}

function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error));
}
