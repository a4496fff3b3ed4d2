"""One supervised MCP server: started, watched, restarted, stopped, and callable from every call.

One owner task enters the connection, lists the tools, waits for the end of it and leaves it again;
the SDK's cancel scopes allow nothing else. Between lives it pauses with exponential back-off. A
server is given up after `max_restarts` in a row; a healthy minute forgives what was before.

    starting ─► ready ◄─► restarting ─► failed          any ─► stopped

Calls never wait for a server: one that is not ready is answered with `McpUnavailable` at once, and
calls that are under way when it dies fail in that moment. All waits are on events.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

import mcp_types as types
import structlog

from cordboard.config.mcp import McpServer
from cordboard.errors import McpCommandMissing, McpError, McpUnavailable
from cordboard.mcp.connection import Connection, Progress, Transport, connect
from cordboard.mcp.process import Launch
from cordboard.mcp.stderr import StderrTail
from cordboard.mcp.transport import StdioTransport

HEALTHY_SECONDS = 60.0
MAX_PAUSE_SECONDS = 30.0
LIST_AGAIN_SECONDS = 2.0
"""Pause after the tools were listed again, whatever the server says meanwhile. Without it, 500
tools that change all the time took a whole core, and 80 ms of the event loop each time (measured).
"""
JITTER = 0.2
"""A pause is up to this share longer or shorter, so that servers do not restart in step."""

log = structlog.get_logger()


class ServerState(StrEnum):
    """Where a server is in its life."""

    STARTING = "starting"
    READY = "ready"
    RESTARTING = "restarting"
    FAILED = "failed"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """What the operator may know of a server at one moment."""

    server: str
    state: ServerState
    since: float
    """Unix time of the last change of state."""
    pid: int | None
    protocol: str
    tools: tuple[str, ...]
    """Names as the server gives them."""
    restarts: int
    """Lives after the first, since the engine runs."""
    last_error: str
    stderr: tuple[str, ...]
    """The last lines the server wrote there."""


class ServerObserver(Protocol):
    """What metrics want to know. Called on the event loop; must return at once."""

    def mcp_server_up(self, server: str, up: bool) -> None:
        """The server became ready, or is no longer."""
        ...

    def mcp_server_restarted(self, server: str) -> None:
        """A new life of the server begins."""
        ...


class SilentServerObserver:
    """A `ServerObserver` that wants to know nothing."""

    def mcp_server_up(self, server: str, up: bool) -> None:
        """Ignore it."""

    def mcp_server_restarted(self, server: str) -> None:
        """Ignore it."""


class SupervisedServer:
    """One configured server. `start` it, `close` it; both return quickly or are awaited."""

    def __init__(
        self,
        server_id: str,
        config: McpServer,
        observer: ServerObserver | None = None,
        on_change: Callable[[], None] = lambda: None,
        healthy_seconds: float = HEALTHY_SECONDS,
    ) -> None:
        """`on_change` is called whenever `listing` or the state has changed."""
        self.id = server_id
        self.config = config
        self._observer: ServerObserver = observer or SilentServerObserver()
        self._on_change = on_change
        self._healthy_seconds = healthy_seconds
        self._stderr = StderrTail(server_id, config.env.values())
        self._state = ServerState.STOPPED
        self._since = time.time()
        self._last_error = ""
        self._restarts = 0
        self._pid: int | None = None
        self._protocol = ""
        self._connection: Connection | None = None
        self._owner: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()
        self._ready = asyncio.Event()
        self.settled = asyncio.Event()
        """Set once the outcome of the first start is known, good or bad."""
        self.listing: tuple[types.Tool, ...] = ()
        """The tools as last listed; kept while the server restarts, empty when it is given up."""

    @property
    def state(self) -> ServerState:
        return self._state

    def status(self) -> ServerStatus:
        """A snapshot for the operator."""
        return ServerStatus(
            server=self.id,
            state=self._state,
            since=self._since,
            pid=self._pid,
            protocol=self._protocol,
            tools=tuple(tool.name for tool in self.listing),
            restarts=self._restarts,
            last_error=self._last_error,
            stderr=self._stderr.lines,
        )

    def start(self) -> None:
        """Begin to start the server; returns at once."""
        if self._owner is None:
            self._set_state(ServerState.STARTING)
            self._observer.mcp_server_up(self.id, False)
            self._owner = asyncio.create_task(self._own(), name=f"mcp server {self.id}")

    async def close(self) -> None:
        """Stop the server and wait until nothing of it is left. Idempotent."""
        self._stop.set()
        if self._owner is not None:
            if self._connection is None:
                self._owner.cancel()  # out of a start or a pause; leaving cleans up all the same
            await asyncio.wait({self._owner})

    async def wait_ready(self, timeout: float) -> bool:
        """Whether the server is ready within `timeout` seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._ready.wait()
        return self._ready.is_set()

    async def call(
        self,
        tool: str,
        arguments: dict[str, Any],
        timeout: float,
        progress: Progress | None = None,
    ) -> types.CallToolResult:
        """Call a tool by the server's own name; `timeout` in seconds.

        Raises `McpUnavailable` at once when the server is down, `McpTimeout`, or `McpError`.
        """
        connection = self._connection
        if connection is None:
            raise McpUnavailable(f"the server is {self._state}")
        return await connection.call(tool, arguments, timeout, progress)

    async def _own(self) -> None:
        """The owner task: one life after another."""
        try:
            await self._live_on()
        finally:
            self._leave_ready()
            self.listing = ()
            self._set_state(ServerState.STOPPED)

    async def _live_on(self) -> None:
        failures = 0
        while True:
            error, ready_for = await self._live()
            if self._stop.is_set():
                return
            if ready_for >= self._healthy_seconds:
                failures = 0
            failures += 1
            if self._is_hopeless(error, failures):
                self.listing = ()
                self._set_state(ServerState.FAILED, str(error))
                log.error("mcp_server_failed", server=self.id, error=self._last_error)
                await self._stop.wait()
                return
            pause = self._pause(failures)
            self._set_state(ServerState.RESTARTING, str(error))
            log.warning(
                "mcp_server_down",
                server=self.id,
                error=self._last_error,
                pause_ms=int(pause * 1000),
            )
            if await _happens(self._stop, pause):
                return
            self._restarts += 1
            self._observer.mcp_server_restarted(self.id)

    async def _live(self) -> tuple[McpError, float]:
        """One life, from start to end; returns why it ended and for how long it was ready."""
        loop = asyncio.get_running_loop()
        transport = self._transport()
        began = loop.time()
        ready_at: float | None = None
        error: McpError = McpUnavailable("it was stopped")
        try:
            deadline = self.config.start_timeout_ms / 1000
            async with connect(transport, deadline) as connection:
                listing = await connection.list_tools(began + deadline - loop.time())
                ready_at = loop.time()
                self._become_ready(connection, transport, listing, ready_at - began)
                await self._until_over(connection, transport)
                self._leave_ready()
        except McpError as failure:
            error = failure
        except Exception as failure:  # task border: the supervision itself must go on
            log.exception("mcp_server_crashed", server=self.id)
            error = McpError(f"unexpected {type(failure).__name__}: {failure}")
        finally:
            self._leave_ready()
        return self._why(error, transport, ready_at), loop.time() - (ready_at or loop.time())

    def _why(self, error: McpError, transport: Transport, ready_at: float | None) -> McpError:
        """The error, said with what is known of the process."""
        if isinstance(error, McpCommandMissing) or not isinstance(error, McpUnavailable):
            return error
        when = "" if ready_at is not None else " before it was ready"
        words = f"it {transport.ending}{when}"
        if ready_at is None and self._stderr.lines:
            words += f"; its last words: {self._stderr.lines[-1][:200]}"
        return McpUnavailable(words)

    async def _until_over(self, connection: Connection, transport: Transport) -> None:
        """Wait for the end of this life; list the tools again whenever they change."""
        stop = asyncio.ensure_future(self._stop.wait())
        closed = asyncio.ensure_future(transport.closed.wait())
        try:
            while not (stop.done() or closed.done()):
                changed = asyncio.ensure_future(connection.list_changed.wait())
                try:
                    await asyncio.wait({stop, closed, changed}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    changed.cancel()
                if connection.list_changed.is_set() and not closed.done():
                    connection.list_changed.clear()
                    await self._list_again(connection)
                    await asyncio.wait(
                        {stop, closed},
                        timeout=LIST_AGAIN_SECONDS,
                        return_when=asyncio.FIRST_COMPLETED,
                    )
        finally:
            stop.cancel()
            closed.cancel()

    async def _list_again(self, connection: Connection) -> None:
        try:
            self.listing = await connection.list_tools(self.config.start_timeout_ms / 1000)
        except McpError as error:
            log.warning("mcp_relist_failed", server=self.id, error=str(error))
            return
        log.info("mcp_tools_changed", server=self.id, tools=len(self.listing))
        self._on_change()

    def _become_ready(
        self,
        connection: Connection,
        transport: Transport,
        listing: tuple[types.Tool, ...],
        took: float,
    ) -> None:
        self._connection = connection
        self._pid = transport.pid
        self._protocol = connection.protocol
        self.listing = listing
        self._observer.mcp_server_up(self.id, True)
        log.info(
            "mcp_server_ready",
            server=self.id,
            pid=self._pid,
            protocol=self._protocol,
            tools=len(listing),
            ms=int(took * 1000),
        )
        self._ready.set()
        self._set_state(ServerState.READY)

    def _leave_ready(self) -> None:
        if self._connection is not None:
            self._connection = None
            self._pid = None
            self._ready.clear()
            self._observer.mcp_server_up(self.id, False)

    def _set_state(self, state: ServerState, error: str = "") -> None:
        self._state = state
        self._since = time.time()
        if error:
            self._last_error = self._stderr.mask(error)
        if state is not ServerState.STARTING:
            self.settled.set()
        self._on_change()

    def _is_hopeless(self, error: McpError, failures: int) -> bool:
        restart = self.config.restart
        return (
            isinstance(error, McpCommandMissing)
            or not restart.enabled
            or failures > restart.max_restarts
        )

    def _pause(self, failures: int) -> float:
        doubled = self.config.restart.backoff_ms / 1000 * 2.0 ** min(failures - 1, 16)
        jitter = 1 + random.uniform(-JITTER, JITTER)  # noqa: S311  (not for secrecy)
        return min(doubled, MAX_PAUSE_SECONDS) * jitter

    def _transport(self) -> Transport:
        launch = Launch(self.config.command, self.config.env, self.config.cwd)
        grace = self.config.stop_grace_ms / 1000
        return StdioTransport(self.id, launch, self._stderr, grace)


async def _happens(event: asyncio.Event, seconds: float) -> bool:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
    return event.is_set()
