"""The overhead of the desk and the supervised server per tool call.

The aviation ATIS server runs twice, both over stdio: once below the engine's fleet and a call's
desk (arguments checked, policy, timeout, words, payload, ledger fields), once below a bare
`ClientSession` of the official SDK. Both get the same question in turns. `bench.desk_cost` has the
cost of desk and toolbox without any server.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

from bench import desk_cost
from bench.engine_process import ROOT, demo_config
from bench.report import Report, Summary
from cordboard.config.schema import Config
from cordboard.errors import McpError
from cordboard.generation.generation import Generation
from cordboard.tools.call_line import NoCaller
from cordboard.tools.desk.desk import Desk
from cordboard.tools.tool import ToolAsk

CALLS = 500
WARM_UP = 20
TOOL, EXPOSED = "get_atis", "mcp_aviation_atis_get_atis"
ARGUMENTS = {"icao": "ENGM"}
SERVER = ["-m", "cordboard.mcp_servers.aviation_atis", "--config", "config/aviation_atis.yaml"]
Progress = Callable[[str], None]


async def measure(progress: Progress) -> Report:
    generation = Generation(_on_this_python(demo_config()))
    generation.start()
    try:
        with nowhere() as silent:
            through_desk, bare = await _both(generation, silent, progress)
    finally:
        await generation.close()
    report = _report(through_desk, bare)
    progress("the desk and the toolbox alone")
    await desk_cost.measure(report)
    return report


async def _both(
    generation: Generation, silent: TextIO, progress: Progress
) -> tuple[list[float], list[float]]:
    parameters = StdioServerParameters(command=sys.executable, args=SERVER, cwd=ROOT)
    async with (
        stdio_client(parameters, errlog=silent) as (read, write),
        ClientSession(read, write) as session,
    ):
        await session.initialize()
        if not await generation.fleet.wait_settled(30):
            raise McpError("the ATIS server did not start")
        progress(f"both servers are up; {CALLS} calls each, in turns")
        return await _race(Desk(generation.toolbox("demo"), NoCaller("bench", "demo")), session)


@contextmanager
def nowhere() -> Iterator[TextIO]:
    """Discards the bare server's log; the fleet also keeps its servers' logs off the screen."""
    with Path(os.devnull).open("w") as file:
        yield file


def _on_this_python(config: Config) -> Config:
    server = config.mcp.servers["aviation_atis"].model_copy(
        update={"command": (sys.executable, *SERVER), "cwd": ROOT}
    )
    mcp = config.mcp.model_copy(update={"servers": {"aviation_atis": server}})
    return config.model_copy(update={"mcp": mcp})


async def _race(desk: Desk, session: ClientSession) -> tuple[list[float], list[float]]:
    through_desk, bare = [], []
    for turn in range(WARM_UP + CALLS):
        began = time.perf_counter()
        reply = await desk.run(ToolAsk(f"{turn}.1", EXPOSED, ARGUMENTS, turn))
        between = time.perf_counter()
        result = await session.call_tool(TOOL, ARGUMENTS)
        ended = time.perf_counter()
        if not reply.ok or result.is_error:
            raise McpError(f"a call failed: {reply.message}")
        if turn >= WARM_UP:
            through_desk.append(between - began)
            bare.append(ended - between)
        await asyncio.sleep(0)
    return through_desk, bare


def _report(through_desk: list[float], bare: list[float]) -> Report:
    report = Report("desk")
    rows = [
        [name, str(s.count), *(f"{value * 1000:.2f}" for value in (s.median, s.p99, s.most))]
        for name, s in (
            ("desk and supervised server", Summary.of(through_desk)),
            ("bare ClientSession (the floor)", Summary.of(bare)),
        )
    ]
    report.table("One tool call over stdio, ms", ["way", "n", "p50", "p99", "max"], rows)
    report.figures = {"desk_s": through_desk, "bare_s": bare}
    return report
