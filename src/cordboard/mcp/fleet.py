"""The fleet: all MCP servers of one generation, started side by side, offering their tools.

`start` returns at once; no server delays the engine or another server. What a server offers is
known when it is ready, stays offered while it restarts (calls to it are then answered at once with
an apology), and is withdrawn when it is given up or stopped. Where a server's `tools:` is not
empty, only the tools named there are offered, in that order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

import mcp_types as types
import structlog

from cordboard.config.mcp import Mcp
from cordboard.config.mcp import McpTool as ToolConfig
from cordboard.errors import ConfigProblem
from cordboard.mcp.server import ServerObserver, ServerState, ServerStatus, SupervisedServer
from cordboard.mcp.tool import McpTool
from cordboard.tools.catalogue import ToolEntry

log = structlog.get_logger()


class Fleet:
    """All servers of one `mcp:` section."""

    def __init__(self, config: Mcp, observer: ServerObserver | None = None) -> None:
        self._on_change: Callable[[], None] = lambda: None
        self._tools: dict[tuple[str, str], McpTool] = {}
        self.servers: dict[str, SupervisedServer] = {
            server_id: SupervisedServer(server_id, server, observer, lambda: self._on_change())
            for server_id, server in config.servers.items()
            if config.enabled and server.enabled
        }
        """The enabled servers by id, in the order of the file."""

    def on_change(self, callback: Callable[[], None]) -> None:
        """Have a callback called whenever tools may have come or gone. Replaces the last one."""
        self._on_change = callback

    def start(self) -> None:
        """Begin to start all servers; returns at once."""
        for server in self.servers.values():
            server.start()

    async def close(self) -> None:
        """Stop all servers side by side; nothing of them is left afterwards. Idempotent."""
        await asyncio.gather(*(server.close() for server in self.servers.values()))

    async def wait_settled(self, timeout: float) -> bool:
        """Whether the outcome of every server's first start is known within `timeout` seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                for server in self.servers.values():
                    await server.settled.wait()
        return all(server.settled.is_set() for server in self.servers.values())

    def tools(self) -> tuple[ToolEntry, ...]:
        """The tools offered now, in the order of the file and of the servers' listings.

        A tool that has not changed is the same object as before.
        """
        offered = {
            (server.id, tool.listed.name): tool
            for server in self.servers.values()
            for tool in self._tools_of(server)
        }
        self._tools = offered  # what is no longer listed is forgotten
        return tuple(
            ToolEntry(tool, chosen=tool.override is not None and bool(tool.override.expose_as))
            for tool in offered.values()
        )

    def status(self) -> tuple[ServerStatus, ...]:
        """A snapshot of every server."""
        return tuple(server.status() for server in self.servers.values())

    def problems(self) -> tuple[ConfigProblem, ...]:
        """Servers that are down and tools that a ready server does not have. None is fatal."""
        found: list[ConfigProblem] = []
        for server in self.servers.values():
            key = f"mcp.servers.{server.id}"
            if server.state is ServerState.READY:
                found.extend(_unlisted(key, server))
            elif server.state is not ServerState.STOPPED:
                error = server.status().last_error
                words = f"the server is {server.state}{': ' + error if error else ''}"
                found.append(ConfigProblem(words, key=key, fatal=False))
        return tuple(found)

    def _tools_of(self, server: SupervisedServer) -> list[McpTool]:
        if server.state not in {ServerState.READY, ServerState.RESTARTING}:
            return []
        return [
            self._tool(server, listed, override)
            for listed, override in _chosen(server.listing, server.config.tools)
        ]

    def _tool(
        self, server: SupervisedServer, listed: types.Tool, override: ToolConfig | None
    ) -> McpTool:
        key = (server.id, listed.name)
        known = self._tools.get(key)
        if known is None or known.listed != listed:
            known = self._tools[key] = McpTool(server, listed, override)
        return known


def _chosen(
    listing: tuple[types.Tool, ...], configured: tuple[ToolConfig, ...]
) -> list[tuple[types.Tool, ToolConfig | None]]:
    if not configured:
        return [(listed, None) for listed in listing]
    by_name = {listed.name: listed for listed in listing}
    return [(by_name[tool.name], tool) for tool in configured if tool.name in by_name]


def _unlisted(key: str, server: SupervisedServer) -> list[ConfigProblem]:
    names = {listed.name for listed in server.listing}
    has = ", ".join(sorted(names)) or "none"
    return [
        ConfigProblem(
            f"the server has no tool {tool.name!r}; it has: {has}",
            key=f"{key}.tools.{index}.name",
            fatal=False,
        )
        for index, tool in enumerate(server.config.tools)
        if tool.name not in names
    ]
