"""The servers that run, shared by all generations that want them as they are.

A generation's fleet asks for each of its servers and gets a lease. Who asks for one that runs
already by the same configuration gets that one: a reload restarts nothing that has not changed.
A server ends when its last lease is given back. Of a changed one, `Replacement` says what becomes:

    BESIDE   the new one starts at once; the old one serves whoever holds it
    AFTER    the new one starts when the old one has ended (two might quarrel over a file or port)
    LATER    whoever asks gets the old one for the time being; the lease says so (`outdated`); one
             that nobody can miss, since it was given up, is replaced at once

What only the engine looks at (`tools`, `defaults`, ...) makes no difference to a server: each fleet
has its own. No start is waited for; `open` lets the first ones begin.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from enum import StrEnum
from typing import Protocol

import mcp_types as types
import structlog

from cordboard.config.mcp import McpDefaults, McpServer
from cordboard.mcp.from_config import expected_tools
from cordboard.mcp.stdio.spawn_turns import SpawnTurns
from cordboard.mcp.supervision.server import (
    ServerObserver,
    ServerState,
    ServerStatus,
    SupervisedServer,
)

log = structlog.get_logger()


class Replacement(StrEnum):
    """What becomes of a server whose configuration has changed."""

    BESIDE = "beside"
    AFTER = "after"
    LATER = "later"


class PoolObserver(ServerObserver, Protocol):
    """A `ServerObserver` of servers that come and go."""

    def mcp_breaker(self, server: str, is_open: bool) -> None:
        """Calls to the server are refused from now on, or pass again."""
        ...

    def mcp_server_gone(self, server: str) -> None:
        """No server of that name runs any more, and none will."""
        ...


class SilentPoolObserver:
    """A `PoolObserver` that wants to know nothing."""

    def mcp_server_up(self, server: str, up: bool) -> None:
        """Ignore it."""

    def mcp_server_restarted(self, server: str) -> None:
        """Ignore it."""

    def mcp_breaker(self, server: str, is_open: bool) -> None:
        """Ignore it."""

    def mcp_server_gone(self, server: str) -> None:
        """Ignore it."""

    def internal_error(self, where: str) -> None:
        """Ignore it."""


class Lease:
    """One fleet's claim on a server. Made by `ServerPool.lease`."""

    def __init__(self, shared: _Shared, wanted: McpServer, on_change: Callable[[], None]) -> None:
        self._shared = shared
        self._wanted = wanted
        self._expected = expected_tools(wanted) if wanted.start == "lazy" else None
        self.changed = on_change
        self.server: SupervisedServer = shared.server
        """The server; never start or close it but through the lease."""

    @property
    def outdated(self) -> bool:
        """Whether the server runs by an older configuration than was asked for."""
        return self._shared.config != _of_the_server(self._wanted)

    @property
    def begun(self) -> bool:
        """Whether the server was ever to be started; a lazy one may not have been."""
        return self._shared.begun

    @property
    def listing(self) -> tuple[types.Tool, ...]:
        """The tools to offer now. A server that replaces another has those of the other until its
        own are known, so that calls which begin meanwhile do not go without."""
        server = self.server
        if self._expected is not None and not server.discovered:
            return self._expected
        starts = self._shared.waiting or server.state is ServerState.STARTING
        return server.listing or (self._shared.inherited if starts else ())

    def status(self) -> ServerStatus:
        """A snapshot for the operator; who waits for a start is starting."""
        status = self.server.status()
        return replace(status, state=ServerState.STARTING) if self._shared.waiting else status

    def start(self) -> None:
        """Begin to start the server, unless that was done before; returns at once."""
        self._shared.begin()

    def start_again(self) -> None:
        """The same for a server that was stopped or given up."""
        self._shared.begin(again=True)

    async def stop(self) -> None:
        """Stop the server, whoever holds it, until `start_again` or `restart`."""
        self._shared.stop_waiting()
        await self.server.stop()

    async def restart(self) -> None:
        """Stop the server, whoever holds it, and begin to start it again."""
        if not self._shared.waiting:
            self._shared.begun = True
            await self.server.restart()

    def release(self) -> asyncio.Future[None]:
        """Give the claim back, at once. Idempotent.

        What is returned is done when nothing is left of the server, or others hold it.
        """
        return self._shared.release(self)


