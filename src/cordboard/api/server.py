"""The HTTP port: uvicorn inside the engine's own event loop.

uvicorn is made to behave as a guest: it installs no signal handlers, never exits the process,
configures no logging, and leaves nothing behind after `close()`. A connection without a whole
request, or with an unread answer, waits in a queue of bounded length (`_Waiting`), so that a
thousand idle or dripping ones neither take all descriptors nor keep an honest client out.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import socket
import ssl
from collections.abc import Iterator
from functools import partial
from typing import Any, cast

import structlog
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from cordboard.config.schema import Health
from cordboard.config.sections.admin import AdminUi
from cordboard.errors import ListenError

CLOSE_SECONDS = 2
"""Grace period of unfinished requests when the engine stops."""
IDLE_SECONDS = 15.0
"""Timeout of a connection without a whole request, or with an unread answer."""
MOST_WAITING = 256
"""Connections without a whole request, or with an unread answer; a further one closes the one that
has waited longest. An honest client sends its request at once: at most a few `_BACKLOG`s of
simultaneous connections come before it."""
_BACKLOG = 64
MOST_FRAME_BYTES = 64 * 1024
"""Bytes of a client's websocket message; a larger one closes the socket with 1009."""
PING_SECONDS = 20.0
"""Time between two pings of a websocket, and the timeout of their answer."""

log = structlog.get_logger()


class HttpServer:
    """Serves one application on one port, from `start` to `close`."""

    def __init__(
        self,
        address: Health | AdminUi,
        app: ASGIApp,
        *,
        key: str = "health.port",
        tls: ssl.SSLContext | None = None,
        idle_seconds: float = IDLE_SECONDS,
        most_waiting: int = MOST_WAITING,
        websockets: type[asyncio.Protocol] | None = None,
    ) -> None:
        """`key` of the configuration is named in the error when the port cannot be opened. `tls`:
        the port speaks https. `websockets`: protocol of an upgraded connection, such as
        `cordboard.api.server_websocket.ServerWebSocket`; None: there are no websockets."""
        self._host = address.host
        self.port = address.port
        """The TCP port; the real one after `start`, also when the configured one is 0."""
        self._app = app
        self._key = key
        self._tls = tls
        self._idle_seconds = idle_seconds
        self._most_waiting = most_waiting
        self._websockets = websockets
        self._server: _Guest | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Open the port and begin to serve. Raises `ListenError` when the port cannot be opened."""
        listener = await _listen(self._host, self.port, self._key)
        self.port = int(listener.getsockname()[1])
        waiting = _Waiting(self._most_waiting)
        self._server = _Guest(self._app, self._idle_seconds, waiting, self._tls, self._websockets)
        self._task = asyncio.create_task(self._server.serve([listener]), name="http-server")
        started = asyncio.create_task(self._server.serving.wait())
        try:
            await asyncio.wait({started, self._task}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            started.cancel()
        if self._task.done():
            listener.close()
            await self._task  # raises its error
        log.info("http_listening", host=self._host, port=self.port)

    async def close(self) -> None:
        """Stop serving and free the port; takes at most about `CLOSE_SECONDS`. Idempotent."""
        server, task = self._server, self._task
        self._server = self._task = None
        if server is None or task is None:
            return
        server.end()
        await task


class _Waiting:
    """Connections that wait for their client, the one that has waited longest first."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._connections: dict[_ImpatientProtocol, None] = {}

    def add(self, connection: _ImpatientProtocol) -> None:
        """Add a waiting connection; one too many closes the first."""
        self._connections[connection] = None
        if len(self._connections) > self._most:
            next(iter(self._connections)).drop()

    def remove(self, connection: _ImpatientProtocol) -> None:
        """Remove a connection that is being answered, or is closed."""
        self._connections.pop(connection, None)


