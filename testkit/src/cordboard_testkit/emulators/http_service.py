"""An emulated service by HTTP: a small application on uvicorn, on loopback.

Base of the emulators that answer a POST with JSON, events or audio. It records
requests (`Book`), refuses in the service's words (`Refused`), and resets a connection in the
middle of an answer (`HttpService.drop`).
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import BaseRoute

CLOSE_SECONDS = 1


@dataclass(frozen=True, slots=True)
class Asked:
    """One request."""

    at: float
    """`time.monotonic`."""
    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: Any = None
    """The parsed JSON, if it was JSON."""


class Refused(Exception):
    """The service refuses. The emulator writes it in its protocol."""

    def __init__(
        self,
        status: int,
        message: str,
        code: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code
        self.headers = dict(headers or {})


@dataclass(slots=True)
class Book:
    """The requests, and their violations."""

    received: list[Asked] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)

    def note(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        headers: Mapping[str, str],
        body: Any,
    ) -> None:
        asked = Asked(time.monotonic(), method, path, dict(query), dict(headers), body)
        self.received.append(asked)


class HttpService:
    """Serves routes from `async with` to its end."""

    def __init__(
        self,
        routes: Sequence[BaseRoute],
        websockets: type[asyncio.Protocol] | None = None,
        *,
        port: int = 0,
    ) -> None:
        """`websockets`: uvicorn's side of the websocket routes, if there are any."""
        self._app = Starlette(routes=routes)
        self._websockets = websockets
        self._server: _Guest | None = None
        self._task: asyncio.Task[None] | None = None
        self.port = port

    @property
    def origin(self) -> str:
        """`http://127.0.0.1:port`."""
        return f"http://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        # The protocol number lets asyncio set TCP_NODELAY; without it each answer takes 40 ms.
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", self.port))
        except OSError:
            listener.close()
            raise
        self.port = int(listener.getsockname()[1])
        self._server = _Guest(self._app, self._websockets)
        self._task = asyncio.create_task(self._server.serve([listener]))
        await self._server.serving.wait()
        return self

    def drop(self, request: Request) -> None:
        """Reset the connection of this request."""
        if self._server is None:
            return
        for connection in list(self._server.server_state.connections):
            cycle = getattr(connection, "cycle", None)
            if cycle is not None and cycle.scope is request.scope:
                connection.transport.abort()

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None and self._task is not None:
            self._server.should_exit = True
            self._server.force_exit = True
            for connection in list(self._server.server_state.connections):
                connection.transport.abort()
            self._server.ending.set()
            await self._task


class _Guest(uvicorn.Server):
    """uvicorn without its claim on the process."""

    def __init__(self, app: Starlette, websockets: type[asyncio.Protocol] | None) -> None:
        config = uvicorn.Config(
            app,
            http="h11",
            ws=websockets or "none",
            ws_ping_interval=None,
            ws_per_message_deflate=False,
            loop="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_keep_alive=60,
            timeout_graceful_shutdown=CLOSE_SECONDS,
        )
        super().__init__(config)
        self.serving = asyncio.Event()
        self.ending = asyncio.Event()

    async def main_loop(self) -> None:
        """Wait for an event, where uvicorn's own loop polls ten times a second for its end."""
        await self.on_tick(0)
        await self.ending.wait()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        self.serving.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Shut down at once: no client waits for the remaining answers."""
        for server in self.servers:
            server.close()
        for listener in sockets or ():
            listener.close()
        tasks = list(self.server_state.tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def in_pieces(
    events: AsyncGenerator[bytes, None], most: int = 40
) -> AsyncGenerator[bytes, None]:
    """Split each event into pieces of at most `most` bytes, as networks may do."""
    async with contextlib.aclosing(events):
        async for event in events:
            for start in range(0, len(event), most):
                yield event[start : start + most]
                await asyncio.sleep(0)


def only(value: Any, allowed: frozenset[str], where: str, word: str) -> dict[str, Any]:
    """An object with no other keys. Raises `Refused` with `word.format(name=, where=)`."""
    if not isinstance(value, dict):
        raise Refused(400, f"{where or 'body'}: Input should be an object")
    for name in value:
        if name not in allowed:
            raise Refused(400, word.format(name=name, where=f"{where}.{name}" if where else name))
    return value
