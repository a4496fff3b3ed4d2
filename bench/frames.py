"""The engine's cost of a 20 ms frame of a call: processor time, and lateness of its event loop.

Simulated callers in this process talk AudioSocket to a server in another one: the engine (real
voice activity model, no MCP), and a bare echo server on the same event loop, which is the floor.

    silent         neither side speaks: frames in, frames of silence out
    agent speaks   the agent reads a long greeting to a silent caller
    caller speaks  the caller speaks without a pause, so no recogniser runs: the call path alone

Processor time is the kernel's own account of each thread (`/proc/PID/task/TID/schedstat`), which
separates the engine's event loop thread from the rest (the voice activity model's thread). It is
divided by the incoming frames; one goes out for each.

The callers' frames are spread evenly over the 20 ms, as calls that have nothing to do with each
other are. With equal phases one wake of the loop, and one batch of the voice activity model, serves
all calls, and a frame costs half as much; left to chance, the phases decide the figure.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import orjson

from bench.caller import spoken
from bench.engine_process import ROOT, as_file, demo_config
from bench.questions import QUESTIONS
from bench.report import Report, Summary
from cordboard_testkit.audiosocket_caller import SimulatedCaller
from cordboard_testkit.media_thread import MediaThread
from cordboard_testkit.timeline import FRAME_SECONDS, RATE, Samples

CALLS = (1, 10, 30)
SECONDS = 4.0
CONNECTING = 0.5
"""Seconds for all callers to connect, before the first of them sends a frame."""
SETTLE = 1.0
SPEECH_SECONDS = 12.0
CONTEXT = "demo"
LONG_GREETING = (
    "This line reads a long announcement, so that the agent speaks for as long as it is measured, "
    "and it goes on without any pause, over hills and rivers, past towns and villages, along the "
    "coast and through the forests, until at last everybody who listens has heard enough of it."
)
Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Load:
    """One measurement."""

    server: str
    doing: str
    calls: int
    process_us: float
    """Processor time of the whole process for one frame in (and one out), in microseconds."""
    loop_us: float
    """The share of the event loop's thread."""
    cores: float
    """Processor seconds per second, whole process."""
    lags: list[float]


class Server:
    """A `bench.frames_server`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.port = 0

    async def answer(self) -> object:
        """Return its next line of output. Raises `TimeoutError`."""
        assert self._process.stdout is not None
        async with asyncio.timeout(30):
            line = await self._process.stdout.readline()
        if not line:
            raise OSError("the measured server ended by itself")
        return orjson.loads(line)

    async def lags(self) -> list[float]:
        """The event loop's lags since the last time."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")
        answer = await self.answer()
        assert isinstance(answer, list)
        return answer

    def processor_seconds(self) -> tuple[float, float]:
        """Times of all threads, and of the first, which runs the event loop."""
        tasks = Path(f"/proc/{self._process.pid}/task")
        spent = {
            int(task.name): int((task / "schedstat").read_text().split()[0]) / 1e9
            for task in tasks.iterdir()
        }
        return sum(spent.values()), spent[self._process.pid]


async def measure(progress: Progress) -> Report:
    speech = without_pauses()
    loads: list[Load] = []
    with tempfile.TemporaryDirectory(prefix="bench") as name:
        silent, talking = Path(name) / "silent.yaml", Path(name) / "talking.yaml"
        _write(silent, "")
        _write(talking, LONG_GREETING)
        plans: Sequence[tuple[str, list[str], list[tuple[str, Samples | None]]]] = (
            ("echo (floor)", ["echo"], [("silent", None)]),
            ("engine", ["engine", str(silent)], [("silent", None), ("caller speaks", speech)]),
            ("engine", ["engine", str(talking)], [("agent speaks", None)]),
        )
        for label, arguments, doings in plans:
            async with _serving(arguments) as server:
                for (doing, sound), calls in itertools.product(doings, CALLS):
                    load = await _load(server, label, doing, sound, calls)
                    loads.append(load)
                    progress(
                        f"{label}, {doing}, {calls} calls: {load.process_us:.0f} us a frame, "
                        f"{load.cores * 100:.0f} % of a core"
                    )
    return _report(loads)


