"""One supervised MCP server: started, watched, restarted, stopped, and callable from every call.

One owner task enters the connection, lists the tools, waits for the end of it and leaves it again;
the SDK's cancel scopes allow nothing else. When a life ends unasked, `RestartPolicy` says how long
to pause before the next one, or to give up. `Breaker` keeps calls away from a server that is up but
does not answer; a subprocess that does not answer the breaker's probe either is restarted.

    (idle ─►) starting ─► ready ◄─► restarting ─► failed          any ─► stopped ─► starting

Calls never wait for a server that went down: they are answered with `McpUnavailable` at once, and
those under way fail in that moment. Only a start that was asked for is waited for, within the
call's own time. All waits are on events.
"""

from __future__ import annotations

import asyncio
import contextvars
import time
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import mcp_types as types
import structlog

from cordboard.config.mcp import McpServer
from cordboard.errors import McpCommandMissing, McpError, McpTimeout, McpUnavailable
from cordboard.mcp.cancellation import see_through
from cordboard.mcp.from_config import expected_tools, secrets_of, transport_of
from cordboard.mcp.negotiation import Negotiation
from cordboard.mcp.printable import printable
from cordboard.mcp.stdio.spawn_turns import SpawnTurns
from cordboard.mcp.stdio.stderr import StderrTail
from cordboard.mcp.supervision.breaker import Breaker, BreakerState
from cordboard.mcp.supervision.life import Life, happens
from cordboard.mcp.supervision.restart_policy import RestartPolicy
from cordboard.mcp.supervision.status import (
    ServerObserver,
    ServerState,
    ServerStatus,
    SilentServerObserver,
)

if TYPE_CHECKING:  # the SDK is loaded later: `cordboard.mcp.sdk`
    from cordboard.mcp.connection import Connection, Progress, Transport

__all__ = ["ServerObserver", "ServerState", "ServerStatus", "SupervisedServer"]

log = structlog.get_logger()