class ServerPool:
    """All running servers of an engine."""

    def __init__(self, observer: PoolObserver | None = None, *, is_open: bool = True) -> None:
        """`is_open` False: nothing starts before `open` is called."""
        self._observer: PoolObserver = observer or SilentPoolObserver()
        self._opened = asyncio.Event()
        self.turns = SpawnTurns()
        """In which all servers begin their processes."""
        self._shared: list[_Shared] = []  # the newest of a name last; those that end included
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
        """A claim on that server, which is not started by this alone (`Lease.start`).

        `on_change` is called whenever its state or its tools have changed.
        """
        alive = [shared for shared in self._of(server_id) if shared.leases]
        wanted = _of_the_server(config)
        same = next((shared for shared in alive if shared.config == wanted), None)
        shared = same
        if shared is None and replacement is Replacement.LATER and alive and alive[-1].works:
            shared = alive[-1]
        if shared is None:
            after = self._in_the_way(server_id, replacement)
            inherited = alive[-1].inheritance if alive else ()
            shared = _Shared(self, server_id, config, after, inherited)
            self._shared.append(shared)
            self.tell(server_id)
        lease = Lease(shared, config, on_change)
        shared.leases.append(lease)
        return lease

    async def close(self) -> None:
        """End every server, whoever holds it, and wait until nothing is left. Idempotent."""
        for shared in tuple(self._shared):
            for lease in tuple(shared.leases):
                shared.release(lease)
        endings = [shared.ending for shared in self._shared if shared.ending is not None]
        await asyncio.gather(*endings)

    # For the servers that are shared.

    async def wait_open(self) -> None:
        """Until servers may start."""
        await self._opened.wait()

    @property
    def is_open(self) -> bool:
        return self._opened.is_set()

    @property
    def entries(self) -> tuple[_Shared, ...]:
        """The servers that run or end, the oldest of a name first."""
        return tuple(self._shared)

    def forget(self, shared: _Shared) -> None:
        """It has ended."""
        self._shared.remove(shared)
        self.tell(shared.id)

    def tell(self, server_id: str) -> None:
        """Tell the observer how the newest server of that name does: it is what new calls get."""
        known = self._of(server_id)
        if known:
            self._observer.mcp_server_up(server_id, known[-1].up)
            self._observer.mcp_breaker(server_id, known[-1].breaker_open)
        else:
            self._observer.mcp_server_gone(server_id)

    def restarted(self, server_id: str) -> None:
        """A server has begun a new life."""
        self._observer.mcp_server_restarted(server_id)

    def internal_error(self, where: str) -> None:
        """A mistake of ours was caught."""
        self._observer.internal_error(where)

    def _in_the_way(self, server_id: str, replacement: Replacement) -> list[_Shared]:
        """The servers whose end a new one of that name waits for."""
        match replacement:
            case Replacement.AFTER:
                return self._of(server_id)
            case Replacement.LATER:  # one that was given up has no process
                return [shared for shared in self._of(server_id) if not shared.leases]
        return []

    def _of(self, server_id: str) -> list[_Shared]:
        return [shared for shared in self._shared if shared.id == server_id]


class _Shared:
    """One server, its leases, and its way from the wish to start to the end. Is the observer of
    its server, since metrics know servers by name, and of one name there may be several."""

    def __init__(
        self,
        pool: ServerPool,
        server_id: str,
        config: McpServer,
        after: list[_Shared],
        inherited: tuple[types.Tool, ...],
    ) -> None:
        self._pool = pool
        self.gone = asyncio.Event()
        """Set when nothing is left of it."""
        self.id = server_id
        self.config = _of_the_server(config)
        self.server = SupervisedServer(server_id, config, self, self._changed, pool.turns)
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
        """Whether it is to start when others have ended, or the pool is opened."""
        return self._waiting is not None and not self._waiting.done()

    @property
    def works(self) -> bool:
        """Whether somebody could miss it."""
        states = {ServerState.STARTING, ServerState.READY, ServerState.RESTARTING}
        return self.waiting or self.server.state in states

    @property
    def inheritance(self) -> tuple[types.Tool, ...]:
        """The tools that calls expect of whoever takes its place."""
        return self.server.listing or (self.inherited if self.waiting else ())

    def begin(self, *, again: bool = False) -> None:
        """Start when nothing stands in the way."""
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
            if not self.leases:
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
        self._pool.tell(server)

    def mcp_server_restarted(self, server: str) -> None:
        self._pool.restarted(server)

    def mcp_breaker(self, server: str, is_open: bool) -> None:
        self.breaker_open = is_open
        self._pool.tell(server)

    def internal_error(self, where: str) -> None:
        self._pool.internal_error(where)


def _of_the_server(config: McpServer) -> McpServer:
    """The part of a configuration that a running server depends on."""
    return config.model_copy(
        update={"tools": (), "defaults": McpDefaults(), "enabled": True, "start": "boot"}
    )
