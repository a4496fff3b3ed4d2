"""MCP servers started for one inspection, without an engine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from cordboard.config.load import LoadedConfig
from cordboard.config.mcp import McpServer
from cordboard.config.schema import Config
from cordboard.generation.generation import Generation
from cordboard.mcp.definitions.lock import try_load_lock
from cordboard.mcp.trial import TestReport, try_out
from cordboard.observe.logging import configure


def quiet(loaded: LoadedConfig) -> None:
    """Silence the log: the reports contain what matters."""
    configure(json=False, level="CRITICAL", secrets=loaded.secrets)


async def try_servers(servers: Mapping[str, McpServer]) -> dict[str, TestReport]:
    """Test all servers side by side; the reports keep their order."""
    reports = await asyncio.gather(*(try_out(name, server) for name, server in servers.items()))
    return dict(zip(servers, reports, strict=True))


@asynccontextmanager
async def generation_aside(loaded: LoadedConfig) -> AsyncIterator[Generation]:
    """Yield all tools of a configuration, with its servers started; they end afterwards."""
    config = loaded.config
    lock = None
    if config.mcp.lock != "off":
        path = loaded.path.parent / config.mcp.lock_file
        lock = await asyncio.to_thread(try_load_lock, path)
    generation = Generation(config, lock=lock)
    try:
        await generation.prepare()
        generation.start()
        fleet = generation.fleet
        fleet.wake(fleet.servers)
        await fleet.wait_settled(_longest_start(config))
        yield generation
    finally:
        await generation.close()


def _longest_start(config: Config) -> float:
    """Return the seconds after which every server has started or failed."""
    servers = config.mcp.servers.values()
    return max((server.start_timeout_ms for server in servers), default=0) / 1000 + 5
