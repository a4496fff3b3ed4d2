"""The admin port beside calls: viewers, a person who works, start, memory, checks and peaks.

    callers ──AudioSocket──▶ engine (a process) ◀──admin port── viewers and a person (a process)

    live     the same calls with nobody, with 1 and 5 viewers, and with a person beside 0 and 5
    check    a configuration of 2,000 lines, without calls
    peaks    those of a recording of 60 minutes: made, and read again
    start    `cordboard run` with the port and without it, in turns
    page     the interface in a real browser (`bench.admin_page`); only with `--only page`

The calls are conversations of 5 s a turn without models, so that the engine's own work shows. The
person searches 2,000 generated calls. Groups for `--only`: the five names.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import tempfile
import time
import wave
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import orjson

from bench.engine_process import demo_config, running_engine
from bench.history import write_ledgers
from bench.load import Server, module_process, serving, spent
from bench.options import Options
from bench.report import Report, Summary, Target
from bench.start import resident_mb
from cordboard import private_files
from cordboard.accounts import passwords
from cordboard.accounts.rights import EVERYWHERE, Grant, Permission, Role
from cordboard.accounts.store import Accounts
from cordboard.admin.application import BASE
from cordboard.calls import events
from cordboard.calls.ledger_file import encode_event
from cordboard_testkit.audiosocket_caller import SimulatedCaller
from cordboard_testkit.free_ports import free_port
from cordboard_testkit.media_thread import MediaThread
from cordboard_testkit.timeline import FRAME_SECONDS, RATE

CALLS = 100
SECONDS = 60
SETTLE = 3.0
RECORDED = 2_000
"""Generated calls in the history."""
LISTED = 10_000
"""The same for the interface."""
CROWDS = ((0, False), (1, False), (5, False), (0, True), (5, True))
"""Viewers, and whether there is a person."""
LINES = 2_000
CHECKS = 40
CHECK_PERIOD = 0.25
"""The port takes five checks a second from one person."""
MINUTES = 60
PEAKS = 5
STARTS = 5
CONTEXT = "desk"
HOUR = "one-hour"
_TEN_LINES = """\
  {name}:
    provider: local
    greeting: Welcome to desk {name}. What can I do for you?
    tools: []
    rules:
      intents:
        hours:
          sentences: [when are you open, opening hours]
          say: We are open from eight to five.
      # Desk {name} has no other questions.
"""
_PERMISSIONS = (
    Permission.CALLS_READ, Permission.PERSONAL, Permission.ENGINE_READ,
    Permission.CONFIG_READ, Permission.CONFIG_DRAFT, Permission.RECORDINGS_PLAY,
)  # fmt: skip
Progress = Callable[[str], None]


@dataclass(slots=True)
class Place:
    """The engine under measurement, and the ways to it."""

    server: Server
    folder: Path
    audiosocket_port: int
    address: str
    key: str

    @property
    def text(self) -> Path:
        """A configuration to check."""
        return self.folder / "check.yaml"


@dataclass(slots=True)
class Watched:
    """One measurement with calls."""

    viewers: int
    person: bool
    seconds: float
    cores: float
    """Processor seconds of the engine per second."""
    loop_cores: float
    """Those of the thread of its event loop."""
    counted: dict[str, Any]
    """The engine's counts, see `bench.load.server`."""
    seen: dict[str, Any]
    """See `bench.admin_viewers.Seen`."""

    @property
    def name(self) -> str:
        viewers = f"{self.viewers} viewer{'s' * (self.viewers != 1)}"
        return f"{viewers}, a person" if self.person else viewers

    @property
    def lag(self) -> Summary:
        """Lateness of the event loop, in ms."""
        return Summary.of([1000 * lag for lag in self.counted["lags"]])

    @property
    def late(self) -> int:
        """Frames that the engine sent late, or not at all."""
        return int(self.counted["ticks_late"] + self.counted["ticks_skipped"])


async def measure(progress: Progress, options: Options) -> Report:
    """Raises `KitError`."""
    report = Report("admin")
    if any(map(options.chosen, ("live", "check", "peaks"))):
        with tempfile.TemporaryDirectory(prefix="bench") as name:
            async with _engine(Path(name)) as place:
                if options.chosen("live"):
                    await _live(place, report, options, progress)
                if options.chosen("check"):
                    await _check(place, report, progress)
                if options.chosen("peaks"):
                    await _peaks(place, report, progress)
    if options.chosen("start"):
        await _starts(report, progress)
    if "page" in options.only:
        with tempfile.TemporaryDirectory(prefix="bench") as name:
            async with _engine(Path(name), LISTED) as place:
                await _page(place, report, options, progress)
    return report


