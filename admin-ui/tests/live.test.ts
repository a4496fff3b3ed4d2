// The live feed: rows from frames, and a socket that goes on where it was cut off.
import { describe, expect, it } from "vitest";

import { callsOnOthers, type LiveRow, type Rows, takeRows } from "../src/app/live-calls.ts";
import { type LiveFrame, LiveSocket, type SocketEvents } from "../src/app/live-socket.ts";

const row = (call_id: string, more: Partial<LiveRow> = {}) =>
  ({ call_id, turn: 0, ...more }) as LiveRow;
const frame = (fields: Partial<LiveFrame>) => ({ id: 1, ...fields }) as LiveFrame;

describe("rows", () => {
  const start = takeRows(new Map(), frame({ snapshot: [row("a"), row("b")] }));

  it("change by field, and the others stay the same objects", () => {
    const after = takeRows(start, frame({ rows: [{ call_id: "b", turn: 2 }] }));
    expect([...after.values()]).toEqual([row("a"), row("b", { turn: 2 })]);
    expect(after.get("a")).toBe(start.get("a"));
    expect(start.get("b")?.turn).toBe(0);
  });

  it("come and go in the order of the calls", () => {
    const came = takeRows(start, frame({ rows: [{ ...row("c") }], gone: ["a"] }));
    expect([...came.keys()]).toEqual(["b", "c"]);
  });

  it("stay if the call ended elsewhere and has a row again in the same frame", () => {
    const moved = takeRows(start, frame({ rows: [{ ...row("a", { turn: 5 }) }], gone: ["a"] }));
    expect(moved.get("a")).toEqual(row("a", { turn: 5 }));
    const after = takeRows(moved, frame({ rows: [{ call_id: "a", turn: 6 }] }));
    expect(after.get("a")).toEqual(row("a", { turn: 6 }));
  });

  it("are forgotten at a restart, and are the same map if nothing changed", () => {
    const again: Rows = takeRows(start, frame({ snapshot: [row("z")], restart: true }));
    expect([...again.keys()]).toEqual(["z"]);
    expect(takeRows(start, frame({ rows: [], gone: [] }))).toBe(start);
  });
});

it("counts the own calls that began on another configuration", () => {
  const began = { node: "a", config: "c7", test: false };
  const rows = [
    row("1", began),
    row("2", { ...began, config: "b2" }),
    row("3", { ...began, config: "b2", node: "b" }),
    row("4", { ...began, config: "b2", test: true }),
    row("5", { ...began, config: "" }),
  ];
  expect(callsOnOthers(rows, "a", "c7e1")).toBe(1);
  expect(callsOnOthers([row("6", { ...began, node: "", config: "b2" })], "", "c7e1")).toBe(1);
});

class Engine {
  now = 0;
  asked = 0;
  readonly lines: { sent: object[]; events: SocketEvents; closed: boolean }[] = [];
  #timers: { at: number; then: () => void }[] = [];
  readonly socket = new LiveSocket({
    open: (events) => {
      const line = { sent: [] as object[], events, closed: false };
      this.lines.push(line);
      return {
        send: (text) => void line.sent.push(JSON.parse(text)),
        close: () => {
          line.closed = true;
        },
      };
    },
    now: () => this.now,
    later: (ms, then) => {
      const timer = { at: this.now + ms, then };
      this.#timers.push(timer);
      return () => {
        this.#timers = this.#timers.filter((each) => each !== timer);
      };
    },
    sessionChanged: () => {
      this.asked += 1;
    },
  });

  get line() {
    const last = this.lines.at(-1);
    if (last === undefined) throw new Error("no connection was opened");
    return last;
  }

  says(fields: Partial<LiveFrame>) {
    this.line.events.message(JSON.stringify(frame(fields)));
  }

  waits(ms: number) {
    const until = this.now + ms;
    for (;;) {
      const next = this.#timers.filter(({ at }) => at <= until).sort((a, b) => a.at - b.at)[0];
      if (next === undefined) break;
      this.#timers = this.#timers.filter((each) => each !== next);
      this.now = next.at;
      next.then();
    }
    this.now = until;
  }

  follow(topic: Parameters<LiveSocket["subscribe"]>[0]) {
    const told: string[] = [];
    const end = this.socket.subscribe(topic, {
      frame: (each) => told.push(`frame ${each.seq}`),
      state: ({ state, since, message }) => told.push([state, since, message].join(" ").trim()),
    });
    return { told, end };
  }
}

