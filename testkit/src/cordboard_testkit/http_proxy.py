"""An HTTP proxy on loopback: tunnels (CONNECT) and plain requests, all led to one service.

async with HttpProxy(service_port) as proxy:
    monkeypatch.setenv("HTTPS_PROXY", proxy.url)

Whatever name it is asked for, it connects to the service: so a test can use names and addresses
that do not exist, and what arrives has come through the proxy. Without a service it connects to
the name. `cut` breaks all connections, as a network does that goes away.
"""

from __future__ import annotations

import asyncio
import contextlib
from base64 import b64encode
from typing import Self
from urllib.parse import urlsplit


class HttpProxy:
    """Serves from `async with` to its end."""

    def __init__(
        self, service_port: int | None = None, *, user: str = "", password: str = ""
    ) -> None:
        self.service_port = service_port
        """Where the next connections lead; None: to the host that they name."""
        self._user, self._password = user, password
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: list[asyncio.StreamWriter] = []
        self.port = 0
        self.tunnels: list[str] = []
        """The targets of CONNECT, `host:port`, also those that were refused."""
        self.requests: list[str] = []
        """The addresses of plain requests."""
        self.refuse_with = 0
        """HTTP status for the next requests; 0: let them pass."""
        self.answer: bytes | None = None
        """Sent in the place of any answer to CONNECT; empty: the connection is closed."""

    @property
    def url(self) -> str:
        """Its address, with name and password if it wants them."""
        who = f"{self._user}:{self._password}@" if self._user else ""
        return f"http://{who}127.0.0.1:{self.port}"

    def cut(self) -> int:
        """Abort every open connection, with what is not sent; return how many clients lost one."""
        open_now = [writer for writer in self._writers if not writer.is_closing()]
        for writer in open_now:
            writer.transport.abort()
        return len(open_now) // 2

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.close()
        for writer in self._writers:
            writer.close()
        await asyncio.gather(*self._tasks)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._tasks.add(task)
            self._writers.append(writer)
            task.add_done_callback(self._tasks.discard)
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                await self._serve(reader, writer)
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.rstrip("\r\n").split("\r\n")
        method, target, _ = first.split(" ")
        (self.tunnels if method == "CONNECT" else self.requests).append(target)
        headers = dict(line.split(": ", 1) for line in lines)
        status = self._judged({name.lower(): value for name, value in headers.items()})
        if status != 200:
            writer.write(f"HTTP/1.1 {status} No\r\nContent-Length: 0\r\n\r\n".encode())
            await writer.drain()
            return
        if method == "CONNECT" and self.answer is not None:
            writer.write(self.answer)
            await writer.drain()
            return
        onward = await asyncio.open_connection(*self._goal(method, target))
        self._writers.append(onward[1])
        if method == "CONNECT":
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            path = urlsplit(target)._replace(scheme="", netloc="").geturl() or "/"
            onward[1].write(f"{method} {path} HTTP/1.1\r\n".encode())
            onward[1].write(("\r\n".join([*lines, "connection: close", "", ""])).encode("latin-1"))
        async with asyncio.TaskGroup() as group:
            group.create_task(_pump(reader, onward[1]))
            group.create_task(_pump(onward[0], writer))

    def _goal(self, method: str, target: str) -> tuple[str, int]:
        if self.service_port is not None:
            return "127.0.0.1", self.service_port
        parts = urlsplit(f"//{target}" if method == "CONNECT" else target)
        return parts.hostname or "", parts.port or 80

    def _judged(self, headers: dict[str, str]) -> int:
        if self.refuse_with:
            return self.refuse_with
        pair = b64encode(f"{self._user}:{self._password}".encode()).decode()
        known = headers.get("proxy-authorization", "") == f"Basic {pair}"
        return 200 if known or not self._user else 407


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while piece := await reader.read(65_536):
            writer.write(piece)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()
