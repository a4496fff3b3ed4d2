"""MCP servers started for one look, without an engine."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from cordboard.config.load import LoadedConfig
from cordboard.config.mcp import McpServer
from cordboard.mcp.trial import TestReport, try_out
from cordboard.observe.logging import configure


def quiet(loaded: LoadedConfig) -> None:
    """Have nothing logged: what is worth knowing is in the reports."""
    configure(json=False, level="CRITICAL", secrets=loaded.secrets)


async def try_servers(servers: Mapping[str, McpServer]) -> dict[str, TestReport]:
    """Look at all of them side by side; in their order."""
    reports = await asyncio.gather(*(try_out(name, server) for name, server in servers.items()))
    return dict(zip(servers, reports, strict=True))
