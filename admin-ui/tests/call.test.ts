// The picture of one call: its axis, its shapes, its loudness.
import { afterEach, describe, expect, it, vi } from "vitest";
import { heardParts } from "../src/conversation/heard.ts";
import {
  type Axis,
  FOLD_ROOM,
  foldsBetween,
  following,
  makeAxis,
  makeScale,
  panned,
  placeOf,
  type Span,
  ticksOf,
  timeAt,
  timeOf,
  wholeView,
  xOf,
  zoomed,
} from "../src/pages/call/axis.ts";
import { contextLines } from "../src/pages/call/context-lines.ts";
import { boxOf, layoutOf, shapeAt } from "../src/pages/call/layout.ts";
import { ledgerLines } from "../src/pages/call/ledger.ts";
import { lineAt, linesOf } from "../src/pages/call/lines.ts";
import { loudness, TILE_MS, tilesOf, timedWords } from "../src/pages/call/peaks.ts";
import { Player } from "../src/pages/call/player.ts";
import { search } from "../src/pages/call/search.ts";
import {
  axisOf,
  type Call,
  endOf,
  type Shape,
  shapesOf,
  type Turn,
  troublesOf,
  waitsOf,
} from "../src/pages/call/timeline.ts";

/** The same numbers in each run, from 0 to 1. */
function* numbers(seed: number): Generator<number, never> {
  for (let state = seed; ; ) {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
    yield state / 2_147_483_648;
  }
}

/** A hundred calls of any length with any pauses. */
function* manyAxes(): Generator<[Axis, Span[], Generator<number, never>]> {
  for (let seed = 1; seed <= 100; seed += 1) {
    const random = numbers(seed);
    const next = () => random.next().value;
    const end = Math.ceil(next() * 3_600_000);
    const kept = Array.from({ length: Math.floor(next() * 40) }, () => {
      const from = Math.floor(next() * end);
      return { from, to: Math.min(end, from + Math.floor(next() * 20_000)) };
    });
    yield [makeAxis(end, foldsBetween(kept, end, 300, 3000)), kept, random];
  }
}

describe("the axis", () => {
  it("has one place for each time and one time for each place, in order", () => {
    for (const [axis, , random] of manyAxes()) {
      let before = -1;
      for (let step = 0; step <= 50; step += 1) {
        const time = (axis.end * step) / 50;
        const place = placeOf(axis, time);
        expect(place).toBeGreaterThan(before);
        expect(timeAt(axis, place)).toBeCloseTo(time, 4);
        before = place;
      }
      const place = random.next().value * axis.room;
      expect(placeOf(axis, timeAt(axis, place))).toBeCloseTo(place, 4);
    }
  });

  it("draws what matters at its length, and only long pauses shorter", () => {
    for (const [axis, kept] of manyAxes()) {
      for (const span of kept) {
        const drawn = placeOf(axis, span.to) - placeOf(axis, span.from);
        expect(drawn).toBeCloseTo(span.to - span.from, 4);
      }
      for (const fold of axis.folds) {
        expect(fold.to - fold.from).toBeGreaterThan(3000);
        expect(placeOf(axis, fold.to) - placeOf(axis, fold.from)).toBeCloseTo(FOLD_ROOM, 4);
      }
    }
  });

  it("zooms around a time that stays where it is, and pans, within the call", () => {
    for (const [axis, , random] of manyAxes()) {
      let view = wholeView(axis);
      for (let step = 0; step < 20; step += 1) {
        const around = view.from + random.next().value * (view.to - view.from);
        const before = xOf(makeScale(axis, view, 1000), around);
        const nearer = zoomed(axis, view, 0.7, around);
        const least = placeOf(axis, nearer.to) - placeOf(axis, nearer.from) > 201;
        const after = xOf(makeScale(axis, nearer, 1000), around);
        if (least) expect(Math.abs(after - before)).toBeLessThan(0.5);
        view = panned(axis, nearer, random.next().value * 3 - 1.5);
        expect(view.from).toBeGreaterThanOrEqual(0);
        expect(view.to).toBeLessThanOrEqual(axis.end + 1e-6);
        expect(view.to).toBeGreaterThan(view.from);
      }
      expect(zoomed(axis, view, 1e9, view.from)).toEqual(wholeView(axis));
    }
  });

  it("puts x and time into each other, and moves along with the sound", () => {
    const axis = makeAxis(60_000, [{ from: 20_000, to: 40_000 }]);
    const scale = makeScale(axis, { from: 10_000, to: 50_000 }, 800);
    for (const x of [0, 100, 399, 640, 800]) expect(xOf(scale, timeOf(scale, x))).toBeCloseTo(x, 6);
    const narrow = { from: 1000, to: 3000 };
    expect(following(axis, narrow, 2500)).toBe(narrow);
    const moved = following(axis, narrow, 9000);
    expect(moved.from).toBeLessThan(9000);
    expect(moved.to).toBeGreaterThan(9000);
  });

  it("has round ticks with room between them, none in a fold", () => {
    for (const [axis] of manyAxes()) {
      const scale = makeScale(axis, wholeView(axis), 900);
      const ticks = ticksOf(scale, 60);
      expect(ticks.length).toBeLessThanOrEqual(16);
      ticks.reduce((left, tick) => {
        expect(tick.x - left).toBeGreaterThanOrEqual(60);
        return tick.x;
      }, Number.NEGATIVE_INFINITY);
      for (const { time } of ticks) {
        expect(time % 50).toBe(0);
        const within = axis.folds.some((fold) => fold.from < time && time < fold.to);
        if (FOLD_ROOM / scale.perPixel > 20) expect(within).toBe(false);
      }
    }
  });
});