class SupervisedServer:
    """One configured server. `start` it; `stop` or `restart` it at will; `close` it for good."""

    def __init__(
        self,
        server_id: str,
        config: McpServer,
        observer: ServerObserver | None = None,
        on_change: Callable[[], None] = lambda: None,
        turns: SpawnTurns | None = None,
        transport: Callable[..., Transport] = transport_of,
    ) -> None:
        """`on_change` is called whenever `listing` or the state has changed; `turns` are shared by
        servers that are not to start all at once; `transport` makes the way to the server, and
        takes the arguments of `transport_of`."""
        self.id = server_id
        self.config = config
        self._observer: ServerObserver = observer or SilentServerObserver()
        self._on_change = on_change
        self._turns = turns or SpawnTurns()
        self._transport = transport
        self._stderr = StderrTail(server_id, secrets_of(config))
        self._negotiation = Negotiation(config.protocol, handshake_first=config.transport != "http")
        self._policy = RestartPolicy(config.restart)
        lazy = config.start == "lazy"
        self._state = ServerState.IDLE if lazy else ServerState.STOPPED
        self._since = time.time()
        self._last_error = ""
        self._restarts = 0
        self._life: Life | None = None
        self._hung = False
        """Whether the last life was ended because it did not answer."""
        self._breaker_told = False
        self._owner: asyncio.Task[None] | None = None
        self._turn = asyncio.Lock()
        """Held by whoever starts, stops or restarts it."""
        self._later: asyncio.Task[None] | None = None
        """A start that waits for its turn."""
        self._closed = False
        self._stop = asyncio.Event()
        self._afterwards = ServerState.STOPPED
        """The state when the owner task has ended."""
        self._ready = asyncio.Event()
        self._started = asyncio.Event()
        """Set unless it is starting."""
        self.settled = asyncio.Event()
        """Set once the outcome of the first start is known, good or bad."""
        self.discovered = False
        """Whether `listing` is what the server itself has listed, at some time."""
        self.listing: tuple[types.Tool, ...] = expected_tools(config) if lazy else ()
        """The tools as last listed; kept while the server restarts, empty when it is given up or
        stopped. Of a lazy one that was never started, those that the operator has named."""

    @property
    def state(self) -> ServerState:
        return self._state

    def status(self) -> ServerStatus:
        """A snapshot for the operator."""
        life = self._life
        return ServerStatus(
            server=self.id,
            state=self._state,
            since=self._since,
            pid=life.transport.pid if life else None,
            protocol=life.connection.protocol if life else "",
            tools=tuple(tool.name for tool in self.listing),
            restarts=self._restarts,
            last_error=self._last_error,
            stderr=self._stderr.lines,
            breaker=life.breaker if life else BreakerState.CLOSED,
        )

    def start(self) -> None:
        """Begin to start the server, unless it runs or was closed; returns at once.

        One that is just being stopped is started when that is done.
        """
        if self._turn.locked():
            self._later = asyncio.create_task(self._start_in_turn())
        elif self._state is ServerState.FAILED and self._runs:
            self._later = asyncio.create_task(self._restart_in_turn())
        elif not (self._closed or self._runs):
            self._begin(ServerState.STARTING)

    def request_start(self) -> None:
        """Begin to start a lazy server that nobody has needed yet; returns at once."""
        if self._state is ServerState.IDLE:
            self.start()

    async def stop(self) -> None:
        """Stop the server until `start` or `restart`; calls under way get `stop_grace_ms` to end.

        Nothing of it is left afterwards. Is seen through even when the caller is cancelled.
        """
        await see_through(self._stop_in_turn(drain=True))

    async def restart(self) -> None:
        """Stop the server likewise, if it runs, and begin a new life, all failures forgiven.

        Its tools stay offered. The new life is not waited for (`wait_ready`).
        """
        await see_through(self._restart_in_turn())

    async def close(self) -> None:
        """Stop the server for good and wait until nothing of it is left. Idempotent."""
        self._closed = True
        await see_through(self._stop_in_turn(drain=False))

    def mask(self, text: str) -> str:
        """The text without what the server was given to keep, for logs and error messages."""
        return self._stderr.mask(text)

    @property
    def fetched_tokens(self) -> tuple[str, ...]:
        """The last tokens that were fetched to log in."""
        return self._stderr.fetched

    async def wait_ready(self, timeout: float) -> bool:
        """Whether the server is ready within `timeout` seconds."""
        return await happens(self._ready, timeout)

    async def list_now(self, timeout: float) -> tuple[types.Tool, ...]:
        """The server's tools, asked for at this moment; `listing` stays as it is.

        Raises `McpError`; `timeout` in seconds.
        """
        life = self._life
        if life is None:
            raise McpUnavailable(f"the server is {self._state}")
        return await life.connection.list_tools(timeout)

    async def call(
        self,
        tool: str,
        arguments: dict[str, Any],
        timeout: float,
        progress: Progress | None = None,
        patience: float = 0.0,
    ) -> types.CallToolResult:
        """Call a tool by the server's own name; `timeout` in seconds, a start included.

        For `patience` seconds more a late answer is still taken; for the breaker the call is
        unanswered until it comes.

        Raises `McpUnavailable` at once when the server is down or left alone by its breaker;
        `McpTimeout`; or `McpError`.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        self.request_start()
        if not await happens(self._started, timeout):
            raise McpTimeout("the server is still starting")
        life = self._life
        if life is None:
            raise McpUnavailable(f"the server is {self._state}")
        try:
            return await life.call(tool, arguments, deadline - loop.time(), progress, patience)
        except McpError as error:
            raise type(error)(self._shown(error)) from None  # its cause quotes the server

    def _tell_breaker(self) -> None:
        """Tell when calls are refused from now on, or pass again."""
        is_open = self._life is not None and self._life.breaker is not BreakerState.CLOSED
        if is_open != self._breaker_told:
            self._breaker_told = is_open
            self._observer.mcp_breaker(self.id, is_open)
            log.warning("mcp_breaker", server=self.id, open=is_open)
            self._on_change()

    # Starting and stopping, one at a time.

    @property
    def _runs(self) -> bool:
        return self._owner is not None and not self._owner.done()

    def _begin(self, state: ServerState) -> None:
        self._stop.clear()
        self._policy = RestartPolicy(self.config.restart)
        self._hung = False
        self._afterwards = ServerState.STOPPED
        self._observer.mcp_server_up(self.id, False)
        # Not in the context of a call that wakes it: its log lines and spans are not the call's.
        context = contextvars.Context()
        name = f"mcp server {self.id}"
        self._owner = asyncio.create_task(self._own(), name=name, context=context)
        self._set_state(state)

    async def _start_in_turn(self) -> None:
        async with self._turn:
            if not (self._closed or self._runs):
                self._begin(ServerState.STARTING)

    async def _stop_in_turn(self, drain: bool) -> None:
        async with self._turn:
            if self._runs:
                await self._end(ServerState.STOPPED, drain)
            elif self._state is not ServerState.STOPPED:
                self.listing = ()
                self._set_state(ServerState.STOPPED)

    async def _restart_in_turn(self) -> None:
        async with self._turn:
            if self._closed:
                return
            if self._runs:
                await self._end(ServerState.RESTARTING, drain=True)
            if self._owner is not None:  # else it is the first life
                self._restarts += 1
                self._observer.mcp_server_restarted(self.id)
            self._begin(ServerState.STARTING)

    async def _end(self, afterwards: ServerState, drain: bool) -> None:
        if drain and self._life is not None:
            await self._life.quiet(self.config.stop_grace_ms / 1000)
        owner = self._owner
        if owner is None or owner.done():
            return
        self._afterwards = afterwards
        self._stop.set()
        if self._life is None:
            owner.cancel()  # out of a start or a pause; leaving cleans up all the same
        await asyncio.wait({owner})

    # The owner task.

    async def _own(self) -> None:
        try:
            await self._live_on()
        finally:
            self._leave_ready()
            self._hung = False
            self._tell_breaker()
            if self._afterwards is not ServerState.RESTARTING:
                self.listing = ()
            self._set_state(self._afterwards)

    async def _live_on(self) -> None:
        """One life after another."""
        while True:
            error, ready_for = await self._live()
            if self._stop.is_set():
                return
            self._last_error = self._shown(error)
            pause = self._policy.pause(asyncio.get_running_loop().time(), ready_for)
            if pause is None or isinstance(error, McpCommandMissing):
                again = self.config.restart.enabled
                log.error(
                    "mcp_server_failed",
                    server=self.id,
                    error=self._last_error,
                    again_in_ms=self.config.restart.window_ms if again else None,
                )
                if not again:
                    self._afterwards = ServerState.FAILED
                    return
                pause = self._give_up()
            else:
                self._set_state(ServerState.RESTARTING)
                pause_ms = int(pause * 1000)
                log.warning(
                    "mcp_server_down", server=self.id, error=self._last_error, pause_ms=pause_ms
                )
            if await happens(self._stop, pause):
                return
            self._restarts += 1
            self._observer.mcp_server_restarted(self.id)

    def _give_up(self) -> float:
        """Nobody counts on the server any more; returns after how long it is tried again.

        At night no operator restarts a server that has come back by itself.
        """
        self.listing = ()
        self._policy = RestartPolicy(self.config.restart)
        self._set_state(ServerState.FAILED)
        return self.config.restart.window_ms / 1000

    async def _live(self) -> tuple[McpError, float]:
        """One life, from start to end; returns why it ended and for how long it was ready."""
        from cordboard.mcp.connection import connect

        loop = asyncio.get_running_loop()
        transport: Transport | None = None
        began = loop.time()
        ready_at: float | None = None
        error: McpError = McpUnavailable("it was stopped")
        try:
            transport = self._transport(
                self.id, self.config, self._stderr, self._turns, self._observer.internal_error
            )
            deadline = self.config.start_timeout_ms / 1000
            async with connect(transport, deadline, self._negotiation) as connection:
                listing = await connection.list_tools(began + deadline - loop.time())
                ready_at = loop.time()
                life = self._become_ready(connection, transport, listing, ready_at - began)
                await life.until_over(self._stop, self._list_again)
                if life.hangs.is_set():
                    error = McpTimeout("it did not answer")
                self._leave_ready()
        except McpError as failure:
            error = failure
        except Exception as failure:  # noqa: BLE001 - task border: the supervision must go on
            seen = self.mask(traceback.format_exc())
            log.error("mcp_server_crashed", server=self.id, exception=seen)
            self._observer.internal_error("mcp_server")
            error = McpError(f"unexpected {type(failure).__name__}: {failure}")
        finally:
            self._leave_ready()
        if ready_at is None:
            self._negotiation.forget()
        ready_for = loop.time() - (ready_at or loop.time())
        return self._why(error, transport, ready_at is not None), ready_for

    def _why(self, error: McpError, transport: Transport | None, was_ready: bool) -> McpError:
        """The error, said with what is known of the process."""
        if transport is None or not isinstance(error, McpUnavailable):
            return error
        words = f"it {transport.ending}" + ("" if was_ready else " before it was ready")
        if not was_ready and self._stderr.lines:
            words += f"; its last words: {self._stderr.lines[-1][:200]}"
        return McpUnavailable(words)

    def _shown(self, error: McpError) -> str:
        """The error for logs and operators: secrets masked first, then cut."""
        return printable(self.mask(str(error)))

    async def _list_again(self, connection: Connection) -> None:
        try:
            self.listing = await connection.list_tools(self.config.start_timeout_ms / 1000)
        except McpError as error:
            log.warning("mcp_relist_failed", server=self.id, error=self._shown(error))
            return
        log.info("mcp_tools_changed", server=self.id, tools=len(self.listing))
        self._on_change()

    def _become_ready(
        self,
        connection: Connection,
        transport: Transport,
        listing: tuple[types.Tool, ...],
        took: float,
    ) -> Life:
        # One that was restarted because it did not answer has to show first that it does.
        breaker = Breaker(self.config.breaker, probe_first=self._hung)
        is_ours = self.config.transport == "stdio"
        life = Life(connection, transport, breaker, self._tell_breaker, may_hang=not is_ours)
        self._life = life
        self._tell_breaker()
        self.listing, self.discovered = listing, True
        self._observer.mcp_server_up(self.id, True)
        log.info(
            "mcp_server_ready",
            server=self.id,
            pid=transport.pid,
            protocol=connection.protocol,
            tools=len(listing),
            ms=int(took * 1000),
        )
        self._ready.set()
        self._set_state(ServerState.READY)
        return life

    def _leave_ready(self) -> None:
        """From this moment on no call is passed on."""
        if self._life is not None:
            self._hung = self._life.hangs.is_set()
            self._life = None
            self._ready.clear()
            self._observer.mcp_server_up(self.id, False)
            if not self._hung:
                self._tell_breaker()
            if not self._stop.is_set():
                self._set_state(ServerState.RESTARTING)

    def _set_state(self, state: ServerState) -> None:
        if state is not self._state:
            self._since = time.time()
        self._state = state
        if state is ServerState.STARTING:
            self._started.clear()
        else:
            self._started.set()
            self.settled.set()
        self._on_change()
