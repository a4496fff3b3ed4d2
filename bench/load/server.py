"""The subject of `load`, a process of its own: `python -m bench.load.server FILE echo|pipeline`.

The engine with that configuration; with `echo` its callers get their own audio back and no model
runs. It prints `{"ready": true}` when it accepts calls, and answers each line on standard input:

    start    counts from now on
    stop     {"lags": [...], "calls": n, "frames": n, "late": n, "lost": n, "ticks_late": n, ...}
    weigh    {"tasks": n, "handles": n, "rss_kb": n}, after a garbage collection
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import time
from pathlib import Path
from typing import Any

from bench.echo_agent import EchoAgent
from bench.frames_server import LagTimer, say
from cordboard.agent_api.agent import Agent
from cordboard.audio.format import SLIN_8K, ULAW_8K
from cordboard.calls.binding import Binding
from cordboard.cli.options import run_async
from cordboard.config.load import load
from cordboard.config.schema import Config
from cordboard.observe.logging import configure
from cordboard.runtime.engine import Engine

FRAME = 0.02


class Arrivals:
    """The incoming frames of one call.

    Late is a frame that comes more than 40 ms after the one before it, which is one too late for
    the clock of the playout. The callers' own clocks are not trusted over a longer time.
    """

    __slots__ = ("count", "first", "late", "latest")

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        self.count = self.late = 0
        self.first = self.latest = 0.0

    def frame(self) -> None:
        now = time.monotonic()
        if self.count == 0:
            self.first = now
        elif now - self.latest > 2 * FRAME:
            self.late += 1
        self.count += 1
        self.latest = now

    @property
    def lost(self) -> int:
        """Whole frames missing in that time; one may be in transit at either end."""
        if self.count == 0:
            return 0
        return max(0, int((self.latest - self.first - FRAME) / FRAME) + 1 - self.count)


class LoadEngine(Engine):
    """The engine; with `echo` its agents count and echo."""

    def __init__(self, config: Config, *, echo: bool) -> None:
        super().__init__(config)
        self._echo = echo
        self.arrivals: dict[int, Arrivals] = {}

    def _open_agent(self, binding: Binding) -> Agent:
        if not self._echo:
            return super()._open_agent(binding)
        arrivals = Arrivals()
        self.arrivals[id(arrivals)] = arrivals
        return _Counted(arrivals, self.arrivals)

    def pacing(self) -> dict[str, int]:
        """Frames that were sent late, and those that were not sent."""
        audio = self.doors.health()
        return {"ticks_late": audio["late_ticks"], "ticks_skipped": audio["skipped_ticks"]}


class _Counted(EchoAgent):
    """An echo in the line's own format that is forgotten when its call is over."""

    def __init__(self, arrivals: Arrivals, everyone: dict[int, Arrivals]) -> None:
        super().__init__((ULAW_8K, SLIN_8K), heard=arrivals.frame)
        self._arrivals, self._everyone = arrivals, everyone

    async def close(self) -> None:
        self._everyone.pop(id(self._arrivals), None)
        await super().close()


def weighed() -> dict[str, int]:
    """The resources that the process holds."""
    gc.collect()
    status = Path("/proc/self/status").read_text().splitlines()
    return {
        "tasks": len(asyncio.all_tasks()),
        "handles": sum(1 for _ in Path("/proc/self/fd").iterdir()),
        "rss_kb": next(int(line.split()[1]) for line in status if line.startswith("VmRSS:")),
    }


async def _serve(file: Path, *, echo: bool) -> None:
    engine = LoadEngine(load(file, os.environ).config, echo=echo)
    await engine.start()
    try:
        if not await engine.line_ready(20):
            raise SystemExit("Asterisk does not answer")
        timer = LagTimer()
        say({"ready": True})
        loop = asyncio.get_running_loop()
        lines = asyncio.StreamReader()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
        pacing = engine.pacing()
        while order := (await lines.readline()).strip():
            if order == b"start":
                timer.lags.clear()
                pacing = engine.pacing()
                for arrivals in engine.arrivals.values():
                    arrivals.begin()
                say({})
            elif order == b"stop":
                say({**_counted(engine, pacing), "lags": timer.lags})
            else:
                say(weighed())
        timer.stop()
    finally:
        await engine.stop(grace=0)


def _counted(engine: LoadEngine, before: dict[str, int]) -> dict[str, Any]:
    # A call that arrived meanwhile has its own start; a silent one has no frames.
    calls = list(engine.arrivals.values())
    return {
        "calls": len(engine.registry.calls),
        "frames": sum(call.count for call in calls),
        "late": sum(call.late for call in calls),
        "lost": sum(call.lost for call in calls),
        **{name: count - before[name] for name, count in engine.pacing().items()},
    }


if __name__ == "__main__":
    configure(json=False, level="ERROR", secrets=())
    run_async(_serve(Path(sys.argv[1]), echo=sys.argv[2] == "echo"))
