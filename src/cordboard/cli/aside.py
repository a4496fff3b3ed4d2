"""MCP servers started for one look, without an engine: handshake, list of tools, end."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

import mcp_types as types

from cordboard.config.load import LoadedConfig
from cordboard.config.mcp import McpRestart, McpServer
from cordboard.mcp.server import SupervisedServer
from cordboard.mcp.status import ServerState
from cordboard.observe.logging import configure


@dataclass(frozen=True, slots=True)
class Trial:
    """How it went."""

    server: str
    ok: bool
    error: str
    took_ms: int
    """From the start to the list of tools, or to the failure."""
    protocol: str
    listing: tuple[types.Tool, ...]
    stderr: tuple[str, ...]


def quiet(loaded: LoadedConfig) -> None:
    """Have nothing logged: what is worth knowing is in the `Trial`."""
    configure(json=False, level="CRITICAL", secrets=loaded.secrets)


async def try_servers(servers: Mapping[str, McpServer]) -> list[Trial]:
    """Look at all of them side by side, in their order."""
    return await asyncio.gather(*(try_server(name, config) for name, config in servers.items()))


async def try_server(server_id: str, config: McpServer) -> Trial:
    """Start a server once, within its start timeout, and stop it again."""
    once = config.model_copy(update={"restart": McpRestart(enabled=False), "start": "boot"})
    server = SupervisedServer(server_id, once)
    loop = asyncio.get_running_loop()
    began = loop.time()
    server.start()
    try:
        await server.settled.wait()
        took = loop.time() - began
        status, listing = server.status(), server.listing
    finally:
        await server.close()
    ok = status.state is ServerState.READY
    return Trial(
        server_id,
        ok,
        "" if ok else status.last_error,
        int(took * 1000),
        status.protocol,
        listing,
        status.stderr,
    )