class _ImpatientProtocol(H11Protocol):
    """uvicorn's HTTP, which by itself waits forever for a first request, or the rest of one."""

    def __init__(self, *, idle_seconds: float, waiting: _Waiting, **uvicorn_s: Any) -> None:
        super().__init__(**uvicorn_s)
        self._idle_seconds = idle_seconds
        self._waiting = waiting
        self._look: asyncio.TimerHandle | None = None
        self._seen: tuple[object, int] = (None, 0)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._look = self.loop.call_later(self._idle_seconds, self._close_if_idle)
        self._waiting.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._look is not None:
            self._look.cancel()
        self._waiting.remove(self)
        super().connection_lost(exc)

    def handle_events(self) -> None:
        super().handle_events()
        if self._answering and not self.flow.write_paused:
            self._waiting.remove(self)

    def handle_websocket_upgrade(self, event: Any) -> None:
        """Give the connection to the websocket's protocol, which has timeouts of its own."""
        if self._look is not None:
            self._look.cancel()
        self._waiting.remove(self)
        super().handle_websocket_upgrade(event)

    def pause_writing(self) -> None:
        self._waiting.add(self)
        super().pause_writing()

    def resume_writing(self) -> None:
        if self._answering:
            self._waiting.remove(self)
        super().resume_writing()

    def on_response_complete(self) -> None:
        self._waiting.add(self)
        super().on_response_complete()

    def drop(self) -> None:
        """Close the connection at once, dropping unsent data."""
        self._waiting.remove(self)
        self.transport.abort()

    @property
    def _answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _close_if_idle(self) -> None:
        """Close unless a request is being answered and read, or a new one came since the last
        check."""
        seen = (self.cycle, self.transport.get_write_buffer_size())
        if seen == self._seen and (self.flow.write_paused or not self._answering):
            self.drop()
            return
        self._seen = seen
        self._look = self.loop.call_later(self._idle_seconds, self._close_if_idle)


class _Guest(uvicorn.Server):
    """uvicorn without its claim on the process."""

    def __init__(
        self,
        app: ASGIApp,
        idle_seconds: float,
        waiting: _Waiting,
        tls: ssl.SSLContext | None,
        websockets: type[asyncio.Protocol] | None,
    ) -> None:
        protocol = partial(_ImpatientProtocol, idle_seconds=idle_seconds, waiting=waiting)
        config = uvicorn.Config(
            app,
            http=cast("type[asyncio.Protocol]", protocol),
            ws=websockets or "none",
            ws_max_size=MOST_FRAME_BYTES,
            ws_ping_interval=PING_SECONDS,
            ws_ping_timeout=PING_SECONDS,
            ws_per_message_deflate=False,  # it takes its time on the event loop
            loop="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            backlog=_BACKLOG,
            timeout_keep_alive=math.ceil(idle_seconds),
            timeout_graceful_shutdown=CLOSE_SECONDS,
            ssl_context_factory=None if tls is None else lambda *_: tls,
        )
        super().__init__(config)
        self.serving = asyncio.Event()
        self._ending = asyncio.Event()

    def end(self) -> None:
        """Let `serve` return, once open requests are answered."""
        self.should_exit = True
        self._ending.set()

    async def main_loop(self) -> None:
        """Wait for `end`; uvicorn's own version polls ten times a second."""
        tenths = 0
        while not await self.on_tick(tenths):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ending.wait(), 1)
            tenths += 10  # at each full second uvicorn renews the date of its answers

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.serving.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals to the engine."""
        yield


async def _listen(host: str, port: int, key: str) -> socket.socket:
    """Return a listening socket at the first address of the host name."""
    try:
        addresses = await asyncio.get_running_loop().getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        family, kind, protocol, _, address = addresses[0]
        listener = socket.socket(family, kind, protocol)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(_BACKLOG)
            listener.setblocking(False)
        except OSError:
            listener.close()
            raise
    except OSError as error:
        reason = error.strerror or str(error)
        message = f"the HTTP port {host}:{port} cannot be opened: {reason} ({key})"
        raise ListenError(message) from error
    return listener
