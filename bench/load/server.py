"""The subject of `load` and `admin`: `python -m bench.load.server FILE echo|turns|pipeline`.

The engine with that configuration, a process of its own. With `echo` its callers get their own
audio back, with `turns` each call is a conversation with a ledger; no model runs for either. It
prints `{"ready": true}` when it accepts calls, and answers each line on standard input:

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
from cordboard.agent_api.agent import (
    Agent,
    AgentAudio,
    AgentAudioDone,
    AgentSession,
    AgentText,
    CallerStarted,
    CallerStopped,
    CallerText,
)
from cordboard.audio.format import SLIN_8K, ULAW_8K
from cordboard.calls.binding import Binding
from cordboard.cli.options import run_async
from cordboard.config.load import ConfigSource, LoadedConfig, load
from cordboard.observe.logging import configure
from cordboard.runtime.engine import Engine

FRAME = 0.02
TURN_FRAMES = 250
"""One turn of the agent `turns`: 2 s of the caller, 2 s of the answer, 1 s of silence."""
CALLER_FRAMES = ANSWER_FRAMES = 100


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
    """The engine; its agents count frames, unless they are `pipeline`."""

    def __init__(self, loaded: LoadedConfig, agent: str) -> None:
        source = None
        if loaded.config.admin.ui.enabled:  # only the admin port asks for the file again
            source = ConfigSource(loaded.path, os.environ, loaded.digests, loaded.content)
        super().__init__(loaded.config, source=source, sheds_load=False)
        self._agent = agent
        self.arrivals: dict[int, Arrivals] = {}

    def _open_agent(self, binding: Binding) -> Agent:
        if self._agent == "pipeline":
            return super()._open_agent(binding)
        arrivals = Arrivals()
        self.arrivals[id(arrivals)] = arrivals
        kind = _Turns if self._agent == "turns" else _Counted
        return kind(arrivals, self.arrivals)

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


class _Turns(_Counted):
    """One turn after the other, by the count of frames: the caller's own voice is the answer."""

    def __init__(self, arrivals: Arrivals, everyone: dict[int, Arrivals]) -> None:
        super().__init__(arrivals, everyone)
        # As unrelated calls do, they speak at different times.
        self._frame = len(everyone) * 37 % TURN_FRAMES
        self._turn = 0
        self._talk: AgentSession | None = None

    async def start(self, session: AgentSession) -> None:
        self._talk = session

    def hear(self, pcm: bytes) -> None:
        super().hear(pcm)
        if self._talk is None:
            return
        self._frame = (self._frame + 1) % TURN_FRAMES
        if self._frame == 1:
            self._turn += 1
            self._talk.emit(CallerStarted(asyncio.get_running_loop().time()))
        if self._turn == 0:
            return
        if self._frame == CALLER_FRAMES:
            self._answer(self._talk)
        elif CALLER_FRAMES < self._frame <= CALLER_FRAMES + ANSWER_FRAMES:
            self._talk.emit(AgentAudio(self._turn, pcm))
        elif self._frame == CALLER_FRAMES + ANSWER_FRAMES + 1:
            self._talk.emit(AgentAudioDone(self._turn))

    def _answer(self, talk: AgentSession) -> None:
        now = asyncio.get_running_loop().time()
        talk.emit(CallerStopped(self._turn, now - 0.3, now))
        talk.emit(CallerText(self._turn, f"Question {self._turn}; call +47 22 33 44 56.", now))
        talk.emit(AgentText(self._turn, f"Answer {self._turn}: I call +47 22 33 44 56.", now))


def weighed() -> dict[str, int]:
    """The resources that the process holds."""
    gc.collect()
    status = Path("/proc/self/status").read_text().splitlines()
    return {
        "tasks": len(asyncio.all_tasks()),
        "handles": sum(1 for _ in Path("/proc/self/fd").iterdir()),
        "rss_kb": next(int(line.split()[1]) for line in status if line.startswith("VmRSS:")),
    }


async def _serve(file: Path, agent: str) -> None:
    engine = LoadEngine(load(file, os.environ), agent)
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
    run_async(_serve(Path(sys.argv[1]), sys.argv[2]))