def _write(path: Path, greeting: str) -> None:
    """The demo's configuration with that greeting, on free ports, without tools."""
    config = demo_config()
    context = config.contexts[CONTEXT].model_dump(mode="json", exclude_unset=True, by_alias=True)
    rules = {"intents": {"hello": {"sentences": ["hello"], "say": "Hello."}}}
    context |= {"greeting": greeting, "tools": ["hangup_call"], "rules": rules}
    as_file(
        config,
        {
            "health": {"port": 0},
            "audiosocket": {"port": 0, "context": CONTEXT, "calls_per_minute": 6_000},
            "contexts": {CONTEXT: context},
            "tools": {},
            "mcp": {"enabled": False},
            "calls": {"directory": str(path.parent / "ledger")},
        },
        path,
    )


def without_pauses() -> Samples:
    """Speech without pauses: no 20 ms is much quieter than the rest."""
    sound = np.concatenate([spoken(question.text) for question in QUESTIONS])
    frames = sound[: len(sound) // 160 * 160].reshape(-1, 160)
    loudness = np.abs(frames.astype(np.float32)).mean(axis=1)
    voiced = frames[loudness > np.median(loudness)].ravel()
    return np.resize(voiced, int(SPEECH_SECONDS * RATE)).astype(np.int16)


@asynccontextmanager
async def _serving(arguments: list[str]) -> AsyncIterator[Server]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "bench.frames_server",
        *arguments,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        cwd=ROOT,
        limit=1 << 20,
    )
    try:
        server = Server(process)
        ready = await server.answer()
        assert isinstance(ready, dict)
        server.port = ready["port"]
        yield server
    finally:
        assert process.stdin is not None
        process.stdin.close()  # the end of its input stops it
        try:
            async with asyncio.timeout(10):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()


async def _load(server: Server, label: str, doing: str, sound: Samples | None, calls: int) -> Load:
    async with AsyncExitStack() as stack:
        media = await stack.enter_async_context(MediaThread())
        first = time.monotonic() + CONNECTING
        for number in range(calls):
            begins_at = first + number / calls * FRAME_SECONDS
            caller = SimulatedCaller("127.0.0.1", server.port, media=media, begins_at=begins_at)
            await stack.enter_async_context(caller)
            if sound is not None:
                caller.say(sound)
        await asyncio.sleep(CONNECTING + SETTLE)
        await server.lags()
        process_before, loop_before = server.processor_seconds()
        began = time.monotonic()
        await asyncio.sleep(SECONDS)
        process_after, loop_after = server.processor_seconds()
        seconds = time.monotonic() - began
        lags = await server.lags()
    spent = process_after - process_before
    frames = calls * seconds / FRAME_SECONDS
    return Load(
        label,
        doing,
        calls,
        spent / frames * 1e6,
        (loop_after - loop_before) / frames * 1e6,
        spent / seconds,
        lags,
    )


def _report(loads: list[Load]) -> Report:
    report = Report("frames")
    rows = []
    for load in loads:
        lag = Summary.of(load.lags)
        rows.append(
            [
                f"{load.server}, {load.doing}",
                str(load.calls),
                f"{load.process_us:.0f}",
                f"{load.loop_us:.0f}",
                f"{load.cores * 100:.1f}",
                f"{lag.median * 1000:.2f}",
                f"{lag.p99 * 1000:.2f}",
                f"{lag.most * 1000:.1f}",
            ]
        )
    heads = ["server", "calls", "us/frame", "of it loop", "% of a core"]
    heads += ["loop lag ms p50", "p99", "max"]
    report.table("Cost of the call path", heads, rows)
    report.notes += _per_call(loads)
    report.figures = {
        "loads": [
            {
                "server": load.server,
                "doing": load.doing,
                "calls": load.calls,
                "process_us_per_frame": load.process_us,
                "loop_us_per_frame": load.loop_us,
                "cores": load.cores,
                "loop_lag_s": load.lags,
            }
            for load in loads
        ]
    }
    return report


def _per_call(loads: list[Load]) -> list[str]:
    """Cost of one more call: the slope from the fewest to the most calls."""
    notes = []
    for (server, doing), group in itertools.groupby(loads, lambda load: (load.server, load.doing)):
        few, *_, many = group
        slope = (many.cores - few.cores) / (many.calls - few.calls)
        notes.append(
            f"{server}, {doing}: one more call costs {slope * FRAME_SECONDS * 1e6:.0f} us a frame, "
            f"{slope * 100:.2f} % of a core"
        )
    return notes
