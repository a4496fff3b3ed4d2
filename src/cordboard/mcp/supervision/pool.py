"""The running servers, shared by all generations with the same configuration of them.

A generation's fleet leases each of its servers. If a server with the same configuration is already
running, the lease refers to that one: a reload restarts nothing that has not changed. A server ends
when its last lease is released. `Replacement` says how a changed server is replaced:

    BESIDE   the new one starts at once; the old one serves its remaining leases
    AFTER    the new one starts when the old one has ended (both might need the same file or port)
    LATER    new leases refer to the old one for now, and say so (`outdated`); an old one that has
             been given up is replaced at once
    ASIDE    for a trial: a server of the configuration in force is shared only if it is the same,
             any other starts beside; neither ever delays or replaces a server in force

A server in force ends with its last lease in force, even if trials still use it: what replaces it
may need the same file or port.

Settings that only the engine uses (`tools`, `defaults`, ...) do not matter for sharing: each fleet
has its own. Starting never blocks; `open` lets the first servers begin.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any

import mcp_types as types
import structlog

from cordboard.config.mcp import McpDefaults, McpServer
from cordboard.mcp.from_config import expected_tools, process_of, transport_of
from cordboard.mcp.stdio.spawn_turns import SpawnTurns
from cordboard.mcp.supervision.server import SupervisedServer
from cordboard.mcp.supervision.sharing import ServerSharing
from cordboard.mcp.supervision.status import (
    ServerObserver,
    ServerState,
    ServerStatus,
    SilentServerObserver,
)

if TYPE_CHECKING:  # the SDK is loaded later: `cordboard.mcp.sdk`
    from cordboard.mcp.connection import Transport

log = structlog.get_logger()


class Replacement(StrEnum):
    """Ways to replace a server with a changed configuration; see the module."""

    BESIDE = "beside"
    AFTER = "after"
    LATER = "later"
    ASIDE = "aside"


class Lease:
    """One fleet's lease of a server. Made by `ServerPool.lease`."""

    def __init__(
        self, shared: _Shared, wanted: McpServer, on_change: Callable[[], None], *, aside: bool
    ) -> None:
        self._shared = shared
        self.aside = aside
        """True for the lease of a trial."""
        self._wanted = wanted
        self._expected = expected_tools(wanted) if wanted.start == "lazy" else None
        self.changed = on_change
        self.server: SupervisedServer = shared.server
        """The server; start and close it only through the lease."""

    @property
    def outdated(self) -> bool:
        """True if the server runs with an older configuration than the one requested."""
        return self._shared.config != _of_the_server(self._wanted)

    @property
    def of_trials(self) -> bool:
        """True if the server was started for trials alone."""
        return self._shared.aside

    @property
    def begun(self) -> bool:
        """True if the server was ever requested to start; a lazy one may not have been."""
        return self._shared.begun

    @property
    def listing(self) -> tuple[types.Tool, ...]:
        """The tools to offer now. A server that replaces another one offers the other's tools until
        its own are known, so that calls which begin meanwhile have them."""
        server = self.server
        if self._expected is not None and not server.discovered:
            return self._expected
        starts = self._shared.waiting or server.state is ServerState.STARTING
        return server.listing or (self._shared.inherited if starts else ())

    def status(self) -> ServerStatus:
        """Return a snapshot for the operator; a server that waits for its start is `starting`."""
        status = replace(self.server.status(), breaker_reported_by=self._shared.reported_by)
        return replace(status, state=ServerState.STARTING) if self._shared.waiting else status

    def start(self) -> None:
        """Begin to start the server, unless that was done before; return at once."""
        self._shared.begin()

    def start_again(self) -> None:
        """Like `start`, but also for a server that was stopped or given up."""
        self._shared.begin(again=True)

    async def stop(self) -> None:
        """Stop the server for all its leases, until `start_again` or `restart`."""
        self._shared.stop_waiting()
        await self.server.stop()

    async def restart(self) -> None:
        """Stop the server for all its leases, and begin to start it again."""
        if not self._shared.waiting:
            self._shared.begun = True
            await self.server.restart()

    def release(self) -> asyncio.Future[None]:
        """Release the lease at once. Idempotent.

        The returned future is done when the server has ended completely, or has other leases.
        """
        return self._shared.release(self)


