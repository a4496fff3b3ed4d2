"""One life of a server, from ready to its end: its calls, and the events that end it.

Used by `cordboard.mcp.supervision.server` only, which makes a new one for each connection.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import mcp_types as types

from cordboard.config.mcp import McpRestart
from cordboard.errors import McpError, McpTimeout, McpUnavailable
from cordboard.mcp.supervision.breaker import Admission, Breaker, BreakerState
from cordboard.net.backoff import Backoff

if TYPE_CHECKING:  # the SDK is loaded later: `cordboard.mcp.sdk`
    from cordboard.mcp.connection import Connection, Progress, Transport

LIST_AGAIN_SECONDS = 2.0
"""Pause after a new listing, regardless of further notifications. Without it, 500 tools that change
all the time took a whole core, and 80 ms of the event loop each time (measured)."""


class RestartPolicy:
    """Decides when a server that went down is restarted or given up; begins without failures. Pure.

    The pause doubles with each remembered failure, up to `max_backoff_ms`. Random jitter shortens
    it by up to a fifth, so that servers which died together do not restart in step. A failure is
    forgotten when it is older than `window_ms`; all are when the server was ready for `healthy_ms`.
    With `max_restarts` remembered failures, the next one gives the server up.
    """

    def __init__(self, config: McpRestart, chance: Callable[[], float] = random.random) -> None:
        """`chance` returns numbers from 0 to 1."""
        self._config = config
        self._backoff = Backoff(
            config.backoff_ms / 1000, config.max_backoff_ms / 1000, chance=chance
        )
        self._failures: deque[float] = deque()

    def pause(self, now: float, ready_for: float) -> float | None:
        """Record the end of a life; return the seconds until the next one, or None to give up.

        `now` is in seconds of any steady clock; `ready_for` is how many seconds the server was
        ready.
        """
        config = self._config
        if not config.enabled:
            return None
        if ready_for >= config.healthy_ms / 1000:
            self._failures.clear()
        while self._failures and now - self._failures[0] > config.window_ms / 1000:
            self._failures.popleft()
        if len(self._failures) >= config.max_restarts:
            return None
        pause = self._backoff.pause(len(self._failures))
        self._failures.append(now)
        return pause


class Life:
    """A ready connection and the breaker of its calls."""

    def __init__(
        self,
        connection: Connection,
        transport: Transport,
        breaker: Breaker,
        on_breaker: Callable[[], None],
        *,
        may_hang: bool = False,
    ) -> None:
        """`on_breaker` is called when the breaker opens or closes. `may_hang`: the life continues
        although the breaker's probe is not answered, because there is no process to restart."""
        self.connection = connection
        self.transport = transport
        self.hangs = asyncio.Event()
        """Set when the life must end because the breaker's probe was not answered either."""
        self._may_hang = may_hang
        self._breaker = breaker
        self._on_breaker = on_breaker
        self._over = False
        self._under_way = 0
        self._quiet = asyncio.Event()
        self._quiet.set()

    @property
    def breaker(self) -> BreakerState:
        """State of the breaker."""
        return self._breaker.state

    async def quiet(self, seconds: float) -> bool:
        """True if at some moment within `seconds` no call is in flight."""
        return await happens(self._quiet, seconds)

    async def call(
        self,
        tool: str,
        arguments: dict[str, Any],
        timeout: float,
        progress: Progress | None,
        patience: float = 0.0,
    ) -> types.CallToolResult:
        """See `SupervisedServer.call`."""
        loop = asyncio.get_running_loop()
        admission = self._breaker.admit(loop.time())
        if admission is Admission.REFUSED:
            raise McpUnavailable("the server has not answered lately and is not called for a while")
        answered: bool | None = None
        overdue = False

        def is_overdue() -> None:
            nonlocal overdue
            overdue = True
            self._tell_breaker(admission, False)

        watch = loop.call_later(timeout, is_overdue)
        self._under_way += 1
        self._quiet.clear()
        try:
            result = await self.connection.call(tool, arguments, timeout, progress, patience)
            answered = True
        except (McpTimeout, McpUnavailable):
            # If the break ended this life, the restart policy deals with it.
            answered = None if self._over or self.transport.closed.is_set() else False
            raise
        except McpError:
            answered = True
            raise
        finally:
            self._under_way -= 1
            if not self._under_way:
                self._quiet.set()
            watch.cancel()
            if not overdue:
                self._tell_breaker(admission, answered)
            elif answered:  # it was counted as unanswered, but the server is not dead after all
                self._tell_breaker(Admission.CALL, answered)
        return result

    async def check(self, seconds: float) -> None:
        """Ask the server for its tools; if it does not answer within `seconds`, open the breaker.
        Does nothing unless the breaker is closed."""
        if self._breaker.state is not BreakerState.CLOSED:
            return
        try:
            await self.connection.list_tools(seconds)
        except (McpTimeout, McpUnavailable):
            if self._over or self.transport.closed.is_set():
                return
            if self._breaker.trip(asyncio.get_running_loop().time()):
                self._on_breaker()
        except McpError:
            return  # an answer

    async def until_over(
        self, stop: asyncio.Event, list_again: Callable[[Connection], Awaitable[None]]
    ) -> None:
        """Wait for the end or for `stop`; list the tools again when they change."""
        changed, closed = self.connection.list_changed, self.transport.closed
        ends = [asyncio.ensure_future(event.wait()) for event in (stop, closed, self.hangs)]
        try:
            while not any(end.done() for end in ends):
                news = asyncio.ensure_future(changed.wait())
                try:
                    await asyncio.wait({*ends, news}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    news.cancel()
                if changed.is_set() and not closed.is_set():
                    changed.clear()
                    await list_again(self.connection)
                    await asyncio.wait(
                        ends, timeout=LIST_AGAIN_SECONDS, return_when=asyncio.FIRST_COMPLETED
                    )
        finally:
            self._over = True
            for end in ends:
                end.cancel()

    def _tell_breaker(self, admission: Admission, answered: bool | None) -> None:
        if answered is None:
            self._breaker.abandoned(admission)
        elif answered:
            if self._breaker.answered(admission):
                self._on_breaker()
        elif self._breaker.unanswered(admission, asyncio.get_running_loop().time()):
            if admission is Admission.PROBE and not self._may_hang:
                self.hangs.set()
            self._on_breaker()


async def happens(event: asyncio.Event, seconds: float) -> bool:
    """True if the event is set within `seconds`."""
    if not event.is_set():
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await event.wait()
    return event.is_set()
