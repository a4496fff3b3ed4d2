"""Measures how long a large result blocks the event loop, and how soon a huge one is refused.

The results are 5 MB in three shapes: one long text, an array of small objects (`structuredContent`)
and many small parts, which ours refuses as too many to speak. *Desk* is the full path of a tool
call, the supervised server included: checks, the cap for the agent, the spoken words. Each is
requested several times; the worst counts.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from mcp import ClientSession
from mcp.shared.exceptions import MCPError

from bench.mcp_hold import SETTLE, ticking
from bench.mcp_servers import READY_SECONDS, bare_session, config, supervised
from bench.report import Report, Target
from cordboard.config.schema import Config
from cordboard.errors import McpError
from cordboard.generation.generation import Generation
from cordboard.mcp.supervision.server import SupervisedServer
from cordboard.tools.call_line import NoCaller
from cordboard.tools.desk.desk import Desk
from cordboard.tools.tool import Status, ToolAsk

ROUNDS = 5
IDLE_SECONDS = 2.0
LARGE: tuple[tuple[str, str, dict[str, int]], ...] = (
    ("one text", "huge", {"bytes": 5_000_000}),
    ("138,000 objects", "rows", {"count": 138_000}),
    ("119,000 parts", "parts", {"count": 119_000}),
)
"""Its name, the tool, its arguments."""
TOO_LARGE: tuple[tuple[str, str, dict[str, int]], ...] = (
    ("its id first", "huge", {"bytes": 50_000_000}),
    ("its id last", "huge_id_last", {"bytes": 50_000_000}),
)
TIMEOUT = 10.0
Progress = Callable[[str], None]
Ask = Callable[[str, dict[str, int]], Awaitable[str]]
"""Calls a tool; returns its outcome in one word."""


@dataclass(slots=True)
class Large:
    """One kind of result on one path."""

    shape: str
    way: str
    outcome: str = ""
    took: list[float] = field(default_factory=list)
    held: list[float] = field(default_factory=list)
    """The longest hold of each round."""

    @property
    def row(self) -> list[str]:
        return [
            f"{self.shape}, {self.way}",
            self.outcome,
            f"{sorted(self.took)[len(self.took) // 2] * 1000:.0f}",
            f"{sorted(self.held)[len(self.held) // 2] * 1000:.1f}",
            f"{max(self.held) * 1000:.1f}",
        ]


async def measure_large(report: Report, progress: Progress) -> None:
    """Add two tables and their targets to the report."""
    idle = await _idle()
    progress(f"large: with nothing to do, the longest hold is {idle * 1000:.1f} ms")
    found: list[Large] = []
    ways = (("ours", _ours), ("desk", _desk), ("bare session", _bare))
    for shape, tool, arguments in LARGE:
        for way, opened in ways:
            async with opened() as ask:
                large = await _ask_often(Large(shape, way), ask, tool, arguments, ROUNDS)
            progress(f"large: 5 MB, {', '.join(large.row)} ms")
            found.append(large)
    heads = ["result, way", "outcome", "took, median", "held, median", "held, longest"]
    report.table("A 5 MB result, ms", heads, [large.row for large in found])
    report.notes.append(f"with nothing to do, the longest hold was {idle * 1000:.1f} ms")
    held = max(max(large.held) for large in found if large.way != "bare session")
    report.targets.append(Target("5 MB, longest hold", held * 1000, 25, "ms"))
    report.figures["large"] = [_figures(large) for large in found]
    await _measure_too_large(report, progress)


async def _measure_too_large(report: Report, progress: Progress) -> None:
    found: list[Large] = []
    rows: list[list[str]] = []
    for shape, tool, arguments in TOO_LARGE:
        async with _ours() as ask:
            large = Large(shape, "ours")
            nexts = []
            for _ in range(ROUNDS):
                await _ask_often(large, ask, tool, arguments, 1)
                began = time.perf_counter()
                await ask("echo", {})
                nexts.append(time.perf_counter() - began)
        rows.append([*large.row, f"{max(nexts) * 1000:.0f}"])
        found.append(large)
        progress(f"large: 50 MB, {', '.join(rows[-1])} ms")
    async with _bare() as ask:
        bare = await _ask_often(Large(TOO_LARGE[0][0], "bare session"), ask, *TOO_LARGE[0][1:], 1)
    rows.append([*bare.row, ""])
    progress(f"large: 50 MB, {', '.join(bare.row)} ms")
    heads = ["result, way", "outcome", "took", "held", "held, longest", "next call answered"]
    report.table("A 50 MB result, ms", heads, rows)
    report.targets += [
        Target("50 MB, refused after", max(max(large.took) for large in found), 0.5, "s"),
        Target("50 MB, longest hold", max(max(x.held) for x in found) * 1000, 25, "ms"),
    ]
    report.figures["too_large"] = [_figures(large) for large in (*found, bare)]


async def _ask_often(
    large: Large, ask: Ask, tool: str, arguments: dict[str, int], rounds: int
) -> Large:
    for _ in range(rounds):
        async with ticking() as gaps:
            began = time.perf_counter()
            outcome = await ask(tool, arguments)
            large.took.append(time.perf_counter() - began)
            await asyncio.sleep(SETTLE)  # objects freed now count too
        if large.outcome not in {"", outcome}:
            raise McpError(f"{large.shape}, {large.way}: {large.outcome}, then {outcome}")
        large.outcome = outcome
        large.held.append(gaps.longest)
    return large


async def _idle() -> float:
    async with ticking() as gaps:
        await asyncio.sleep(IDLE_SECONDS)
    return gaps.longest


@asynccontextmanager
async def _ours() -> AsyncIterator[Ask]:
    async with supervised("ours") as server:
        yield lambda tool, arguments: _outcome_of_ours(server, tool, arguments)


async def _outcome_of_ours(server: SupervisedServer, tool: str, arguments: dict[str, Any]) -> str:
    try:
        await server.call(tool, arguments, TIMEOUT)
    except McpError:
        return "refused"
    return "result"


@asynccontextmanager
async def _desk() -> AsyncIterator[Ask]:
    tools = [f"mcp_ours_{tool}" for _, tool, _ in LARGE]
    server = config(defaults={"timeout_ms": int(TIMEOUT * 1000)})
    generation = Generation(
        Config.model_validate(
            {
                "contexts": {"demo": {"tools": tools}},
                "mcp": {"lock": "off", "servers": {"ours": server}},
            }
        )
    )
    generation.start()
    try:
        if not await generation.fleet.wait_settled(READY_SECONDS):
            raise McpError("the server did not start")
        desk = Desk(generation.toolbox("demo"), NoCaller("bench", "demo"))
        turns = itertools.count(1)  # the desk limits the calls of one turn
        yield lambda tool, arguments: _outcome_of_desk(desk, tool, arguments, next(turns))
    finally:
        await generation.close()


async def _outcome_of_desk(desk: Desk, tool: str, arguments: dict[str, Any], turn: int) -> str:
    reply = await desk.run(ToolAsk(f"{turn}.1", f"mcp_ours_{tool}", arguments, turn))
    if reply.status is Status.REFUSED:
        raise McpError(f"the desk has not asked the server: {reply.message}")
    return "result" if reply.ok else "refused"


@asynccontextmanager
async def _bare() -> AsyncIterator[Ask]:
    async with bare_session() as session:
        yield lambda tool, arguments: _outcome_of_bare(session, tool, arguments)


async def _outcome_of_bare(session: ClientSession, tool: str, arguments: dict[str, Any]) -> str:
    try:
        await session.call_tool(tool, arguments, read_timeout_seconds=TIMEOUT)
    except MCPError:
        return "timed out"
    return "result"


def _figures(large: Large) -> dict[str, object]:
    return {
        "shape": large.shape,
        "way": large.way,
        "outcome": large.outcome,
        "took_s": large.took,
        "held_s": large.held,
    }