@asynccontextmanager
async def _engine(folder: Path, recorded: int = RECORDED) -> AsyncIterator[Place]:
    ledgers, admin = folder / "ledger", folder / "admin"
    await asyncio.to_thread(write_ledgers, ledgers, recorded)
    port, audiosocket_port = free_port(), free_port()
    config = {
        "health": {"port": 0},
        "audiosocket": {"port": audiosocket_port, "context": CONTEXT, "calls_per_minute": 60_000},
        "calls": {"directory": str(ledgers), "max_calls": 1_000},
        "mcp": {"enabled": False},
        "providers": {"local": {"type": "pipeline"}},
        "contexts": {CONTEXT: {"provider": "local", "tools": []}},
        "admin": {"ui": {"enabled": True, "port": port, "data": str(admin)}},
    }
    file = folder / "engine.yaml"
    file.write_bytes(orjson.dumps(config))
    key = await asyncio.to_thread(_key, admin)
    async with serving(file, "turns") as server:
        place = Place(server, folder, audiosocket_port, f"http://127.0.0.1:{port}", key)
        place.text.write_text(configuration_to_check(), encoding="utf-8")
        yield place


def configuration_to_check() -> str:
    """`LINES` lines of contexts."""
    head = (
        f"providers: {{local: {{type: pipeline}}}}\ncontexts:\n  {CONTEXT}: {{provider: local}}\n"
    )
    places = (LINES - head.count("\n")) // _TEN_LINES.count("\n")
    text = head + "".join(_TEN_LINES.format(name=f"desk{n}") for n in range(places))
    return text + "#\n" * (LINES - text.count("\n"))


def _key(folder: Path) -> str:
    """Return the key of a program that may watch, search, check and hear."""
    accounts = Accounts(folder)
    accounts.add("bench", Role.OPERATOR, (Grant.PERSONAL, Grant.RECORDINGS), EVERYWHERE)
    accounts.use_link(accounts.reset("bench"), passwords.hashed("a bench has no password"))
    _, token = accounts.add_key("bench", "viewers", _PERMISSIONS, EVERYWHERE, 24 * 3_600)
    accounts.close()
    return token


async def _live(place: Place, report: Report, options: Options, progress: Progress) -> None:
    """The same calls beside each crowd."""
    calls, seconds = options.calls or CALLS, options.seconds or SECONDS
    found = []
    async with AsyncExitStack() as stack:
        viewers = await stack.enter_async_context(
            module_process("bench.admin_viewers", place.address, place.key, str(place.text))
        )
        await _call(place, stack, calls, len(CROWDS) * (seconds + 30))
        for count, person in CROWDS:
            await viewers.ask(f"watch {count} {int(person)}")
            await asyncio.sleep(SETTLE)
            found.append(await _watched(place, viewers, count, person, seconds))
            progress(
                f"{found[-1].name}: {found[-1].counted['calls']} calls, "
                f"{found[-1].cores:.1%} of a core, {found[-1].late} frames late"
            )
    _report_live(report, found, calls)