const TURN: Turn = {
  number: 1,
  caller: { begin_ms: 4000, end_ms: 6000, text: "the wether", understood: "", confidence: 0.9 },
  waited: { vad: 100, endpoint: 400, stt: 0, brain: 150, tts: 50, wire: 20, total: 620 },
  filler_first: false,
  answer_ms: 620,
  agent: { begin_ms: 6620, end_ms: 8620, text: "One two three four.", heard: "One two", cut: true },
  tools: ["1.1"],
  held: false,
};

function aCall(changes: Partial<Call> = {}): Call {
  return {
    row: {
      id: "c",
      file: "c.jsonl",
      started_at: "2026-11-20T12:00:00+00:00",
      started_ms: 1,
      duration_ms: 30_000,
    },
    connected_ms: 10,
    turns: [TURN],
    tools: [],
    marks: [],
    used: [],
    troubles: [],
    recording: { state: "off", file: "", began_ms: null, duration_ms: null, muted: [] },
    notes: { notes: [], tags: [], review: "", review_why: "", reviewed_by: "" },
    notes_revision: "",
    ...changes,
  } as Call;
}

describe("a wait", () => {
  it("is divided into stages without a gap, from the last word to the first sound", () => {
    const stages = waitsOf(TURN);
    expect(stages.map(({ stage, from, to }) => [stage, to - from])).toEqual([
      ["vad", 100],
      ["endpoint", 300],
      ["brain", 150],
      ["tts", 50],
      ["wire", 20],
    ]);
    expect(stages[0]?.from).toBe(6000);
    expect(stages.at(-1)?.to).toBe(6620);
  });

  it("goes on behind a filler until the answer", () => {
    const stages = waitsOf({ ...TURN, filler_first: true, answer_ms: 2500 });
    expect(stages.at(-1)).toEqual({ stage: "answer", from: 6620, to: 8500 });
    expect(waitsOf({ ...TURN, caller: null })).toEqual([]);
  });
});

