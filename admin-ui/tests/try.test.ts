// The page Try: its address, and a written conversation.
import { describe, expect, test } from "vitest";

import type { Fields } from "../src/conversation/conversation.ts";
import { search, variablesOf } from "../src/pages/try/search.ts";
import { ServerEvents } from "../src/pages/try/server-events.ts";
import { subjectOf, toolsIn, variablesIn } from "../src/pages/try/subject.ts";
import { type Desk, WrittenTest } from "../src/pages/try/written-test.ts";

test("an address keeps what makes sense", () => {
  const set = ["ORDER=A-17", "=x", "LANG=a=b"];
  const raw = {
    mode: "call",
    draft: "d1",
    version: "c7f3",
    tools: "all",
    via: "sip",
    number: 4711,
    set,
  };
  expect(search(raw)).toEqual({ mode: "call", draft: "d1", number: "4711", set: [set[0], set[2]] });
  expect(variablesOf([...set], ["LANG"])).toEqual({ LANG: "a=b" });
});

test("what can be chosen is read from any tree, in order or not", () => {
  const desk = { variables: ["ORDER", 3], tools: ["hangup_call", "orders_*"] };
  const tree = { contexts: { desk, other: null }, default_context: "gone", providers: [1] };
  expect(subjectOf(tree)).toMatchObject({ contexts: ["desk", "other"], usual: "desk" });
  expect(variablesIn(tree, "desk")).toEqual(["ORDER"]);
  expect(toolsIn(tree, "desk")).toEqual(["hangup_call"]);
  expect(toolsIn(tree, "other")).toEqual([]);
  expect(subjectOf({}).usual).toBe("");
});

test("server-sent events are whole, however the network cuts them", () => {
  const stream =
    'event: token\r\ndata: {"a":1}\r\n\r\n: still here\n\ndata: x\ndata: y\n\nevent: done\n';
  for (let size = 1; size < stream.length; size++) {
    const events = new ServerEvents();
    const found = [];
    for (let at = 0; at < stream.length; at += size) {
      found.push(...events.take(stream.slice(at, at + size)));
    }
    expect(found).toEqual([
      { event: "token", data: '{"a":1}' },
      { event: "message", data: "x\ny" },
    ]);
  }
});

/** An engine whose answers a test writes. */
class Engine implements Desk {
  readonly asked: unknown[] = [];
  readonly ended: string[] = [];
  #answer: ReadableStreamDefaultController<Uint8Array> | null = null;
  #signal: AbortSignal | null = null;

  async begin() {
    return {
      ...{ chat: "chat-1", context: "desk", provider: "local", model: "rules", notice: "" },
      ...{ tools: [], missing_tools: [], version: "", trial: "" },
    };
  }

  async answer(_: string, message: object, signal: AbortSignal) {
    this.asked.push(message);
    this.#signal = signal;
    return new ReadableStream<Uint8Array>({
      start: (answer) => {
        this.#answer = answer;
        signal.addEventListener("abort", () => answer.error(new Error("aborted")));
      },
    });
  }

  async end(chat: string) {
    this.ended.push(chat);
  }

  /** Send events; `done` ends the answer. */
  async say(event: string, fields: Fields): Promise<void> {
    const frame = `event: ${event}\ndata: ${JSON.stringify(fields)}\n\n`;
    this.#answer?.enqueue(new TextEncoder().encode(frame));
    if (event === "done") this.#answer?.close();
    await settled();
  }

  get stopped(): boolean {
    return this.#signal?.aborted === true;
  }
}

/** Let everything run that waits for nothing. */
async function settled(): Promise<void> {
  for (let round = 0; round < 50; round++) await Promise.resolve();
}

async function begun() {
  const engine = new Engine();
  const chat = new WrittenTest(engine, () => 0);
  await settled();
  await engine.say("token", { turn: 0, text: "Good" });
  await engine.say("token", { turn: 0, text: " day." });
  return { engine, chat };
}

describe("a written conversation", () => {
  test("begins with the greeting, and sends what was typed meanwhile one by one", async () => {
    const { engine, chat } = await begun();
    chat.say("first");
    chat.say("second");
    expect(chat.view).toMatchObject({ phase: "answering", waiting: ["first", "second"] });
    expect(engine.asked).toEqual([{}]);
    await engine.say("done", { state: "open" });
    expect(engine.asked).toEqual([{}, { message: "first" }]);
    await engine.say("done", { state: "open" });
    expect(engine.asked.at(-1)).toEqual({ message: "second" });
    expect(chat.view.conversation.items).toMatchObject([
      { kind: "agent", text: "Good day." },
      { kind: "caller", text: "first" },
      { kind: "caller", text: "second" },
    ]);
  });

  test("a question is answered by a button, and ends with its tool", async () => {
    const { engine, chat } = await begun();
    await engine.say("tool_call", { ask_id: "1", name: "pay", arguments: {} });
    await engine.say("approval", { question: "Shall I?" });
    await engine.say("done", { state: "approval" });
    expect(chat.view.phase).toBe("approval");
    chat.approve(true);
    await engine.say("tool_result", { ask_id: "1", status: "ok", message: "Paid." });
    await engine.say("done", { state: "ended", reason: "agent_hangup" });
    expect(engine.asked.at(-1)).toEqual({ approve: true });
    expect(chat.view).toMatchObject({ phase: "ended", reason: "agent_hangup" });
    expect(chat.view.conversation.items).toMatchObject([
      {},
      { kind: "tool", status: "ok" },
      { kind: "approval", answer: "yes" },
    ]);
    chat.leave();
    expect(engine.ended).toEqual([]);
  });

  test("an answer that is stopped leaves the conversation open", async () => {
    const { engine, chat } = await begun();
    chat.stop();
    await settled();
    expect(engine.stopped).toBe(true);
    expect(chat.view).toMatchObject({ phase: "open", error: null });
  });

  test("leaving stops the answer and ends the conversation, once", async () => {
    const { engine, chat } = await begun();
    chat.leave();
    chat.leave();
    await settled();
    expect(engine.stopped).toBe(true);
    expect(engine.ended).toEqual(["chat-1"]);
    expect(chat.view.phase).toBe("ended");
  });

  test("a refusal is shown, and one that is left while it begins is ended", async () => {
    const refusing = new Engine();
    refusing.begin = () => Promise.reject(new Error("busy with calls"));
    const refused = new WrittenTest(refusing);
    const engine = new Engine();
    const left = new WrittenTest(engine);
    left.leave();
    await settled();
    expect(refused.view).toMatchObject({ phase: "failed", error: { message: "busy with calls" } });
    expect(engine.ended).toEqual(["chat-1"]);
    expect(engine.asked).toEqual([]);
  });
});
