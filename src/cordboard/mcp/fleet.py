"""The fleet: all MCP servers of one generation, started side by side, and the tools they offer.

`start` returns at once; no server delays the engine or another server. The server processes and
connections are shared with other generations (`supervision.pool`); each fleet decides for itself
which of their tools are offered, under which names and by which rules. A server's tools are known
once it is ready, stay offered while it restarts (calls are then answered at once with an apology),
and are withdrawn when the server is given up or stopped. If a server's `tools:` is not empty, only
the tools named there are offered, in that order, plus those named by an entry of `kind: mcp`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial

import mcp_types as types
import structlog

from cordboard.config.mcp import Mcp, McpServer
from cordboard.config.tools.entry import McpTool as McpToolConfig
from cordboard.errors import ConfigProblem
from cordboard.mcp.definitions.lock import Lock
from cordboard.mcp.offering import Choice, Offering, OfferingLog, offer
from cordboard.mcp.printable import printable
from cordboard.mcp.supervision.pool import Lease, Replacement, ServerPool
from cordboard.mcp.supervision.server import ServerState, ServerStatus, SupervisedServer
from cordboard.mcp.tool import McpTool
from cordboard.tools.catalogue import Catalogue, ToolEntry

log = structlog.get_logger()


class Fleet:
    """All servers of one `mcp:` section."""

    def __init__(
        self,
        config: Mcp,
        pool: ServerPool | None = None,
        earlier: Fleet | None = None,
        lock: Lock | None = None,
        entries: Mapping[str, tuple[McpToolConfig, ...]] | None = None,
    ) -> None:
        """Create the fleet of one `mcp:` section.

        `pool` shares servers between generations. `earlier` is the previous fleet; its warnings are
        not repeated. `lock` holds the accepted definitions; it is used unless `mcp.lock` is `off`,
        and None means that nothing is accepted. `entries` are tools of `kind: mcp` by server; they
        count as if the server's `tools:` named them too."""
        self._pool = pool or ServerPool()
        self._on_change: Callable[[], None] = lambda: None
        self._held_back = False
        self._tools: dict[tuple[str, str], McpTool] = {}
        self._lock_mode = config.lock
        self._lock = lock
        self._offerings: dict[str, tuple[tuple[types.Tool, ...], Offering]] = {}
        self._told: OfferingLog = OfferingLog() if earlier is None else earlier._told
        self._leases: dict[str, Lease] = {}
        self.configs: Mapping[str, McpServer] = {
            server_id: server
            for server_id, server in config.servers.items()
            if config.enabled and server.enabled
        }
        """The enabled servers' configurations by id, in the order of the file."""
        self._entries: Mapping[str, tuple[McpToolConfig, ...]] = entries or {}
        self._tell_of_lock()

    # The servers.

    @property
    def servers(self) -> Mapping[str, SupervisedServer]:
        """The servers by id, in the order of the file; none before `start`."""
        return {server_id: lease.server for server_id, lease in self._leases.items()}

    @property
    def leases(self) -> Mapping[str, Lease]:
        """The leases of the servers, by id."""
        return self._leases

    @property
    def outdated(self) -> tuple[str, ...]:
        """The servers that still run with an older configuration, until `take_over`."""
        return tuple(name for name, lease in self._leases.items() if lease.outdated)

    def on_change(self, callback: Callable[[], None]) -> None:
        """Set the callback for possible changes of the tools. Replaces the previous callback."""
        self._on_change = callback

    def start(self, replacement: Replacement = Replacement.BESIDE) -> None:
        """Begin to start all servers except the lazy ones; return at once. Call it once only.

        `replacement` says how servers with a changed configuration are replaced."""
        for server_id, config in self.configs.items():
            wanted = self._with_entries(server_id, config)
            self._leases[server_id] = self._pool.lease(
                server_id, wanted, self._changed, replacement
            )
        with self._told_once():
            for server_id, config in self.configs.items():
                if config.start == "boot":
                    self._leases[server_id].start()

    def _with_entries(self, server_id: str, config: McpServer) -> McpServer:
        """Return the configuration to lease: a lazy server is expected to have all named tools."""
        tools = (*config.tools, *self._entries.get(server_id, ()))
        return config.model_copy(update={"tools": tools})

    def wake(self, servers: Iterable[str]) -> None:
        """Begin to start those of these servers that are lazy and still idle; return at once.
        Disabled and unknown servers are skipped."""
        for server_id in servers:
            lease = self._leases.get(server_id)
            if lease is not None and lease.server.state is ServerState.IDLE:
                log.info("mcp_server_needed", server=server_id)
                lease.start()

    def take_over(self) -> tuple[str, ...]:
        """Replace every outdated server by one with the current configuration, which starts when
        the old one has ended. Return their ids at once."""
        taken = self.outdated
        with self._told_once():
            for server_id in taken:
                old, config = self._leases[server_id], self.configs[server_id]
                wanted = self._with_entries(server_id, config)
                new = self._pool.lease(server_id, wanted, self._changed, Replacement.AFTER)
                self._leases[server_id] = new
                was_idle = old.server.state is ServerState.IDLE
                old.release()
                if config.start == "boot" or not was_idle:
                    new.start()
        return taken

    async def close(self) -> None:
        """Release all servers. Servers without other leases are stopped, side by side, and leave
        nothing behind. Idempotent."""
        self._on_change = lambda: None
        endings = [lease.release() for lease in self._leases.values()]
        if endings:
            await asyncio.wait(endings)

    def fetched_tokens(self) -> Iterator[str]:
        """Yield the access tokens with which its servers are called."""
        for lease in self._leases.values():
            yield from lease.server.fetched_tokens

    async def wait_settled(self, timeout: float) -> bool:
        """True if every server's first start has succeeded or failed within `timeout` seconds."""
        waited = [lease.server.settled for lease in self._leases.values() if lease.begun]
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                for settled in waited:
                    await settled.wait()
        return all(settled.is_set() for settled in waited)

    def status(self) -> tuple[ServerStatus, ...]:
        """Return a snapshot of every server."""
        return tuple(
            replace(lease.status(), quarantined=self.offering(server_id).quarantined)
            for server_id, lease in self._leases.items()
        )

    def _changed(self) -> None:
        if not self._held_back:
            self._on_change()

    @contextmanager
    def _told_once(self) -> Iterator[None]:
        """Combine all changes of the body into one callback: each callback builds a catalogue."""
        self._held_back = True
        try:
            yield
        finally:
            self._held_back = False
            self._on_change()

    # What they offer.

    def use_lock(self, lock: Lock | None) -> None:
        """Judge all tools by another lock from now on, e.g. after `cordboard mcp accept`."""
        self._lock = lock
        self._offerings.clear()
        self._tell_of_lock()
        self._changed()

    def tools(self) -> tuple[ToolEntry, ...]:
        """Return the tools offered now, in the order of the file and of the servers' listings.

        An unchanged tool is the same object as before.
        """
        offered: dict[tuple[str, str], McpTool] = {}
        for server_id, lease in self._leases.items():
            offering = self.offering(server_id)
            self._told.tell(server_id, offering)
            for choice in offering.choices:
                offered[server_id, choice.listed.name] = self._tool(server_id, lease, choice)
        self._tools = offered  # forgets tools that are no longer listed
        return tuple(
            ToolEntry(tool, chosen=tool.override is not None, arguments=tool.arguments)
            for tool in offered.values()
        )

    def offering(self, server_id: str) -> Offering:
        """Return the offered and withheld tools of a server. Raises `KeyError` for an unknown
        one."""
        listing = self._leases[server_id].listing
        known = self._offerings.get(server_id)
        if known is None or known[0] != listing:
            config = self.configs[server_id]
            entries = self._entries.get(server_id, ())
            offering = offer(server_id, config, listing, self._lock_mode, self._lock, entries)
            known = (listing, offering)
            self._offerings[server_id] = known
        return known[1]

    def problems(self) -> tuple[ConfigProblem, ...]:
        """Return servers that are down, and `tool_problems`. None is fatal."""
        found: list[ConfigProblem] = []
        for server_id, lease in self._leases.items():
            status = lease.status()
            if status.state not in {ServerState.READY, ServerState.STOPPED, ServerState.IDLE}:
                error = status.last_error
                words = f"the server is {status.state}{': ' + error if error else ''}"
                found.append(ConfigProblem(words, key=f"mcp.servers.{server_id}", fatal=False))
        return (*found, *self.tool_problems())

    def tool_problems(self) -> tuple[ConfigProblem, ...]:
        """Return problems of the lockfile, tools that a ready server lacks, and tools that are
        listed but not offered. None is fatal."""
        found = [problem for problem in [self._lock_problem] if problem is not None]
        for server_id, lease in self._leases.items():
            if lease.listing or lease.status().state is ServerState.READY:
                found.extend(self.offering(server_id).problems)
        return tuple(found)

    def _tool(self, server_id: str, lease: Lease, choice: Choice) -> McpTool:
        server, listed, override = lease.server, choice.listed, choice.override
        defaults = self.configs[server_id].defaults
        known = self._tools.get((server_id, listed.name))
        if known is not None and known.spec.name == choice.name:
            made_of = (known.server, known.listed, known.override, known.defaults)
            if made_of == (server, listed, override, defaults):
                return known
        may_be_used = partial(self._is_offered, server_id, listed.name)
        return McpTool(server, listed, override, defaults, choice.name, may_be_used)

    def _is_offered(self, server_id: str, tool: str) -> bool:
        """True if a call that has this tool may still use it. For a server that is down this is
        True: the call to it fails with the server's own message."""
        lease = self._leases.get(server_id)
        if lease is None or lease.server.state is not ServerState.READY:
            return True
        return any(choice.listed.name == tool for choice in self.offering(server_id).choices)

    @property
    def _lock_problem(self) -> ConfigProblem | None:
        return self._lock.problem if self._lock is not None and self._lock_mode != "off" else None

    def _tell_of_lock(self) -> None:
        if self._lock_problem is not None:
            log.error("mcp_lockfile_unreadable", problem=str(self._lock_problem))


MOST_TOLD = 20
"""Maximum number of sentences; the others are counted."""
MOST_CHARACTERS = 400
"""Maximum length of one sentence."""
_IN_ORDER = {ServerState.READY, ServerState.IDLE}


def troubles(fleet: Fleet, catalogue: Catalogue) -> str:
    """Return the servers that are not up, then the tools that are not offered and why; empty if
    there are no problems. The tools of a server that is down are not listed."""
    found = [*_servers(fleet), *_tools(fleet, catalogue)]
    told = [printable(words, MOST_CHARACTERS) for words in found[:MOST_TOLD]]
    more = len(found) - len(told)
    return "; ".join([*told, *([f"and {more} more"] if more else [])])


def _servers(fleet: Fleet) -> Iterator[str]:
    for status in fleet.status():
        if status.state not in _IN_ORDER:
            error = f": {status.last_error}" if status.last_error else ""
            yield f"{status.server} is {status.state}{error}"


def _tools(fleet: Fleet, catalogue: Catalogue) -> Iterator[str]:
    problems: tuple[ConfigProblem, ...] = (*fleet.tool_problems(), *catalogue.problems)
    yield from map(str, problems)
