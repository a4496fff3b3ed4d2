"""Several HTTP applications in one event loop: uvicorn as a guest that leaves signals alone."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator

import uvicorn
from starlette.types import ASGIApp

CLOSE_SECONDS = 1
_BACKLOG = 128


class PortTaken(Exception):
    """A port cannot be opened; the text names it and the reason."""


def listener(host: str, port: int) -> socket.socket:
    """A bound socket; port 0 takes a free one. Raises `PortTaken`."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
    except OSError as error:
        sock.close()
        raise PortTaken(f"{host}:{port} cannot be opened: {error.strerror or error}") from error
    return sock


def url_of(sock: socket.socket) -> str:
    """`http://host:port` of a bound socket."""
    host, port = sock.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class _Guest(uvicorn.Server):
    """uvicorn without its claim on the process."""

    def __init__(self, app: ASGIApp) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                ws="none",
                loop="none",
                lifespan="on",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                backlog=_BACKLOG,
                timeout_graceful_shutdown=CLOSE_SECONDS,
            )
        )
        self.serving = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.serving.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextlib.asynccontextmanager
async def served(app: ASGIApp, sock: socket.socket) -> AsyncIterator[None]:
    """Serves an application on a bound socket; closed afterwards, connections and all."""
    guest = _Guest(app)
    task = asyncio.create_task(guest.serve([sock]), name="http-server")
    started = asyncio.create_task(guest.serving.wait())
    try:
        await asyncio.wait({started, task}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            await task  # raises what went wrong
            raise RuntimeError("the HTTP server ended before it began")
        yield
    finally:
        started.cancel()
        guest.should_exit = True
        with contextlib.suppress(asyncio.CancelledError):
            await task
        sock.close()
