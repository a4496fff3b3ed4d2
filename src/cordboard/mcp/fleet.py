"""The fleet: all MCP servers of one generation, started side by side, offering their tools.

`start` returns at once; no server delays the engine or another server. The servers themselves are
shared with other generations (`cordboard.mcp.pool`); which of their tools are offered, under which
names and by which rules, is each fleet's own. What a server offers is known when it is ready, stays
offered while it restarts (calls to it are then answered at once with an apology), and is withdrawn
when it is given up or stopped. Where a server's `tools:` is not empty, only the tools named there
are offered, in that order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

import mcp_types as types
import structlog

from cordboard.config.mcp import Mcp, McpDefaults, McpServer
from cordboard.config.mcp import McpTool as ToolConfig
from cordboard.config.naming import exposed_name
from cordboard.errors import ConfigProblem
from cordboard.mcp.pool import Lease, Replacement, ServerPool
from cordboard.mcp.server import ServerState, ServerStatus, SupervisedServer
from cordboard.mcp.tool import McpTool
from cordboard.tools.catalogue import ToolEntry

log = structlog.get_logger()


class Fleet:
    """All servers of one `mcp:` section."""

    def __init__(
        self, config: Mcp, pool: ServerPool | None = None, earlier: Fleet | None = None
    ) -> None:
        """`pool` is where servers are shared. `earlier` lends the tools that it has made of the
        same listings, so that a reload compiles only what is new."""
        self._pool = pool or ServerPool()
        self._on_change: Callable[[], None] = lambda: None
        self._tools: dict[tuple[str, str], McpTool] = {} if earlier is None else {**earlier._tools}
        self._leases: dict[str, Lease] = {}
        self.configs: Mapping[str, McpServer] = {
            server_id: server
            for server_id, server in config.servers.items()
            if config.enabled and server.enabled
        }
        """The enabled servers' configurations by id, in the order of the file."""

    # The servers.

    @property
    def servers(self) -> Mapping[str, SupervisedServer]:
        """The servers by id, in the order of the file; none before `start`."""
        return {server_id: lease.server for server_id, lease in self._leases.items()}

    @property
    def leases(self) -> Mapping[str, Lease]:
        """The claims on them."""
        return self._leases

    @property
    def outdated(self) -> tuple[str, ...]:
        """The servers that run by an older configuration, until `take_over`."""
        return tuple(name for name, lease in self._leases.items() if lease.outdated)

    def on_change(self, callback: Callable[[], None]) -> None:
        """Have a callback called whenever tools may have come or gone. Replaces the last one."""
        self._on_change = callback

    def start(self, replacement: Replacement = Replacement.BESIDE) -> None:
        """Begin to start all servers but the lazy ones, of changed ones see `Replacement`; returns
        at once. Once only."""
        for server_id, config in self.configs.items():
            self._leases[server_id] = self._pool.lease(
                server_id, config, self._changed, replacement
            )
        for server_id, config in self.configs.items():
            if config.start == "boot":
                self._leases[server_id].start()
        self._changed()

    def wake(self, tools: Iterable[str]) -> None:
        """Begin to start the lazy servers that have a tool of these exposed names; at once."""
        wanted = frozenset(tools)
        for server_id, lease in self._leases.items():
            names = (
                tool.expose_as or exposed_name(server_id, tool.name)
                for tool in self.configs[server_id].tools
            )
            if not lease.begun and any(name in wanted for name in names):
                log.info("mcp_server_needed", server=server_id)
                lease.start()

    def take_over(self) -> tuple[str, ...]:
        """Replace every outdated server by one of today's configuration, which starts when the old
        one has ended. Returns at once, with their ids."""
        taken = self.outdated
        for server_id in taken:
            old = self._leases[server_id]
            new = self._pool.lease(
                server_id, self.configs[server_id], self._changed, Replacement.AFTER
            )
            self._leases[server_id] = new
            old.release()
            if old.begun or self.configs[server_id].start == "boot":
                new.start()
        if taken:
            self._changed()
        return taken

    async def close(self) -> None:
        """Give all servers back; those nobody else holds are stopped, side by side, and nothing of
        them is left afterwards. Idempotent."""
        self._on_change = lambda: None
        endings = [lease.release() for lease in self._leases.values()]
        if endings:
            await asyncio.wait(endings)

    async def wait_settled(self, timeout: float) -> bool:
        """Whether the outcome of every server's first start is known within `timeout` seconds."""
        waited = [lease.server.settled for lease in self._leases.values() if lease.begun]
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                for settled in waited:
                    await settled.wait()
        return all(settled.is_set() for settled in waited)

    def status(self) -> tuple[ServerStatus, ...]:
        """A snapshot of every server."""
        return tuple(lease.status() for lease in self._leases.values())

    def _changed(self) -> None:
        self._on_change()

    # What they offer.

    def tools(self) -> tuple[ToolEntry, ...]:
        """The tools offered now, in the order of the file and of the servers' listings.

        A tool that has not changed is the same object as before.
        """
        offered = {
            (server_id, tool.listed.name): tool
            for server_id, lease in self._leases.items()
            for tool in self._tools_of(server_id, lease)
        }
        self._tools = offered  # what is no longer listed is forgotten
        return tuple(
            ToolEntry(tool, chosen=tool.override is not None and bool(tool.override.expose_as))
            for tool in offered.values()
        )

    def problems(self) -> tuple[ConfigProblem, ...]:
        """Servers that are down and tools that a ready server does not have. None is fatal."""
        found: list[ConfigProblem] = []
        for server_id, lease in self._leases.items():
            key = f"mcp.servers.{server_id}"
            status = lease.status()
            if status.state is ServerState.READY:
                found.extend(_unlisted(key, lease.listing, self.configs[server_id].tools))
            elif status.state is not ServerState.STOPPED:
                error = status.last_error
                words = f"the server is {status.state}{': ' + error if error else ''}"
                found.append(ConfigProblem(words, key=key, fatal=False))
        return tuple(found)

    def _tools_of(self, server_id: str, lease: Lease) -> list[McpTool]:
        config = self.configs[server_id]
        return [
            self._tool(lease.server, listed, override, config.defaults)
            for listed, override in _chosen(lease.listing, config.tools)
        ]

    def _tool(
        self,
        server: SupervisedServer,
        listed: types.Tool,
        override: ToolConfig | None,
        defaults: McpDefaults,
    ) -> McpTool:
        key = (server.id, listed.name)
        known = self._tools.get(key)
        if known is None or (known.server, known.listed, known.override, known.defaults) != (
            server,
            listed,
            override,
            defaults,
        ):
            known = self._tools[key] = McpTool(server, listed, override, defaults)
        return known


def _chosen(
    listing: tuple[types.Tool, ...], configured: tuple[ToolConfig, ...]
) -> list[tuple[types.Tool, ToolConfig | None]]:
    if not configured:
        return [(listed, None) for listed in listing]
    by_name = {listed.name: listed for listed in listing}
    return [(by_name[tool.name], tool) for tool in configured if tool.name in by_name]


def _unlisted(
    key: str, listing: tuple[types.Tool, ...], configured: tuple[ToolConfig, ...]
) -> list[ConfigProblem]:
    names = {listed.name for listed in listing}
    has = ", ".join(sorted(names)) or "none"
    return [
        ConfigProblem(
            f"the server has no tool {tool.name!r}; it has: {has}",
            key=f"{key}.tools.{index}.name",
            fatal=False,
        )
        for index, tool in enumerate(configured)
        if tool.name not in names
    ]