class ServerPool:
    """All running servers of an engine."""

    def __init__(self, observer: ServerObserver | None = None, *, is_open: bool = True) -> None:
        """`is_open` False: no server starts before `open` is called."""
        self.observer: ServerObserver = observer or SilentServerObserver()
        self.sharing: ServerSharing | None = None
        """The other engines of the cluster; None: this engine is alone."""
        self._opened = asyncio.Event()
        self.turns = SpawnTurns()
        """Spaces the process starts of all servers."""
        self._shared: list[_Shared] = []  # the newest of a name last; includes ending ones
        if is_open:
            self._opened.set()

    def open(self) -> None:
        """Let servers start."""
        self._opened.set()

    def lease(
        self,
        server_id: str,
        config: McpServer,
        on_change: Callable[[], None],
        replacement: Replacement = Replacement.BESIDE,
    ) -> Lease:
        """Lease that server. Leasing does not start it (`Lease.start`).

        `on_change` is called when its state or its tools change.
        """
        aside = replacement is Replacement.ASIDE
        alive = [shared for shared in self._of(server_id) if shared.ending is None]
        known = [shared for shared in self._of(server_id, aside=aside) if shared.ending is None]
        wanted = _of_the_server(config)
        shared = next((shared for shared in known if shared.config == wanted), None)
        if shared is None and replacement is Replacement.LATER and alive and alive[-1].works:
            shared = alive[-1]
        if shared is None:
            after = self._in_the_way(server_id, replacement)
            inherited = alive[-1].inheritance if alive and not aside else ()
            shared = _Shared(self, server_id, config, after, inherited, aside=aside)
            self._shared.append(shared)
            if not aside:
                self.tell(server_id)
        lease = Lease(shared, config, on_change, aside=aside)
        shared.leases.append(lease)
        return lease

    async def close(self) -> None:
        """End every server regardless of leases, and wait until nothing is left. Idempotent."""
        for shared in tuple(self._shared):
            for lease in tuple(shared.leases):
                shared.release(lease)
        endings = [shared.ending for shared in self._shared if shared.ending is not None]
        await asyncio.gather(*endings)

    # For `_Shared`.

    async def wait_open(self) -> None:
        """Wait until servers may start."""
        await self._opened.wait()

    @property
    def is_open(self) -> bool:
        return self._opened.is_set()

    @property
    def entries(self) -> tuple[_Shared, ...]:
        """The running and ending servers, the oldest of a name first."""
        return tuple(self._shared)

    def forget(self, shared: _Shared) -> None:
        """Remove a server that has ended."""
        self._shared.remove(shared)
        if not shared.aside:
            self.tell(shared.id)

    def tell(self, server_id: str) -> None:
        """Report the state of the newest server of that name, which new calls get, to the
        observer."""
        known = self._of(server_id)
        if known:
            self.observer.mcp_server_up(server_id, known[-1].up)
            self.observer.mcp_breaker(server_id, known[-1].breaker_open)
            if self.sharing is not None:
                self.sharing.changed(known[-1].server, breaker_open=known[-1].breaker_open)
        else:
            self.observer.mcp_server_gone(server_id)

    def server(self, server_id: str) -> SupervisedServer | None:
        """Return the newest server of that name, which new calls get; None if there is none."""
        known = self._of(server_id)
        return known[-1].server if known else None

    def _in_the_way(self, server_id: str, replacement: Replacement) -> list[_Shared]:
        """Return the servers that must end before a new one of that name starts."""
        match replacement:
            case Replacement.AFTER:
                return self._of(server_id)
            case Replacement.LATER:  # a server that was given up has no process
                return [shared for shared in self._of(server_id) if shared.ending is not None]
        return []

    def _of(self, server_id: str, *, aside: bool = False) -> list[_Shared]:
        """Return the servers of that name; those of trials alone only if `aside`."""
        of_name = (shared for shared in self._shared if shared.id == server_id)
        return [shared for shared in of_name if aside or not shared.aside]