async def _call(place: Place, stack: AsyncExitStack, calls: int, seconds: int) -> None:
    """Begin calls that last until the stack is closed, and speak for so many seconds."""
    sound = np.random.default_rng(1).normal(0, 3_000, 12 * RATE).astype(np.int16)
    sound = np.tile(sound, 1 + seconds // 12)
    media = await stack.enter_async_context(MediaThread())
    first = time.monotonic() + 0.5
    for number in range(calls):
        begins_at = first + number / calls * FRAME_SECONDS
        port = place.audiosocket_port
        caller = SimulatedCaller("127.0.0.1", port, media=media, begins_at=begins_at)
        await stack.enter_async_context(caller)
        caller.say(sound)
    await asyncio.sleep(0.5 + SETTLE)


async def _page(place: Place, report: Report, options: Options, progress: Progress) -> None:
    from bench import admin_page  # needs Playwright

    calls = options.calls or CALLS
    await asyncio.to_thread(_record, place.folder / "ledger")
    async with _client(place) as client:
        await _until_listed(client)
    accounts = Accounts(place.folder / "admin")
    password = accounts.password("bench") or ""
    token = accounts.begin_session("bench", "127.0.0.1", password)
    accounts.close()
    cookie = {"name": f"cordboard-{place.address.rpartition(':')[2]}", "value": token}
    async with admin_page.visitor(place.address, cookie) as visitor:
        progress("the first page")
        await admin_page.first_page(visitor, report)
        progress(f"a history of {LISTED} calls")
        await admin_page.history(visitor, report)
        progress(f"a call of {MINUTES} minutes")
        await admin_page.one_call(visitor, report, HOUR, MINUTES)
        progress(f"{calls} live calls")
        async with AsyncExitStack() as stack:
            await _call(place, stack, calls, admin_page.LIVE_SECONDS + 60)
            await admin_page.live(visitor, report, calls)


async def _watched(
    place: Place, viewers: Server, count: int, person: bool, seconds: float
) -> Watched:
    await place.server.ask("start")
    await viewers.ask("start")
    before, began = spent(place.server.pid), time.monotonic()
    await asyncio.sleep(seconds)
    after, took = spent(place.server.pid), time.monotonic() - began
    counted, seen = await place.server.ask("stop"), await viewers.ask("stop")
    cores, loop = ((late - early) / took for early, late in zip(before, after, strict=True))
    return Watched(count, person, took, cores, loop, counted, seen)


def _report_live(report: Report, found: list[Watched], calls: int) -> None:
    nobody = found[0]
    rows, delays = [], []
    for one in found:
        lag = one.lag
        shares = (100 * one.cores, 100 * one.loop_cores)
        counts = (one.counted["calls"], one.late, one.counted["late"])
        cells = [f"{share:.1f}" for share in shares]
        cells += [f"{value:.2f}" for value in (lag.median, lag.p99, lag.most)]
        rows.append([one.name, *cells, *map(str, counts)])
        if one is not nobody:
            delays.append([one.name, *_delays(one)])
        report.figures[one.name] = _figures(one)
    heads = ["beside the calls", "% of a core", "of it loop", "lag ms p50", "p99", "max"]
    report.table("The engine", [*heads, "calls", "sent late", "came late"], rows)
    heads = ["", "rows p50", "p95", "events p50", "p95", "kB/s a viewer", "restarts"]
    heads += ["search p95", "check p95", "refused"]
    report.table("At the viewers and the person, delays in ms", heads, delays)
    for one in found:
        if one.viewers == max(viewers for viewers, _ in CROWDS):
            more = 100 * (one.cores - nobody.cores)
            report.targets += [
                Target(f"{one.name}: more of a core", more, 3, "%"),
                Target(f"{one.name}: loop lag p99", one.lag.p99 - nobody.lag.p99, 1, "ms more"),
                Target(f"{one.name}: late frames", one.late - nobody.late, 0, "more"),
            ]
    report.notes.append(f"{calls} calls; the targets compare with nobody")


def _delays(one: Watched) -> list[str]:
    seen = one.seen
    cells = []
    for name in ("rows_ms", "events_ms"):
        spread = Summary.of(seen[name]) if seen[name] else None
        cells += [f"{spread.median:.0f}", f"{spread.p95:.0f}"] if spread else ["", ""]
    size = seen["size"] / 1000 / one.seconds / one.viewers if one.viewers else 0.0
    cells += [f"{size:.1f}" if one.viewers else "", str(seen["restarts"])]
    for name in ("searches_ms", "checks_ms"):
        cells.append(f"{Summary.of(seen[name]).p95:.0f}" if seen[name] else "")
    return [*cells, ", ".join(f"{n} of {what}" for what, n in seen["refused"].items())]


def _figures(one: Watched) -> dict[str, Any]:
    lag = one.lag
    counts = {name: value for name, value in one.counted.items() if name != "lags"}
    return {
        "viewers": one.viewers,
        "seconds": one.seconds,
        "cores": one.cores,
        "loop_cores": one.loop_cores,
        "lag_ms": {"p50": lag.median, "p99": lag.p99, "max": lag.most},
        "counted": counts,
        "seen": one.seen,
    }


async def _check(place: Place, report: Report, progress: Progress) -> None:
    progress(f"checking {LINES} lines")
    body, times = {"text": place.text.read_text(encoding="utf-8")}, []
    await place.server.ask("start")
    async with _client(place) as client:
        for number in range(CHECKS + 1):
            began = time.perf_counter()
            answer = await client.post("/config/check", json=body)
            took = 1000 * (time.perf_counter() - began)
            if answer.status_code != 200 or not answer.json()["in_order"]:
                raise ValueError(f"the check says {answer.status_code}: {answer.text[:300]}")
            if number:
                times.append(took)
            await asyncio.sleep(CHECK_PERIOD)
    report.targets.append(Target(f"check of {LINES} lines, p95", Summary.of(times).p95, 100, "ms"))
    await _beside(place, report, {f"check of {LINES} lines": times})


async def _peaks(place: Place, report: Report, progress: Progress) -> None:
    progress(f"a recording of {MINUTES} minutes")
    recording = await asyncio.to_thread(_record, place.folder / "ledger")
    path = f"/calls/{HOUR}/peaks"
    made: list[float] = []
    read: list[float] = []
    async with _client(place) as client:
        await _until_listed(client)
        await place.server.ask("start")
        for _ in range(PEAKS):
            recording.with_suffix(".peaks").unlink(missing_ok=True)
            for times in (made, read):
                began = time.perf_counter()
                answer = await client.get(path)
                times.append(1000 * (time.perf_counter() - began))
                if len(answer.content) != MINUTES * 60 * 50 * 4:
                    raise ValueError(f"{answer.status_code}, {len(answer.content)} bytes of peaks")
    report.targets.append(
        Target(f"peaks of {MINUTES} minutes, made, slowest", max(made), 500, "ms")
    )
    name = f"peaks of {MINUTES} minutes"
    await _beside(place, report, {f"{name}, made": made, f"{name}, read": read})


async def _beside(place: Place, report: Report, found: dict[str, list[float]]) -> None:
    """Add a table of times in ms, with the lateness of the loop meanwhile."""
    lags = (await place.server.ask("stop"))["lags"]
    rows = []
    for name, times in found.items():
        spread = Summary.of(times)
        figures = (spread.median, spread.p95, spread.most, 1000 * max(lags, default=0.0))
        rows.append([name, str(len(times)), *(f"{value:.1f}" for value in figures)])
    heads = ["", "n", "median", "p95", "longest", "loop lag, longest"]
    report.table("Without calls, ms", heads, rows)
    report.figures |= found


async def _until_listed(client: httpx2.AsyncClient) -> None:
    """Wait until the index has the recorded call."""
    async with asyncio.timeout(120):
        while (await client.get(f"/calls/{HOUR}")).status_code != 200:  # noqa: ASYNC110
            await asyncio.sleep(0.1)


@asynccontextmanager
async def _client(place: Place) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(
        base_url=f"{place.address}{BASE}",
        headers={"Authorization": f"Bearer {place.key}"},
        trust_env=False,
        timeout=30,
    ) as client:
        yield client


def _record(ledgers: Path) -> Path:
    """Write a recorded call of an hour; return its sound."""
    now = dt.datetime.now(dt.UTC)
    folder = ledgers / f"{now:%Y-%m-%d}"
    private_files.make_folder(folder)
    sound = folder / f"{HOUR}.wav"
    minute = np.random.default_rng(1).normal(0, 3_000, (60 * 8_000, 2)).astype("<i2").tobytes()
    with wave.open(str(sound), "wb") as file:
        file.setnchannels(2)
        file.setsampwidth(2)
        file.setframerate(8_000)
        for _ in range(MINUTES):
            file.writeframes(minute)
    length = MINUTES * 60_000
    told: list[tuple[int, events.LedgerEvent]] = [
        (0, events.Offered(HOUR, now.isoformat(timespec="milliseconds"), "sip", "", "", "100")),
        (1, events.Bound(CONTEXT, "local", 1, [])),
        (2, events.Connected()),
        (2, events.RecordingStarted(str(sound.relative_to(ledgers)), "wav", 8_000)),
        (length, events.Ended("completed", "caller_hangup", length)),
    ]
    content = b"".join(encode_event(at, event) for at, event in told)
    (folder / f"{HOUR}.jsonl").write_bytes(content)
    return sound


async def _starts(report: Report, progress: Progress) -> None:
    """`cordboard run` with the port and without it; the first of each is not counted."""
    seconds: dict[bool, list[float]] = {False: [], True: []}
    memory: dict[bool, list[float]] = {False: [], True: []}
    config = demo_config()
    with tempfile.TemporaryDirectory(prefix="bench") as name:
        for number in range(STARTS + 1):
            for enabled in (False, True):
                ui = {"enabled": enabled, "port": free_port(), "data": name}
                async with running_engine(config, {"admin": {"ui": ui}}) as engine:
                    await engine.ready(tools=True)
                    await asyncio.sleep(SETTLE)
                    if number:
                        seconds[enabled].append(engine.ready_after)
                        memory[enabled].append(resident_mb(engine.pid))
            progress(f"start {number} of {STARTS}")
    rows = []
    for what, values in (("exec to /ready, s", seconds), ("resident, MB", memory)):
        for enabled, spread in ((key, Summary.of(each)) for key, each in values.items()):
            figures = (spread.median, spread.least, spread.most)
            name = f"{what}, {'with' if enabled else 'without'} the port"
            rows.append([name, str(spread.count), *(f"{value:.2f}" for value in figures)])
    report.table("Start", ["measured", "n", "median", "min", "max"], rows)
    later, larger = (
        Summary.of(values[True]).median - Summary.of(values[False]).median
        for values in (seconds, memory)
    )
    report.targets += [
        Target("ready later with the port, median", 1000 * later, 150, "ms"),
        Target("more memory with the port, median", larger, 25, "MB"),
    ]
    report.figures["start"] = {
        "ready_s": {"without": seconds[False], "with": seconds[True]},
        "resident_mb": {"without": memory[False], "with": memory[True]},
    }
