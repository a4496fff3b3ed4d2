"""The cost of supervising MCP servers, and the effect of a broken server on the others.

    calls    our connection beside the bare session of the official SDK
    large    5 MB and 50 MB results: how long the event loop is blocked
    deaths   a killed server: noticed, back, and other servers' calls meanwhile
    boot     `cordboard run` with twenty servers, five of them broken, beside none

Over stdio, on the event loop that the engine runs on. `--only` selects some of the four.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from bench.mcp_boot import measure_boot
from bench.mcp_calls import measure_calls
from bench.mcp_deaths import measure_deaths
from bench.mcp_large import measure_large
from bench.options import Options
from bench.report import Report

Progress = Callable[[str], None]
PARTS: Mapping[str, Callable[[Report, Progress], Awaitable[None]]] = {
    "calls": measure_calls,
    "large": measure_large,
    "deaths": measure_deaths,
    "boot": measure_boot,
}


async def measure(progress: Progress, options: Options) -> Report:
    """Raises `McpError` when a server that should work does not."""
    report = Report("mcp")
    for name, part in PARTS.items():
        if options.chosen(name):
            await part(report, progress)
    return report
