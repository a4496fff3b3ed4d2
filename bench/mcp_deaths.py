"""Time until a dead server is noticed and back, and its effect on the calls of other servers.

A server is killed (SIGKILL) during a call: alone, with a child in its process
group that holds its output open, and with one in a session of its own. Restart policy and all else
are as in service; each death is the first of a new server, after which that policy pauses for up to
a second.

    noticed      kill to the end of the state `ready`: from then on calls are refused at once
    call failed  kill to the error of the call in progress
    back         kill to `ready` again; the start itself takes as long as the first one took

Three other servers are called all the time. Their calls between the kill and the return are
compared with those of as long a time before the kill.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

from bench.mcp_servers import READY_SECONDS, config, supervised
from bench.report import Report, Summary, Target
from cordboard.errors import McpError, McpUnavailable
from cordboard.mcp.supervision.server import ServerState, SupervisedServer

ROUNDS = 5
OTHERS = 3
EVERY = 0.01
"""Seconds between two calls to each of the others."""
BEFORE = 1.2
"""Seconds of calls before each death; about as long as the server is away."""
TIMEOUT = 10.0
WAYS: tuple[tuple[str, str], ...] = (
    ("alone", ""),
    ("with a child that holds its output", "leaves_grandchild"),
    ("the same, in its own session", "escapes"),
)
"""A way to die, and the tool that prepares it."""
Progress = Callable[[str], None]


@dataclass(slots=True)
class Deaths:
    """All deaths of one way, in seconds."""

    way: str
    noticed: list[float] = field(default_factory=list)
    call_failed: list[float] = field(default_factory=list)
    back: list[float] = field(default_factory=list)
    start: list[float] = field(default_factory=list)
    """Duration of the first start."""

    @property
    def beyond_start(self) -> list[float]:
        return [back - start for back, start in zip(self.back, self.start, strict=True)]

    @property
    def row(self) -> list[str]:
        cells = []
        for values in (self.noticed, self.call_failed, self.back, self.start):
            summary = Summary.of(values)
            cells.append(f"{summary.median * 1000:.1f} / {summary.most * 1000:.1f}")
        return [self.way, str(len(self.back)), *cells]


@dataclass(slots=True)
class OtherCalls:
    """Durations of the calls to the other servers, in seconds."""

    calls: list[tuple[float, float]] = field(default_factory=list)
    """Start and duration of each."""
    before: list[float] = field(default_factory=list)
    during: list[float] = field(default_factory=list)

    def sort_in(self, killed_at: float, back_at: float) -> None:
        """Separate the calls before a death from those until the return."""
        for began, took in self.calls:
            if killed_at - BEFORE <= began < killed_at:
                self.before.append(took)
            elif killed_at <= began < back_at:
                self.during.append(took)
        self.calls.clear()


class Victim:
    """A server that will be killed, and the moments of its life on `perf_counter`."""

    def __init__(self) -> None:
        self.server = SupervisedServer("victim", config(), on_change=self._note)
        self.killed_at = self.down_at = self.back_at = 0.0
        self.down, self.back = asyncio.Event(), asyncio.Event()

    def kill(self) -> None:
        pid = self.server.status().pid
        if pid is None:
            raise McpError("the server is not running")
        self.killed_at = time.perf_counter()
        os.kill(pid, signal.SIGKILL)

    async def last_call(self) -> float:
        """A call in progress when the server dies; returns the time of its failure."""
        try:
            await self.server.call("hangs", {}, TIMEOUT)
        except McpUnavailable:
            return time.perf_counter()
        raise McpError("a server that hangs has answered")

    def _note(self) -> None:
        is_ready = self.server.state is ServerState.READY
        if self.killed_at and not self.down_at and not is_ready:
            self.down_at = time.perf_counter()
            self.down.set()
        elif self.down_at and not self.back_at and is_ready:
            self.back_at = time.perf_counter()
            self.back.set()


async def measure_deaths(report: Report, progress: Progress) -> None:
    """Add two tables and their targets to the report."""
    found: list[Deaths] = []
    async with _others() as others:
        for way, tool in WAYS:
            deaths = Deaths(way)
            for _ in range(ROUNDS):
                await _one_death(deaths, tool, others)
            progress(f"deaths: {', '.join(deaths.row)} ms")
            found.append(deaths)
    heads = ["killed", "n", "noticed", "call failed", "back", "its own start"]
    report.table("A dead server, ms, median / longest", heads, [deaths.row for deaths in found])
    before, during = Summary.of(others.before), Summary.of(others.during)
    report.table(
        "Calls to the three other servers, ms",
        ["when", "n", "p50", "p99", "max"],
        [
            [name, str(s.count), *(f"{value * 1000:.2f}" for value in (s.median, s.p99, s.most))]
            for name, s in (("before a death", before), ("until the server is back", during))
        ],
    )
    report.targets += [
        Target("death noticed, longest", max(max(d.noticed) for d in found) * 1000, 100, "ms"),
        Target(
            "back, beyond its own start, longest", max(max(d.beyond_start) for d in found), 2, "s"
        ),
        Target("others' p99, more than before", (during.p99 - before.p99) * 1000, 1, "ms"),
    ]
    report.figures["deaths"] = [
        {
            "way": deaths.way,
            "noticed_s": deaths.noticed,
            "call_failed_s": deaths.call_failed,
            "back_s": deaths.back,
            "start_s": deaths.start,
        }
        for deaths in found
    ]
    report.figures["others_before_s"] = others.before
    report.figures["others_during_s"] = others.during


async def _one_death(deaths: Deaths, tool: str, others: OtherCalls) -> None:
    victim = Victim()
    began = time.perf_counter()
    victim.server.start()
    try:
        if not await victim.server.wait_ready(READY_SECONDS):
            raise McpError(f"the server did not start: {victim.server.status().last_error}")
        deaths.start.append(time.perf_counter() - began)
        if tool:
            await victim.server.call(tool, {}, TIMEOUT)
        last_call = asyncio.create_task(victim.last_call())
        await asyncio.sleep(BEFORE)
        victim.kill()
        failed_at = await last_call
        async with asyncio.timeout(READY_SECONDS):
            await victim.back.wait()
    finally:
        await victim.server.close()
    deaths.noticed.append(victim.down_at - victim.killed_at)
    deaths.call_failed.append(failed_at - victim.killed_at)
    deaths.back.append(victim.back_at - victim.killed_at)
    others.sort_in(victim.killed_at, victim.back_at)


@asynccontextmanager
async def _others() -> AsyncIterator[OtherCalls]:
    """Healthy servers, called all the time."""
    calls = OtherCalls()
    async with AsyncExitStack() as stack:
        names = [f"other_{number}" for number in range(OTHERS)]
        servers = [await stack.enter_async_context(supervised(name)) for name in names]
        callers = [asyncio.create_task(_keep_calling(server, calls)) for server in servers]
        try:
            yield calls
        finally:
            for caller in callers:
                caller.cancel()
            ended = await asyncio.gather(*callers, return_exceptions=True)
        for end in ended:
            if isinstance(end, McpError):  # a call failed that was unrelated to the death
                raise end


async def _keep_calling(server: SupervisedServer, others: OtherCalls) -> None:
    while True:
        began = time.perf_counter()
        await server.call("echo", {"text": "a"}, TIMEOUT)
        others.calls.append((began, time.perf_counter() - began))
        await asyncio.sleep(EVERY)