describe("a cut answer", () => {
  const cases: [string, string, [string, boolean][]][] = [
    [
      "One two three four.",
      "One two",
      [
        ["One two", true],
        ["three four.", false],
      ],
    ],
    [
      "Wind, two seven. Yes?",
      "Wind Yes?",
      [
        ["Wind,", true],
        ["two seven.", false],
        ["Yes?", true],
      ],
    ],
    ["One two.", "One two.", [["One two.", true]]],
    ["One two.", "", [["One two.", false]]],
    [
      "One two.",
      "Something else",
      [
        ["Something else", true],
        ["One two.", false],
      ],
    ],
    [
      "a a a",
      "a a",
      [
        ["a a", true],
        ["a", false],
      ],
    ],
  ];
  it.each(cases)("%s / %s", (text, heard, parts) => {
    expect(heardParts(text, heard, true).map((part) => [part.text, part.heard])).toEqual(parts);
  });
  it("has an unheard part only if it was cut", () => {
    expect(heardParts("One two.", "One two.", false)).toEqual([{ text: "One two.", heard: true }]);
  });
});

describe("the shapes", () => {
  const tool = {
    id: "1.1",
    name: "find",
    server: "crm",
    turn: 1,
    begin_ms: 6400,
    end_ms: 6500,
    arguments: {},
    status: "timeout",
    spoken: "",
    filler: "",
    sent: {},
    cut: [],
    attempts: 1,
    reason: "",
    source: "run",
    parent: "",
    late: "",
    late_told: null,
  };
  const call = aCall({
    tools: [tool, { ...tool, id: "1.2", status: "ok", begin_ms: 6450, end_ms: 6600 }],
    marks: [
      { at_ms: 15_000, until_ms: null, kind: "trouble", text: "tts: broke" },
      { at_ms: 16_000, until_ms: 16_500, kind: "muted", text: "" },
      { at_ms: 17_000, until_ms: null, kind: "flag", text: "anna: odd" },
    ],
  });
  const shapes = shapesOf(call);
  const of = (lane: string) => shapes.filter((shape: Shape) => shape.lane === lane);

  it("are in their lanes, in order; what is at one time has rows", () => {
    expect(of("caller").map(({ from, to }) => [from, to])).toEqual([[4000, 6000]]);
    expect(of("agent").map(({ kind, from, to }) => [kind, from, to])).toEqual([
      ["heard", 6620, 8620],
      ["unheard", 8620, 11_763],
    ]);
    expect(of("tools").map(({ kind, row }) => [kind, row])).toEqual([
      ["failed", 0],
      ["tool", 1],
    ]);
    expect([of("line").length, of("people").length, of("trouble").length]).toEqual([1, 1, 1]);
    expect(troublesOf(shapes).map(({ from }) => from)).toEqual([6400, 15_000]);
  });

  it("fold what a mode is not about", () => {
    const end = endOf(call);
    expect(end).toBe(30_000);
    expect(axisOf(shapes, end, undefined, false).folds).toEqual([]);
    const pauses = axisOf(shapes, end, undefined, true).folds;
    expect(pauses.map(({ from }) => from)).toEqual([0, 17_400]);
    const waits = axisOf(shapes, end, "waits", true);
    expect(waits.room).toBeLessThan(620 + 2 * 150 + 2 * FOLD_ROOM + 1);
    expect(placeOf(waits, 6620) - placeOf(waits, 6000)).toBeCloseTo(620);
    const troubles = axisOf(shapes, end, "troubles", true).folds;
    expect(troubles.some(({ from, to }) => from < 15_000 && 15_000 < to)).toBe(false);
    expect(axisOf([], 100, "troubles", true).folds).toEqual([]);
  });
});

