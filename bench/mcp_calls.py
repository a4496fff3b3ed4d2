"""Overhead of our connection per call, against the bare SDK session: 1,000 calls each, in turns."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

from mcp import ClientSession

from bench.mcp_servers import bare_session, supervised
from bench.report import Report, Summary, Target
from cordboard.mcp.supervision.server import SupervisedServer

CALLS = 1_000
WARM_UP = 200
TIMEOUT = 10.0
TOOL, ARGUMENTS = "echo", {"text": "Runway two seven is in use."}
Progress = Callable[[str], None]


async def measure_calls(
    report: Report, progress: Progress, calls: int = CALLS, warm_up: int = WARM_UP
) -> None:
    """Add a table and two targets to the report."""
    async with supervised("ours") as server, bare_session() as session:
        progress(f"calls: both servers are up; {calls} calls each, in turns")
        ours, bare = await _race(server, session, calls, warm_up)
    rows = []
    for name, seconds in (("SupervisedServer", ours), ("bare ClientSession", bare)):
        s = Summary.of(seconds)
        rows.append(
            [name, str(s.count), *(f"{v * 1000:.2f}" for v in (s.median, s.p95, s.p99, s.most))]
        )
    report.table("One call over stdio, ms", ["way", "n", "p50", "p95", "p99", "max"], rows)
    own, floor = Summary.of(ours), Summary.of(bare)
    report.targets += [
        Target("added to a call, p50", (own.median - floor.median) * 1000, 0.1, "ms"),
        Target("added to a call, p99", (own.p99 - floor.p99) * 1000, 0.7, "ms"),
    ]
    report.figures["call_ours_s"] = ours
    report.figures["call_bare_s"] = bare


async def _race(
    server: SupervisedServer, session: ClientSession, calls: int, warm_up: int
) -> tuple[list[float], list[float]]:
    """The seconds of each call, ours and the SDK's. The order alternates with each turn, because
    the second call finds the processor's caches warm."""
    ours: list[float] = []
    bare: list[float] = []

    async def call_ours() -> None:
        ours.append(await _timed(server.call(TOOL, ARGUMENTS, TIMEOUT)))

    async def call_bare() -> None:
        bare.append(await _timed(session.call_tool(TOOL, ARGUMENTS, read_timeout_seconds=TIMEOUT)))

    for turn in range(warm_up + calls):
        both = (call_ours, call_bare) if turn % 2 else (call_bare, call_ours)
        for call in both:
            await call()
    return ours[warm_up:], bare[warm_up:]


async def _timed(call: Awaitable[object]) -> float:
    began = time.perf_counter()
    await call
    return time.perf_counter() - began
