"""One supervised MCP server: started, watched, restarted, stopped, and callable from every call.

One owner task enters the connection, lists the tools, waits for its end and leaves it again, as the
SDK's cancel scopes require. When a life ends unexpectedly, `RestartPolicy` decides how long to
pause before the next one, or to give up. `Breaker` keeps calls away from a server that is up but
does not answer; a subprocess that does not answer the breaker's probe either is restarted.

    (idle ─►) starting ─► ready ◄─► restarting ─► failed          any ─► stopped ─► starting

Calls never wait for a server that went down: they fail with `McpUnavailable` at once, and calls in
flight fail at that moment. Calls wait only for a requested start, within their own timeout. All
waits are on events.
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
from cordboard.mcp.message_log import MessageLog, Tail
from cordboard.mcp.negotiation import Negotiation
from cordboard.mcp.printable import printable
from cordboard.mcp.stdio.spawn_turns import SpawnTurns
from cordboard.mcp.stdio.stderr import StderrTail
from cordboard.mcp.supervision.breaker import Breaker, BreakerState
from cordboard.mcp.supervision.life import Life, RestartPolicy, happens
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
    """One configured server. `start`, `stop` and `restart` it as needed; `close` it for good."""

    def __init__(
        self,
        server_id: str,
        config: McpServer,
        observer: ServerObserver | None = None,
        on_change: Callable[[], None] = lambda: None,
        turns: SpawnTurns | None = None,
        transport: Callable[..., Transport] = transport_of,
    ) -> None:
        """`on_change` is called when `listing` or the state has changed; `turns` is shared by
        servers that must not start all at once; `transport` makes the transport and takes the
        arguments of `transport_of`."""
        self.id = server_id
        self.config = config
        self._observer: ServerObserver = observer or SilentServerObserver()
        self._on_change = on_change
        self._turns = turns or SpawnTurns()
        self._transport = transport
        self._stderr = StderrTail(server_id, secrets_of(config))
        self.messages = MessageLog(self._stderr.shown)
        """Its last messages, for the operator."""
        self._negotiation = Negotiation(config.protocol, handshake_first=config.transport != "http")
        self._policy = RestartPolicy(config.restart)
        lazy = config.start == "lazy"
        self.state = ServerState.IDLE if lazy else ServerState.STOPPED
        self._since = time.time()
        self._again_at: float | None = None
        self._last_error = ""
        self._restarts = 0
        self._life: Life | None = None
        self._hung = False
        """True if the last life was ended because it did not answer."""
        self._breaker_told = False
        self._owner: asyncio.Task[None] | None = None
        self._turn = asyncio.Lock()
        """Held while the server is started, stopped or restarted."""
        self._later: asyncio.Task[None] | None = None
        """A start that waits for its turn."""
        self._closed = False
        self._stop = asyncio.Event()
        self._afterwards = ServerState.STOPPED
        """The state to enter when the owner task has ended."""
        self._ready = asyncio.Event()
        self._started = asyncio.Event()
        """Set unless it is starting."""
        self.settled = asyncio.Event()
        """Set once the first start has succeeded or failed."""
        self.discovered = False
        """True once `listing` has come from the server itself."""
        self.listing: tuple[types.Tool, ...] = expected_tools(config) if lazy else ()
        """The tools as last listed; kept while the server restarts, empty when it is given up or
        stopped. For a lazy server that was never started: the tools that the operator has named."""

    def status(self) -> ServerStatus:
        """Return a snapshot for the operator."""
        life = self._life
        return ServerStatus(
            server=self.id,
            state=self.state,
            since=self._since,
            pid=life.transport.pid if life else None,
            protocol=life.connection.protocol if life else "",
            tools=tuple(tool.name for tool in self.listing),
            restarts=self._restarts,
            last_error=self._last_error,
            stderr=self._stderr.lines,
            breaker=life.breaker if life else BreakerState.CLOSED,
            capabilities=life.connection.capabilities if life else (),
            again_at=self._again_at,
            runs_at=life.connection.relayed_to if life else "",
        )

    def start(self) -> None:
        """Begin to start the server, unless it runs or was closed; return at once.

        If it is being stopped, it is started afterwards.
        """
        if self._turn.locked():
            self._later = asyncio.create_task(self._start_in_turn())
        elif self.state is ServerState.FAILED and self._runs:
            self._later = asyncio.create_task(self._restart_in_turn())
        elif not (self._closed or self._runs):
            self._begin(ServerState.STARTING)

    def request_start(self) -> None:
        """Begin to start a lazy server that is still idle; return at once."""
        if self.state is ServerState.IDLE:
            self.start()

    async def stop(self) -> None:
        """Stop the server until `start` or `restart`; calls in flight get `stop_grace_ms` to end.

        Nothing of it is left afterwards. Completes even if the caller is cancelled.
        """
        await see_through(self._stop_in_turn(drain=True))

    async def restart(self) -> None:
        """Stop the server like `stop`, if it runs, and begin a new life with all failures
        forgotten.

        Its tools stay offered. Does not wait for the new life (`wait_ready`).
        """
        await see_through(self._restart_in_turn())

    async def close(self) -> None:
        """Stop the server for good and wait until nothing of it is left. Idempotent."""
        self._closed = True
        await see_through(self._stop_in_turn(drain=False))

    def mask(self, text: str) -> str:
        """Return the text with the server's secrets masked, for logs and error messages."""
        return self._stderr.mask(text)

    def stderr_after(self, known: int) -> Tail[str]:
        """Return the lines of its stderr after that number."""
        return self._stderr.after(known)

    @property
    def fetched_tokens(self) -> tuple[str, ...]:
        """The last tokens that were fetched for the login."""
        return self._stderr.fetched

    async def wait_ready(self, timeout: float) -> bool:
        """True if the server becomes ready within `timeout` seconds."""
        return await happens(self._ready, timeout)

    async def list_now(self, timeout: float) -> tuple[types.Tool, ...]:
        """List the server's tools now, without changing `listing`.

        Raises `McpError`; `timeout` in seconds.
        """
        life = self._life
        if life is None:
            raise McpUnavailable(f"the server is {self.state}")
        return await life.connection.list_tools(timeout)

    async def check(self, seconds: float) -> None:
        """Find out whether the server answers; open its breaker if it does not within `seconds`.
        Does nothing while it is not ready, or its breaker is open."""
        if self._life is not None:
            await self._life.check(seconds)

    async def call(
        self,
        tool: str,
        arguments: dict[str, Any],
        timeout: float,
        progress: Progress | None = None,
        patience: float = 0.0,
    ) -> types.CallToolResult:
        """Call a tool by the server's own name; `timeout` in seconds, including a start.

        A late answer is still accepted for `patience` seconds more; until it arrives, the breaker
        counts the call as unanswered.

        Raises `McpUnavailable` at once if the server is down or its breaker is open; `McpTimeout`;
        or `McpError`.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        self.request_start()
        if not await happens(self._started, timeout):
            raise McpTimeout("the server is still starting")
        life = self._life
        if life is None:
            raise McpUnavailable(f"the server is {self.state}")
        try:
            return await life.call(tool, arguments, deadline - loop.time(), progress, patience)
        except McpError as error:
            raise type(error)(self._shown(error)) from None  # its cause quotes the server

    def _tell_breaker(self) -> None:
        """Report a change of the breaker to observer, log and `on_change`."""
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
        # Not in the context of the call that wakes it: its log lines and spans are not the call's.
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
            elif self.state is not ServerState.STOPPED:
                self.listing = ()
                self._set_state(ServerState.STOPPED)

    async def _restart_in_turn(self) -> None:
        async with self._turn:
            if self._closed:
                return
            if self._runs:
                await self._end(ServerState.RESTARTING, drain=True)
            if self._owner is not None:  # otherwise it is the first life
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
            owner.cancel()  # during a start or a pause; leaving still cleans up
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
        """Run one life after another."""
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
            self._again_at = time.time() + pause
            try:
                if await happens(self._stop, pause):
                    return
            finally:
                self._again_at = None
            self._restarts += 1
            self._observer.mcp_server_restarted(self.id)

    def _give_up(self) -> float:
        """Withdraw the tools; return the seconds until the server is tried again.

        Trying again matters at night, when no operator restarts a server that has recovered.
        """
        self.listing = ()
        self._policy = RestartPolicy(self.config.restart)
        self._set_state(ServerState.FAILED)
        return self.config.restart.window_ms / 1000

    async def _live(self) -> tuple[McpError, float]:
        """Run one life from start to end; return why it ended and how many seconds it was ready."""
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
            async with connect(transport, deadline, self._negotiation, self.messages) as connection:
                listing = await connection.list_tools(began + deadline - loop.time())
                ready_at = loop.time()
                life = self._become_ready(connection, transport, listing, ready_at - began)
                await life.until_over(self._stop, self._list_again)
                if life.hangs.is_set():
                    error = McpTimeout("it did not answer")
                self._leave_ready()
        except McpError as failure:
            error = failure
        except Exception as failure:  # noqa: BLE001 - task border: supervision must continue
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
        """Return the error with the details known about the process."""
        if transport is None or not isinstance(error, McpUnavailable):
            return error
        words = f"it {transport.ending}" + ("" if was_ready else " before it was ready")
        if not was_ready and self._stderr.lines:
            words += f"; its last line on stderr: {self._stderr.lines[-1][:200]}"
        return McpUnavailable(words)

    def _shown(self, error: McpError) -> str:
        """Return the error for logs and operators: secrets masked first, then cut."""
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
        # A server restarted because it did not answer must first show that it answers.
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
        """Stop passing calls on."""
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
        if state is not self.state:
            self._since = time.time()
        self.state = state
        if state is ServerState.STARTING:
            self._started.clear()
        else:
            self._started.set()
            self.settled.set()
        self._on_change()
