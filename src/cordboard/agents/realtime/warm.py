"""One connection kept open ahead per provider, for the next call (`warm_connection: true`).

It has no session yet, so it costs nothing. Services close idle connections, so it is replaced by a
fresh one after a while, and at once when it is taken; a connection that was lost in between is
noticed then. A service that refuses is tried again with increasing pauses; calls then connect by
themselves.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable

import structlog

from cordboard.agent_api.service_protocol import ServiceProtocol
from cordboard.errors import AgentError
from cordboard.net.backoff import Backoff
from cordboard.net.service_websocket import ServiceConnection

log = structlog.get_logger()

FRESH = 25.0
"""Seconds for which a connection without a session is kept. Deepgram closes one after 10 s without
a message in a session; none of the services documents how long it waits for a session."""
PAUSES = Backoff(first=5.0, most=120.0)
"""Pauses between failed attempts."""


class WarmConnection:
    """Keeps one provider's connection ready, from `begin` to `close`."""

    def __init__(
        self,
        protocol: Callable[[], ServiceProtocol],
        tls: ssl.SSLContext,
        peer: str,
        seconds: float,
    ) -> None:
        """`seconds`: the limit of one attempt to connect."""
        self._protocol = protocol
        self._tls = tls
        self._peer = peer
        self._seconds = seconds
        self._ready: ServiceConnection | None = None
        self._taken = asyncio.Event()
        self._keeping: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Start to keep a connection. Idempotent."""
        if self._keeping is None:
            self._keeping = asyncio.get_running_loop().create_task(self._keep(), name="warm")
            self._keeping.add_done_callback(self._kept)

    def take(self) -> ServiceConnection | None:
        """Return the connection if it is alive; a new one replaces it."""
        ready, self._ready = self._ready, None
        self._taken.set()
        return ready if ready is not None and ready.alive else None

    async def close(self) -> None:
        """Stop keeping a connection."""
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.wait((self._keeping,))
        if self._ready is not None:
            await self._ready.close()

    def _kept(self, task: asyncio.Task[None]) -> None:
        """Task border: after a failure calls connect by themselves."""
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("warm_connection_gave_up", peer=self._peer, exc_info=error)

    async def _keep(self) -> None:
        failures = 0
        while True:
            try:
                address = await self._protocol().address()
                connection = ServiceConnection(address, self._peer)
                await connection.open(self._tls, self._seconds)
            except AgentError as error:
                log.warning("warm_connection_failed", peer=self._peer, error=str(error))
                await asyncio.sleep(PAUSES.pause(failures))
                failures += 1
                continue
            failures = 0
            self._taken.clear()
            self._ready = connection
            await self._until_stale()
            stale, self._ready = self._ready, None
            if stale is not None:
                await stale.close()

    async def _until_stale(self) -> None:
        try:
            async with asyncio.timeout(FRESH):
                await self._taken.wait()
        except TimeoutError:
            return