describe("loudness", () => {
  const tile = new Int8Array((TILE_MS / 20) * 4);
  tile.set([-5, 6, -7, 8], 100 * 4); // at 2,000 ms
  tile.set([-50, 60, 0, 0], 110 * 4); // at 2,200 ms

  it("is found across tiles, and silent where a tile is missing", () => {
    const tiles = new Map([
      [0, tile],
      [2, tile],
    ]);
    expect(loudness(tiles, "caller", { from: 1990, to: 2010 })).toEqual([-5, 6]);
    expect(loudness(tiles, "agent", { from: 0, to: 5000 })).toEqual([-7, 8]);
    expect(loudness(tiles, "caller", { from: TILE_MS, to: TILE_MS + 5000 })).toEqual([0, 0]);
    expect(loudness(tiles, "caller", { from: 0, to: 3 * TILE_MS })).toEqual([-50, 60]);
    expect(tilesOf({ from: 299_000, to: 301_000 }, 900_000)).toEqual([0, 1]);
    expect(tilesOf({ from: -5, to: 9e9 }, 610_000)).toEqual([0, 1, 2]);
    expect(tilesOf({ from: 0, to: 100 }, 0)).toEqual([0]);
  });

  it("places words where the side was loud, evenly without a recording", () => {
    const words = ["one", "two"];
    const spoken = { from: 12_000, to: 12_400 };
    const timed = timedWords(words, spoken, new Map([[0, tile]]), "caller", 10_000);
    expect(timed).toEqual([
      { word: "one", at: 12_000 },
      { word: "two", at: 12_200 },
    ]);
    const even = timedWords(words, spoken, new Map(), "caller", 0);
    expect(even.map(({ at }) => at)).toEqual([12_000, 12_200]);
  });
});

describe("the address", () => {
  it("keeps what it knows and drops nonsense", () => {
    const kept = (raw: Record<string, unknown>) => JSON.parse(JSON.stringify(search(raw)));
    expect(kept({ turn: "3", tab: "tools", mode: "waits", from: "5", to: "90" })).toEqual({
      turn: 3,
      tab: "tools",
      mode: "waits",
      from: 5,
      to: 90,
    });
    expect(kept({ turn: "-1", tab: "x", mode: "y", from: "90", to: "5", at: "1e99" })).toEqual({});
  });
});

describe("the transcript", () => {
  const tool = (begin_ms: number) => ({ id: `t${begin_ms}`, begin_ms, end_ms: null, turn: 1 });
  const key = (at_ms: number, text = "*") => ({ at_ms, until_ms: null, kind: "key", text });
  const lines = linesOf(
    aCall({
      tools: [tool(6400)] as Call["tools"],
      marks: [
        ...[9000, 9400, 9800].map((at) => key(at)),
        key(20_000, "1"),
        key(20_300, "7"),
        { at_ms: 21_000, until_ms: 22_000, kind: "listened", text: "anna" },
      ],
    }),
  );

  it("has what was said and done in the order of time, keys in one line", () => {
    const shown = lines.map((line) =>
      line.who === "mark" ? `${line.count} ${line.mark.text}` : line.who,
    );
    expect(shown).toEqual(["caller", "tool", "agent", "3 *", "2 17"]);
  });

  it("knows the line that is heard", () => {
    const lit = (time: number) => lines[lineAt(lines, time)]?.who;
    expect([0, 5000, 6500, 7000, 30_000].map(lit)).toEqual([
      undefined,
      "caller",
      "caller",
      "agent",
      "agent",
    ]);
  });
});

describe("a point in the picture", () => {
  const shapes = shapesOf(aCall());
  const layout = layoutOf(shapes);
  const scale = makeScale(makeAxis(30_000), { from: 0, to: 30_000 }, 1000);

  it("is on the shape whose box it is in, in the shape's own lane", () => {
    for (const shape of shapes) {
      const box = boxOf(layout, scale, shape);
      expect(box).toBeDefined();
      if (!box) continue;
      const found = shapeAt(layout, scale, shapes, box.x + box.width / 2, box.y + 2);
      expect(found?.lane).toBe(shape.lane);
      expect(Math.abs((found?.from ?? 0) - shape.from)).toBeLessThan(400);
    }
    expect(shapeAt(layout, scale, shapes, 900, layout.height - 4)).toBeUndefined();
    expect(layout.lanes.map(({ lane }) => lane)).toEqual(["caller", "waited", "agent"]);
  });
});

