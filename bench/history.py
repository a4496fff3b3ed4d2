"""The index of 100,000 generated calls: pages, words, counts, measures, and a rebuild beside calls.

The ledgers are like those of real calls: 8 turns, 9 to 10 kB, and words by Zipf's law out of 5,000.
They are written into a temporary folder (1 GB). The index is SQLite. During the rebuild the event
loop ticks each 20 ms, as the sound of a call does: its lateness is compared with that of the same
time without a rebuild.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import random
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.options import Options
from bench.report import Report, Summary, Target
from cordboard import private_files
from cordboard.calls import events
from cordboard.calls.events import LedgerEvent
from cordboard.calls.ledger_file import encode_event
from cordboard.history.keeper import IndexKeeper
from cordboard.history.query import CallQuery, parse_query
from cordboard.history.series import SeriesQuery, Step
from cordboard.history.sql_store import SqlHistoryStore

CALLS = 100_000
A_DAY = 274
"""A year of 100,000 calls."""
ROUNDS = 200
"""Queries of each kind."""
TICK = 0.02
_BEGIN = dt.datetime(2026, 1, 1, 8, tzinfo=dt.UTC)
_CONTEXTS = ("booking", "sales", "support", "billing", "claims", "reception")
_PROVIDERS = ("local", "openai", "gemini", "deepgram")
_TOOLS = tuple(f"tool_{number}" for number in range(20))

Progress = Callable[[str], None]


async def measure(progress: Progress, options: Options) -> Report:
    """Generate, build, ask."""
    calls = options.calls or CALLS
    report = Report("history")
    folder = Path(tempfile.mkdtemp(prefix="history-"))
    try:
        progress(f"writing {calls} ledgers")
        size = await asyncio.to_thread(write_ledgers, folder, calls)
        report.notes.append(f"{calls} ledgers, {size / calls / 1000:.1f} kB each")
        progress("making the index")
        await _rebuild(report, folder, calls)
        store = SqlHistoryStore(folder)
        await asyncio.to_thread(store.open)
        progress("asking")
        await asyncio.to_thread(_ask, report, store)
        store.close()
        index = sum(path.stat().st_size for path in (folder / "history").iterdir())
        report.notes.append(f"the index has {index / 1e6:.0f} MB")
    finally:
        await asyncio.to_thread(shutil.rmtree, folder)
    return report


def write_ledgers(folder: Path, calls: int, seed: int = 1) -> int:
    """Write ledgers of different calls; return their bytes."""
    chance = random.Random(seed)
    words = [f"{a}{b}{c}" for a in _SYLLABLES for b in _SYLLABLES for c in _SYLLABLES][:5000]
    weights = [1 / rank for rank in range(1, len(words) + 1)]
    size = 0
    for number in range(calls):
        started = _BEGIN + dt.timedelta(days=number // A_DAY, seconds=36 * (number % A_DAY))
        said = iter(chance.choices(words, weights, k=320))
        lines = _call(chance, f"{number:08d}-{chance.getrandbits(48):012x}", started, said)
        content = b"".join(encode_event(at, event) for at, event in lines)
        path = folder / f"{started:%Y-%m-%d}" / f"{number:08d}.jsonl"
        private_files.make_folder(path.parent)
        path.write_bytes(content)
        size += len(content)
    return size


_SYLLABLES = tuple("ka lo mi nu re sa ti vo be da fu go he ji pe ra su".split())


def _call(
    chance: random.Random, call_id: str, started: dt.datetime, said: Iterator[str]
) -> Iterator[tuple[int, LedgerEvent]]:
    number = f"+45{chance.randrange(10**7, 10**8)}"
    at = started.isoformat(timespec="milliseconds")
    version = f"{started:%m}" * 32  # another configuration each month
    yield 0, events.Offered(call_id, at, "asterisk", number, "", "100", config=version)
    tools = list(_TOOLS[: chance.randrange(4, 20)])
    yield 1, events.Bound(chance.choice(_CONTEXTS), chance.choice(_PROVIDERS), 1, tools)
    yield 2, events.Connected()
    ms = 3000
    for turn in range(1, 9):
        yield ms, events.SpeechBegan(ms)
        yield ms + 3000, events.TurnEnded(turn, ms + 2700)
        yield ms + 3000, events.Heard(turn, " ".join(_some(said, 12)), 0.9)
        if chance.random() < 0.3:
            name, ask = chance.choice(tools), f"{turn}.1"
            status = "ok" if chance.random() < 0.95 else "error"
            yield ms + 3010, events.ToolCalled(turn, ask, name, f"http:{name}", {"q": "x" * 40})
            data = {"rows": ["y" * 80] * 5}
            yield ms + 3200, events.ToolAnswered(ask, name, status, "z" * 80, 190, sent=data)
        for sentence in range(2):
            yield ms + 3300 + sentence, events.Answering(turn, " ".join(_some(said, 12)))
        yield ms + 3500, events.AudioStarted(turn)
        wait = chance.randrange(300, 2500)
        yield ms + 3500, events.Latency(turn, 200, 0, wait - 250, 30, 20, wait, 40)
        yield ms + 9000, events.AudioEnded(turn)
        ms += 10_000
    if chance.random() < 0.05:
        yield ms, events.Trouble(chance.choice(("stt", "tts", "provider")), "it broke")
    if chance.random() < 0.5:
        yield ms, events.AgentUsed("openai", "gpt", {"seconds": ms / 1000}, 0.01, "EUR")
    outcome, reason = chance.choice(_ENDS)
    yield ms, events.Ended(outcome, reason, ms, chance.random() / 10, "EUR")


_ENDS = (
    *[("completed", "caller_hangup")] * 7, ("completed", "agent_hangup"),
    ("transferred", "transfer:sales"), ("failed", "agent_failed"),
)  # fmt: skip


def _some(words: Iterator[str], count: int) -> list[str]:
    return [word for word, _ in zip(words, range(count), strict=False)]


async def _rebuild(report: Report, folder: Path, calls: int) -> None:
    """Let a keeper make the index, and watch the loop beside it."""
    idle = await _lateness(lambda: False, 5.0)
    store = SqlHistoryStore(folder)
    await asyncio.to_thread(store.open)
    keeper = IndexKeeper(folder, store, interval=0.1)
    began = time.monotonic()

    async def made() -> float:
        while not keeper.passes:
            await asyncio.sleep(0.5)
            if keeper.trouble:
                raise ValueError(keeper.trouble)
        return time.monotonic() - began

    keeper.start()
    watching = asyncio.create_task(made())
    try:
        busy = await _lateness(watching.done, 3600.0)
        took = await watching
    finally:
        watching.cancel()
        await asyncio.to_thread(keeper.close)
    report.targets += [
        Target(f"rebuild of {calls} calls", took, 300 * calls / CALLS, "s"),
        Target("loop later during the rebuild, p99", busy.p99 - idle.p99, 1, "ms"),
    ]
    report.figures |= {"rebuild_s": took, "calls_per_second": calls / took}
    report.table(
        "Lateness of a 20 ms tick of the event loop, ms",
        ["", "median", "p95", "p99", "longest"],
        [
            [name, *(f"{value:.2f}" for value in (each.median, each.p95, each.p99, each.most))]
            for name, each in (("without", idle), ("during the rebuild", busy))
        ],
    )


async def _lateness(done: Callable[[], bool], seconds: float) -> Summary:
    loop = asyncio.get_running_loop()
    late = []
    end = loop.time() + seconds
    while not done() and loop.time() < end:
        due = loop.time() + TICK
        await asyncio.sleep(TICK)
        late.append(1000 * max(0.0, loop.time() - due))
    return Summary.of(late)


def _ask(report: Report, store: SqlHistoryStore) -> None:
    chance = random.Random(2)
    days = [str((_BEGIN + dt.timedelta(days=day)).date()) for day in range(90)]
    words = [word for row in ("kaka", "kalo", "mimi") for word in (f"{row}ka", f"{row}su")]
    rows = []
    for name, limit, ask in (
        ("page", 30, lambda: _page(store, chance, days)),
        ("words", 100, lambda: store.find(_words(chance, words))),
        ("facets", 150, lambda: store.facets(_facets(chance, words, days))),
        ("a measure of a year", 100, lambda: store.series(_series(chance))),
    ):
        times = []
        for _ in range(ROUNDS):
            began = time.perf_counter()
            ask()
            times.append(1000 * (time.perf_counter() - began))
        spread = Summary.of(times)
        report.targets.append(Target(f"{name}, p95", spread.p95, limit, "ms"))
        figures = (spread.median, spread.p95, spread.most)
        rows.append([name, str(ROUNDS), *(f"{value:.1f}" for value in figures)])
    report.table("Queries, ms", ["query", "n", "median", "p95", "longest"], rows)


def _series(chance: random.Random) -> SeriesQuery:
    """One measure of a whole year, as a page of insights asks for it."""
    measure, step, by = chance.choice(_MEASURES)
    begin = round(_BEGIN.timestamp() * 1000)
    return SeriesQuery(measure, begin, begin + 365 * 86_400_000, step, by)


_MEASURES: tuple[tuple[str, Step, str], ...] = (
    ("calls", "day", ""), ("wait", "day", ""), ("wait", "month", "stage"),
    ("wait", "week", "context"), ("answer_wait", "week", "version"), ("containment", "day", ""),
    ("tool_failure_share", "month", "tool"), ("cost", "month", "context"),
)  # fmt: skip


def _page(store: SqlHistoryStore, chance: random.Random, days: list[str]) -> None:
    """One page: of all calls, of a filter, of a number; the second one of a list."""
    filters: dict[str, list[str]] = chance.choice(
        [
            {},
            {"context": [chance.choice(_CONTEXTS)]},
            {"outcome": ["failed"], "provider": [chance.choice(_PROVIDERS)]},
            {"tool_failed": [chance.choice(_TOOLS)]},
            {"number_prefix": [f"+45{chance.randrange(1000, 9999)}"]},
            {"number_last4": [f"{chance.randrange(10_000):04d}"]},
            {"since": [chance.choice(days)]},
        ]
    )
    store.find(parse_query(filters))


def _words(chance: random.Random, words: list[str]) -> CallQuery:
    return CallQuery(
        text=chance.choice([chance.choice(words), " ".join(words[:2]), "kal*", '"kakaka kakalo"']),
        who=chance.choice(("", "caller", "agent")),
    )


def _facets(chance: random.Random, words: list[str], days: list[str]) -> CallQuery:
    return chance.choice(
        [
            CallQuery(),
            parse_query({"context": [chance.choice(_CONTEXTS)]}),
            parse_query(
                {"since": [str((_BEGIN + dt.timedelta(days=chance.randrange(90))).date())]}
            ),
            parse_query({"tool": [chance.choice(_TOOLS)]}),
            CallQuery(text=chance.choice(words)),
        ]
    )
