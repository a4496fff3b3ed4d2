"""Connections that go only where they may: the one network of HTTP tools and remote MCP servers.

`GuardedBackend` looks a name up itself, lets its owner choose among the addresses, and connects to
the very address that was chosen, so that a name which leads elsewhere at the second look-up (DNS
rebinding) is of no use. What an address may be is `cordboard.config.remote_url`'s; who may go where
is the owner's: `cordboard.tools.http.client`, `cordboard.mcp.remote.http_guard`.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from ipaddress import ip_address

import httpcore2

from cordboard.config.remote_url import Address, literal_address

ATTEMPT_SECONDS = 3.0
"""For each of a name's addresses but the last."""
MAX_CAUSES = 10

KEEPALIVE: list[httpcore2.SOCKET_OPTION] = [
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 15),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
]
"""A silent connection whose far end is gone breaks after 30 s."""
IDLE_SECONDS = 4.0
"""An idle connection is closed before the server may do it (uvicorn and Node do after 5 s): a
request on its way meanwhile would be lost, and cannot be sent twice.
"""

Choose = Callable[[Iterable[Address]], list[Address]]
"""Those of a name's addresses that may be connected to; raises when there is none."""


class GuardedBackend(httpcore2.AsyncNetworkBackend):
    """Opens TCP connections for httpcore2, to chosen addresses only."""

    def __init__(self, choose: Choose) -> None:
        self._choose = choose
        self._inner = httpcore2.AnyIOBackend()
        self._lookups: dict[tuple[str, int], asyncio.Future[Sequence[Address]]] = {}

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Connect within `timeout` seconds. Raises the chooser's errors or httpcore2's."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + (timeout or 60.0)
        try:
            async with asyncio.timeout_at(deadline):
                addresses = self._choose(await self._look_up(host, port))
        except TimeoutError as error:
            raise httpcore2.ConnectTimeout("its name was not found in time") from error
        options = list(socket_options or ())
        for address in addresses[:-1]:
            left = min(deadline - loop.time(), ATTEMPT_SECONDS)
            try:
                return await self._inner.connect_tcp(
                    str(address), port, max(left, 0.01), local_address, options
                )
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout):
                continue
        left = max(deadline - loop.time(), 0.01)
        return await self._inner.connect_tcp(str(addresses[-1]), port, left, local_address, options)

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Refused."""
        raise httpcore2.UnsupportedProtocol("no server is reached by a local socket")

    async def sleep(self, seconds: float) -> None:
        """Wait, for httpcore2's own retries."""
        await asyncio.sleep(seconds)

    async def _look_up(self, host: str, port: int) -> Sequence[Address]:
        """All addresses of a host; asked for once however many wait."""
        literal = literal_address(host)
        if literal is not None:
            return [literal]
        lookup = self._lookups.get((host, port))
        if lookup is None or lookup.done():
            lookup = self._lookups[host, port] = _resolve(host, port)
            lookup.add_done_callback(lambda done: self._forget(host, port, done))
        try:
            return await asyncio.shield(lookup)
        except OSError as error:
            raise httpcore2.ConnectError("its name is not known") from error

    def _forget(self, host: str, port: int, done: asyncio.Future[Sequence[Address]]) -> None:
        if self._lookups.get((host, port)) is done:
            del self._lookups[host, port]


def _resolve(host: str, port: int) -> asyncio.Future[Sequence[Address]]:
    """In a thread of its own: a silent name server must not hold one of the shared workers."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Sequence[Address]] = loop.create_future()
    answer.add_done_callback(lambda done: done.cancelled() or done.exception())  # it was seen

    def settle(found: Sequence[Address] | OSError) -> None:
        if answer.done():
            return
        if isinstance(found, OSError):
            answer.set_exception(found)
        else:
            answer.set_result(found)

    def ask() -> None:
        found: Sequence[Address] | OSError
        try:
            entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            found = [ip_address(str(entry[4][0])) for entry in entries]
        except OSError as error:
            found = error
        except ValueError:  # a name that cannot be encoded, an address that is none
            found = OSError("no such name")
        with suppress(RuntimeError):  # the loop is closed: nobody waits any longer
            loop.call_soon_threadsafe(settle, found)

    threading.Thread(target=ask, name=f"look up {host}", daemon=True).start()
    return answer


def why_not_connected(error: BaseException) -> str:
    """The reason for a failed connection, from the chain of its causes; words that follow "it
    cannot be reached:", without anything secret."""
    cause: BaseException | None = error
    for _ in range(MAX_CAUSES):
        if cause is None:
            break
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"its certificate is not valid ({cause.verify_message[:100]})"
        if isinstance(cause, ssl.SSLError):
            return "it does not speak TLS as we do"
        if isinstance(cause, ConnectionRefusedError):
            return "connection refused"
        if isinstance(cause, OSError) and cause.errno and cause.strerror:
            return cause.strerror[:100]
        cause = cause.__cause__ or cause.__context__
    if str(error).startswith("its name"):  # the guard's own words
        return str(error)
    return "it does not answer" if isinstance(error, httpcore2.ConnectTimeout) else "no connection"