describe("the lines of a context", () => {
  const text = [
    "default: a",
    "contexts:",
    "  # the first",
    "  demo: # a desk",
    "    greeting: Hello",
    "",
    "    # deeper",
    "    tools: [x]",
    "",
    '  "front desk":',
    "    greeting: Hi",
    "tools: {}",
  ].join("\n");

  it("are found by their indentation, with their numbers", () => {
    const found = contextLines(text, "demo");
    expect([found?.first, found?.lines.length, found?.lines.at(-1)]).toEqual([
      4,
      5,
      "    tools: [x]",
    ]);
    expect(contextLines(text, "front desk")?.lines).toEqual([
      '  "front desk":',
      "    greeting: Hi",
    ]);
    expect(contextLines(text, "dem")).toBeUndefined();
    expect(contextLines("contexts: {demo: {}}", "demo")).toBeUndefined();
  });
});

describe("a ledger", () => {
  it("is read line by line, without what is half written", () => {
    const lines = ledgerLines('{"at_ms":5,"type":"a","x":[1]}\n{"at_ms":6,"type":"b"}\n{"at_m');
    expect(lines.map(({ at, type, fields }) => [at, type, fields])).toEqual([
      [5, "a", '{"x":[1]}'],
      [6, "b", ""],
    ]);
  });
});

/** As a browser's element: another source pauses it, without an event, and has no sound yet. */
class Sound {
  static last: Sound;
  paused = true;
  readyState = 0;
  currentTime = 0;
  playbackRate = 1;
  onplay = () => {};
  onpause = () => {};
  onerror = () => {};
  onloadedmetadata = () => {};
  #source: string | null = null;

  constructor() {
    Sound.last = this;
  }

  set src(source: string) {
    this.#source = source;
    this.paused = true;
    this.readyState = this.currentTime = 0;
  }

  getAttribute = () => this.#source;
  hasAttribute = () => this.#source !== null;

  async play() {
    this.paused = false;
    this.onplay();
  }

  pause() {
    if (!this.paused) this.onpause();
    this.paused = true;
  }

  arrives() {
    this.readyState = 1;
    this.onloadedmetadata();
  }
}

describe("the player", () => {
  afterEach(() => vi.unstubAllGlobals());

  function opened(at: number): [Player, Sound] {
    vi.stubGlobal("Audio", Sound);
    vi.stubGlobal("requestAnimationFrame", () => 0);
    vi.stubGlobal("cancelAnimationFrame", () => {});
    const player = new Player("/recording", 500, at);
    player.open();
    return [player, Sound.last];
  }

  it("goes where the listener jumped before the sound was there", () => {
    const [player, sound] = opened(1_500);
    player.seek(7_500);
    expect(player.time).toBe(7_500);
    sound.arrives();
    expect(sound.currentTime).toBe(7);
    player.setHears("agent", false);
    player.seek(9_500);
    sound.arrives();
    expect(sound.currentTime).toBe(9);
  });

  it("stays paused if it was paused while another source loaded", () => {
    const [player, sound] = opened(0);
    sound.arrives();
    player.toggle();
    player.setHears("agent", false);
    expect(player.current().playing).toBe(true);
    player.toggle();
    sound.arrives();
    expect([player.current().playing, sound.paused]).toEqual([false, true]);
    player.toggle();
    player.setHears("agent", true);
    sound.arrives();
    expect([player.current().playing, sound.paused]).toEqual([true, false]);
  });

  it("loads again after a failure", () => {
    const [player, sound] = opened(4_500);
    sound.onerror();
    expect(player.current().failed).toBe(true);
    player.toggle();
    expect(player.current().failed).toBe(false);
    sound.arrives();
    expect([sound.currentTime, sound.paused]).toEqual([4, false]);
  });
});
