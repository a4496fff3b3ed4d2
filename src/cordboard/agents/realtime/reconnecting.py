"""The connection to the service for a whole call: opened ahead, kept alive, reopened when lost.

    open → start → up … lost → up … → close

A lost connection is replaced within its limits while the call continues: messages sent meanwhile
are dropped, results of tools wait. The protocol says what the loss means, and whether another
connection may help.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import structlog

from cordboard.agent_api.service_protocol import Lost, ServiceProtocol
from cordboard.errors import AgentError, FailureKind
from cordboard.net.backoff import Backoff
from cordboard.net.service_websocket import Address, NotConnected, ServiceConnection

log = structlog.get_logger()

FIRST_RETRIES = 1
"""Retries when a call begins: the caller is waiting, and there may be a fallback."""
RETRIES = Backoff(first=0.25, most=2.0)
"""Pauses between retries; the first one starts at once."""
MANY, WITHIN = 5, 60.0
"""This many losses within this many seconds mean that the service does not work."""


Connect: TypeAlias = Callable[[Address, str], ServiceConnection]
"""Makes a connection to an address, not yet open; the second argument names the peer."""


@dataclass(frozen=True, slots=True)
class LinkSettings:
    """Retries and timeouts of the link."""

    peer: str
    connect_seconds: float
    """Timeout for the connection, and again for the service to accept the session."""
    retries: int


class LinkOwner(Protocol):
    """The agent as its link sees it. Called on the event loop."""

    def introduce(self, *, again: bool) -> None:
        """Have the protocol begin on a new connection."""

    def receive_text(self, message: bytes) -> None: ...

    def receive_binary(self, data: bytes) -> None: ...

    def link_lost(self) -> None:
        """Note that the connection is gone; a new one is being tried."""

    def link_restored(self, reason: str) -> None:
        """Note that there is a new connection; `reason` is the reason for it."""

    def link_failed(self, kind: FailureKind, reason: str) -> None:
        """Note that there will be no new connection."""


class _Refused(Exception):
    """A failed attempt."""

    def __init__(self, lost: Lost) -> None:
        super().__init__(lost.reason)
        self.lost = lost


def loss_of(error: NotConnected, protocol: ServiceProtocol) -> Lost:
    """Return the meaning of a failed attempt. A protocol knows refusals only: a service that cannot
    be reached is the same for all."""
    if error.status is None:
        return Lost(error.kind, str(error), again=True)
    return protocol.lost(error.status, None, error.words)


class ServiceLink:
    """The link of one call. Implements `service_websocket.Receiver`."""

    def __init__(
        self,
        protocol: ServiceProtocol,
        tls: ssl.SSLContext,
        settings: LinkSettings,
        owner: LinkOwner,
        warm: Callable[[], ServiceConnection | None] = lambda: None,
        connection: Connect = ServiceConnection,
    ) -> None:
        """`warm()` may return a connection that is already open."""
        self._warm = warm
        self._new_connection = connection
        self._loop = asyncio.get_running_loop()
        self._protocol = protocol
        self._tls = tls
        self._settings = settings
        self._owner = owner
        self._connection: ServiceConnection | None = None
        self._opening: asyncio.Task[ServiceConnection] | None = None
        self._accepted: asyncio.Future[None] | None = None
        """Set when the service accepts the session on the connection being introduced."""
        self._mending: asyncio.Task[None] | None = None
        self._losses: list[float] = []
        self._first_retries = min(FIRST_RETRIES, settings.retries)
        """Retries left until the call has begun."""
        self._closed = False
        self.up = False
        """True while the service takes sound and results."""
        self.last_message_at = self._loop.time()
        """Loop time of the service's last message."""

    # Connecting.

    async def open(self) -> None:
        """Connect, without a session yet. Raises `AgentError`."""
        try:
            await asyncio.shield(self._begin_opening())
        except _Refused as refused:
            raise AgentError(refused.lost.reason, refused.lost.kind) from None

    def _begin_opening(self) -> asyncio.Task[ServiceConnection]:
        if self._opening is None:
            self._opening = self._loop.create_task(self._connect_at_first())
        return self._opening

    async def _connect_at_first(self) -> ServiceConnection:
        """Connect at the start of the call, with its retry. Raises `_Refused`."""
        while True:
            try:
                return await self._connect()
            except _Refused as refused:
                if not self._tries_once_more(refused.lost):
                    raise
            await asyncio.sleep(RETRIES.pause(0))

    def _tries_once_more(self, lost: Lost) -> bool:
        if not lost.again or self._first_retries == 0:
            return False
        self._first_retries -= 1
        self._warn(lost, 1)
        return True

    async def start(self) -> None:
        """Connect if that is not done, and wait until the service has accepted the session. Raises
        `AgentError`."""
        while True:
            try:
                await self._attempt(again=False)
            except _Refused as refused:
                if not self._tries_once_more(refused.lost):
                    raise AgentError(refused.lost.reason, refused.lost.kind) from None
            else:
                self._first_retries = 0
                return
            await asyncio.sleep(RETRIES.pause(0))

    async def close(self) -> None:
        """Release everything. Idempotent."""
        self._closed = True
        self.up = False
        for task in (self._opening, self._mending):
            if task is not None:
                task.cancel()
        pending = [task for task in (self._opening, self._mending) if task is not None]
        await asyncio.gather(*pending, return_exceptions=True)
        if self._connection is not None:
            await self._connection.close()
        opened = self._opened_and_unused()
        if opened is not None:
            opened.abort()

    def _opened_and_unused(self) -> ServiceConnection | None:
        task = self._opening
        if task is None or not task.done() or task.cancelled() or task.exception() is not None:
            return None
        return task.result() if task.result() is not self._connection else None

    # Calls from the protocol.

    def accepted(self) -> None:
        """Note that the service has accepted the session."""
        self.up = True
        if self._accepted is not None and not self._accepted.done():
            self._accepted.set_result(None)

    def send_text(self, message: bytes) -> None:
        if self._connection is not None:
            self._connection.send_text(message)

    def send_binary(self, data: bytes) -> None:
        if self._connection is not None:
            self._connection.send_binary(data)

    @property
    def takes_sound(self) -> bool:
        """True if sound has a chance to arrive in time."""
        connection = self._connection
        return self.up and connection is not None and not connection.congested

    def replace(self, reason: str) -> None:
        """Open a new connection; the current one is used until the new one is ready."""
        self._mend(Lost("dropped", reason, again=True))

    def leave(self, reason: str) -> None:
        """Open a new connection in place of one that has stalled. If it wakes up meanwhile, the
        caller hears nothing of it: what it owes is asked of the new one."""
        if self._connection is not None and not self._is_mending:
            self.up = False
            self._connection.abort()
        self._mend(Lost("stalled", reason, again=True))

    def give_up(self, kind: FailureKind, reason: str) -> None:
        """End the link for good: the protocol cannot continue."""
        accepted = self._accepted
        if accepted is not None and not accepted.done():
            accepted.set_exception(_Refused(Lost(kind, reason, again=False)))
        else:
            self._fail(Lost(kind, reason, again=False))

    # service_websocket.Receiver

    def receive_text(self, message: bytes) -> None:
        self.last_message_at = self._loop.time()
        self._owner.receive_text(message)

    def receive_binary(self, data: bytes) -> None:
        self.last_message_at = self._loop.time()
        self._owner.receive_binary(data)

    def connection_lost(self, code: int | None, problem: str) -> None:
        self.up = False
        lost = self._protocol.lost(None, code, problem)
        accepted = self._accepted
        if accepted is not None and not accepted.done():
            accepted.set_exception(_Refused(lost))
        else:
            self._mend(lost)

    # Inside.

    async def _connect(self) -> ServiceConnection:
        """Connect once. Raises `_Refused`."""
        if (warm := self._warm()) is not None:
            return warm
        seconds = self._settings.connect_seconds
        try:
            async with asyncio.timeout(seconds):
                address = await self._protocol.address()
            connection = self._new_connection(address, self._settings.peer)
        except TimeoutError:
            reason = f"{self._settings.peer} cannot be reached (no answer within {seconds:g} s)"
            raise _Refused(Lost("connect", reason, again=True)) from None
        except AgentError as error:
            raise _Refused(Lost(error.kind, str(error), error.kind == "connect")) from None
        try:
            await connection.open(self._tls, seconds)
        except NotConnected as error:
            raise _Refused(loss_of(error, self._protocol)) from None
        return connection

    async def _establish(self, retries: int) -> None:
        """Introduce the session, with `retries` retries. Raises the `_Refused` of the last
        attempt."""
        for attempt in range(retries + 1):
            try:
                await self._attempt(again=True)
            except _Refused as refused:
                self._warn(refused.lost, attempt + 1)
                if not refused.lost.again or attempt == retries:
                    raise
                await asyncio.sleep(RETRIES.pause(attempt))
            else:
                return

    def _warn(self, lost: Lost, attempt: int) -> None:
        log.warning(
            "service_refused",
            peer=self._settings.peer,
            kind=lost.kind,
            reason=lost.reason,
            attempt=attempt,
        )

    async def _attempt(self, *, again: bool) -> None:
        try:
            connection = await self._begin_opening()
        finally:
            self._opening = None
        before, self._connection = self._connection, connection
        if before is not None:
            before.abort()
        self.up = False
        accepted = self._accepted = self._loop.create_future()
        self._owner.introduce(again=again)
        connection.take(self)
        seconds = self._settings.connect_seconds
        try:
            async with asyncio.timeout(seconds):
                await accepted
        except TimeoutError:
            connection.abort()
            reason = f"{self._settings.peer} did not accept the session within {seconds:g} s"
            raise _Refused(Lost("connect", reason, again=True)) from None

    @property
    def _is_mending(self) -> bool:
        return self._mending is not None and not self._mending.done()

    def _mend(self, lost: Lost) -> None:
        if self._closed or self._is_mending:
            return
        now = self._loop.time()
        self._losses = [at for at in self._losses if now - at < WITHIN] + [now]
        if not lost.again or self._settings.retries == 0 or len(self._losses) > MANY:
            self._fail(lost)
            return
        self._owner.link_lost()
        self._mending = self._spawn(self._establish_again(lost))

    async def _establish_again(self, lost: Lost) -> None:
        try:
            await self._establish(self._settings.retries - 1)
        except _Refused as refused:
            self._fail(refused.lost)
        except Exception as error:  # task border: otherwise the call would wait for ever
            log.exception("service_link_failed", peer=self._settings.peer)
            reason = f"{self._settings.peer}: internal error: {type(error).__name__}"
            self._fail(Lost("internal", reason, again=False))
        else:
            self._owner.link_restored(f"{lost.kind}: {lost.reason}")

    def _fail(self, lost: Lost) -> None:
        self.up = False
        if self._connection is not None:
            self._connection.abort()
        if not self._closed:
            self._owner.link_failed(lost.kind, lost.reason)

    def _spawn(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        return self._loop.create_task(work, name="realtime-link")