class _Shared(SilentServerObserver):
    """One server with its leases, from the request to start until its end. It observes its own
    server, because metrics know servers by name, and several may share a name."""

    def __init__(
        self,
        pool: ServerPool,
        server_id: str,
        config: McpServer,
        after: list[_Shared],
        inherited: tuple[types.Tool, ...],
        *,
        aside: bool,
    ) -> None:
        self._pool = pool
        self.aside = aside
        """True if it was started for trials; the configuration in force never uses it."""
        self.gone = asyncio.Event()
        """Set when nothing is left of it."""
        self.id = server_id
        self.config = _of_the_server(config)
        self.server = SupervisedServer(
            server_id, config, self, self._changed, pool.turns, self._transport
        )
        self.inherited = inherited
        self.leases: list[Lease] = []
        self.begun = False
        self.up = False
        self.breaker_open = False
        self.ending: asyncio.Task[None] | None = None
        self._after = [shared.gone for shared in after]
        self._waiting: asyncio.Task[None] | None = None

    @property
    def waiting(self) -> bool:
        """True while its start waits for others to end, or for the pool to open."""
        return self._waiting is not None and not self._waiting.done()

    @property
    def works(self) -> bool:
        """True if it runs or is about to run, so that replacing it would be noticed."""
        states = {ServerState.STARTING, ServerState.READY, ServerState.RESTARTING}
        return self.waiting or self.server.state in states

    @property
    def reported_by(self) -> tuple[str, ...]:
        """See `ServerStatus.breaker_reported_by`."""
        sharing = self._pool.sharing
        return () if sharing is None or self.aside else sharing.reported_by(self.id)

    def _transport(self, server_id: str, config: McpServer, *rest: Any) -> Transport:
        """Make the transport of the server's next life: see `transport_of`."""
        sharing = self._pool.sharing
        if sharing is None or self.aside or config.run == "node":
            return transport_of(server_id, config, *rest)
        return sharing.transport(self.server, partial(process_of, server_id, config, *rest))

    @property
    def inheritance(self) -> tuple[types.Tool, ...]:
        """The tools that calls expect of its successor."""
        return self.server.listing or (self.inherited if self.waiting else ())

    def begin(self, *, again: bool = False) -> None:
        """Start as soon as nothing prevents it."""
        if self.waiting or (self.begun and not again):
            return
        self.begun = True
        if self._pool.is_open and all(gone.is_set() for gone in self._after):
            self.server.start()
            return
        name = f"mcp server {self.id} waits"
        self._waiting = asyncio.create_task(self._start_when_clear(), name=name)
        self._waiting.add_done_callback(lambda _: self._changed())

    async def _start_when_clear(self) -> None:
        await self._pool.wait_open()
        for gone in self._after:
            await gone.wait()
        self.server.start()

    def stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()

    def release(self, lease: Lease) -> asyncio.Future[None]:
        if lease in self.leases:
            self.leases.remove(lease)
            in_use = any(each.aside == self.aside for each in self.leases)
            if not in_use and self.ending is None:
                name = f"mcp server {self.id} ends"
                self.ending = asyncio.create_task(self._end(), name=name)
        if self.ending is not None:
            return self.ending
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        done.set_result(None)
        return done

    async def _end(self) -> None:
        self.stop_waiting()
        try:
            await self.server.close()
        finally:
            self.gone.set()
            self._pool.forget(self)

    def _changed(self) -> None:
        if not self.waiting and self.server.state not in {
            ServerState.STARTING,
            ServerState.STOPPED,
        }:
            self.inherited = ()
        for lease in tuple(self.leases):
            lease.changed()

    # ServerObserver

    def mcp_server_up(self, server: str, up: bool) -> None:
        self.up = up
        if not self.aside:
            self._pool.tell(server)

    def mcp_server_restarted(self, server: str) -> None:
        if not self.aside:
            self._pool.observer.mcp_server_restarted(server)

    def mcp_breaker(self, server: str, is_open: bool) -> None:
        self.breaker_open = is_open
        if not self.aside:
            self._pool.tell(server)

    def internal_error(self, where: str) -> None:
        self._pool.observer.internal_error(where)


def _of_the_server(config: McpServer) -> McpServer:
    """Return the part of a configuration that a running server depends on."""
    return config.model_copy(
        update={"tools": (), "defaults": McpDefaults(), "enabled": True, "start": "boot"}
    )