describe("the socket", () => {
  it("carries all topics, and is opened once", () => {
    const engine = new Engine();
    engine.follow({ topic: "calls" });
    const { end } = engine.follow({ topic: "log", level: "warning" });
    engine.line.events.opened();
    engine.follow({ topic: "engine" });
    end();
    expect(engine.lines).toHaveLength(1);
    expect(engine.line.sent).toEqual([
      { op: "subscribe", id: 1, topic: "calls" },
      { op: "subscribe", id: 2, topic: "log", level: "warning", after: 0 },
      { op: "subscribe", id: 3, topic: "engine" },
      { op: "unsubscribe", id: 2 },
    ]);
  });

  it("goes on with a call after the last event that came", () => {
    const engine = new Engine();
    const { told } = engine.follow({ topic: "call", call: "c1" });
    engine.line.events.opened();
    engine.says({ seq: 41 });
    engine.now = 100;
    engine.line.events.closed(1006);
    engine.waits(500);
    engine.line.events.opened();
    expect(engine.line.sent).toEqual([
      { op: "subscribe", id: 1, topic: "call", call: "c1", after: 41 },
    ]);
    engine.says({ seq: 44 });
    expect(told).toEqual(["live 0", "frame 41", "stale 100", "live 600", "frame 44"]);
  });

  it("is no more connecting after the second failure, and live once it is open", () => {
    const engine = new Engine();
    const { told } = engine.follow({ topic: "calls" });
    engine.now = 100;
    engine.line.events.closed(1006);
    expect(told).toEqual([]);
    engine.waits(500);
    engine.line.events.closed(1006);
    expect(told).toEqual(["stale 600"]);
    engine.waits(1_000);
    engine.line.events.opened();
    engine.says({ seq: 1, snapshot: [] });
    expect(told).toEqual(["stale 600", "live 1600", "frame 1"]);
    expect(engine.line.sent).toEqual([{ op: "subscribe", id: 1, topic: "calls" }]);
  });

  it("waits longer after each failure, and not at all when told to hurry", () => {
    const engine = new Engine();
    engine.follow({ topic: "calls" });
    for (const wait of [500, 1_000, 2_000, 4_000, 8_000, 10_000, 10_000]) {
      const before = engine.lines.length;
      engine.line.events.closed(1006);
      engine.waits(wait - 1);
      expect(engine.lines).toHaveLength(before);
      engine.waits(1);
      expect(engine.lines).toHaveLength(before + 1);
    }
    engine.line.events.closed(1006);
    const before = engine.lines.length;
    engine.socket.hurry();
    expect(engine.lines).toHaveLength(before + 1);
    engine.waits(60_000);
    expect(engine.lines).toHaveLength(before + 1);
  });

  it("asks who is signed in when the session ended or the handshake was refused", () => {
    const engine = new Engine();
    engine.follow({ topic: "calls" });
    engine.line.events.closed(1006);
    expect(engine.asked).toBe(1);
    engine.waits(500);
    engine.line.events.opened();
    engine.line.events.closed(4401);
    expect(engine.asked).toBe(2);
    engine.waits(60_000);
    expect(engine.lines).toHaveLength(2);
    engine.socket.hurry(); // someone has signed in
    expect(engine.lines).toHaveLength(3);
  });

  it("does not repeat what was refused, nor a call that is over", () => {
    const engine = new Engine();
    const refused = engine.follow({ topic: "call", call: "gone" });
    const over = engine.follow({ topic: "call", call: "c1" });
    engine.line.events.opened();
    engine.says({ id: 1, error: { code: "not_there", message: "there is no such live call" } });
    engine.says({ id: 2, seq: 9, over: true });
    engine.line.events.closed(1006);
    engine.waits(500);
    engine.line.events.opened();
    expect(engine.line.sent).toEqual([]);
    expect(refused.told).toEqual(["refused 0 there is no such live call"]);
    expect(over.told).toEqual(["over 0", "frame 9"]);
  });

  it("asks for the person's rights when they have changed, and again for what was refused", () => {
    const engine = new Engine();
    const { told } = engine.follow({ topic: "log" });
    engine.line.events.opened();
    engine.says({ error: { code: "forbidden", message: "needs the permission log" } });
    engine.line.events.closed(4403);
    expect(engine.asked).toBe(1);
    engine.waits(0);
    engine.line.events.opened();
    expect(engine.line.sent).toEqual([{ op: "subscribe", id: 1, topic: "log", after: 0 }]);
    engine.says({ seq: 1 });
    expect(told).toEqual([
      "refused 0 needs the permission log",
      "connecting 0",
      "live 0",
      "frame 1",
    ]);
  });

  it("notices that nothing comes any more where something should", () => {
    const engine = new Engine();
    const { told } = engine.follow({ topic: "engine" });
    engine.line.events.opened();
    engine.says({ seq: 1 });
    engine.waits(15_500);
    expect(engine.lines[0]?.closed).toBe(true);
    expect(engine.lines).toHaveLength(2);
    engine.lines[0]?.events.message(JSON.stringify(frame({ seq: 2 })));
    expect(told).toEqual(["live 0", "frame 1", "stale 15000"]);
  });
});
