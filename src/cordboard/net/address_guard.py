"""Connections to permitted addresses only: the one network of HTTP tools and remote MCP servers.

`GuardedBackend` looks a name up itself, lets its owner choose among the addresses, and connects to
exactly the chosen address, so that a name which resolves elsewhere at the second look-up (DNS
rebinding) is useless. `cordboard.config.remote_url` defines the permitted addresses; the owner
decides about permissions: `cordboard.tools.http.client`, `cordboard.mcp.remote.http_guard`.

A proxy of the environment (`cordboard.net.proxy`) gets a tunnel request for that chosen address,
never for the name: otherwise the proxy's look-up would undo the check. `https` and `http` alike use
a tunnel, so `HTTPS_PROXY` decides for both. Addresses of this machine need no proxy.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address

import httpcore2

from cordboard.config.remote_url import Address, literal_address, unwrapped
from cordboard.net.failures import why_not_connected
from cordboard.net.proxy import Proxy, ProxyFailed, proxy_to

ATTEMPT_SECONDS = 3.0
"""Timeout for each of a name's addresses but the last."""
MAX_CONNECTIONS = 256

KEEPALIVE: list[httpcore2.SOCKET_OPTION] = [
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 15),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
]
"""A silent connection whose far end is gone breaks after 30 s."""
IDLE_SECONDS = 4.0
"""An idle connection is closed before the server may close it (uvicorn and Node do after 5 s): a
request on its way meanwhile would be lost, and cannot be sent twice.
"""

Choose = Callable[[Iterable[Address]], list[Address]]
"""Returns the addresses of a name that may be connected to; raises when there is none."""


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
                return await self._connect(host, address, port, max(left, 0.01), options)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout):
                continue
        left = max(deadline - loop.time(), 0.01)
        return await self._connect(host, addresses[-1], port, left, options)

    async def _connect(
        self,
        host: str,
        address: Address,
        port: int,
        seconds: float,
        options: list[httpcore2.SOCKET_OPTION],
    ) -> httpcore2.AsyncNetworkStream:
        """Connect to this address of a host, through a proxy's tunnel if the environment names one.

        Raises httpcore2's `ConnectError` and `ConnectTimeout`.
        """
        try:
            # An exception may apply to the name or to the address that the name has.
            numeric = str(unwrapped(address))
            proxy = proxy_to(numeric, port, secure=True) and proxy_to(host, port, secure=True)
            if proxy is None:
                return await self._inner.connect_tcp(str(address), port, seconds, None, options)
            async with asyncio.timeout(seconds):
                return await self._tunnel(proxy, str(address), port, seconds, options)
        except ProxyFailed as error:
            raise httpcore2.ConnectError(str(error)) from error
        except TimeoutError:
            silent = ProxyFailed("the proxy does not answer")
            raise httpcore2.ConnectTimeout(str(silent)) from silent

    async def _tunnel(
        self,
        proxy: Proxy,
        address: str,
        port: int,
        seconds: float,
        options: list[httpcore2.SOCKET_OPTION],
    ) -> httpcore2.AsyncNetworkStream:
        try:
            stream = await self._inner.connect_tcp(proxy.host, proxy.port, seconds, None, options)
        except httpcore2.ConnectError as error:
            reason = why_not_connected(error)
            raise ProxyFailed(f"the proxy {proxy} cannot be reached: {reason}") from None
        try:
            await stream.write(proxy.tunnel_request(address, port), seconds)
            received = b""
            while not proxy.is_open(received):
                piece = await stream.read(4096, seconds)
                if not piece:
                    raise ProxyFailed(f"the proxy {proxy} closed the connection")
                received += piece
        except (httpcore2.NetworkError, httpcore2.TimeoutException) as error:
            await stream.aclose()
            raise ProxyFailed(f"the proxy {proxy} broke off") from error
        except BaseException:
            await stream.aclose()
            raise
        return stream

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Refuse."""
        raise httpcore2.UnsupportedProtocol("no server is reached by a local socket")

    async def sleep(self, seconds: float) -> None:
        """Wait, for httpcore2's own retries."""
        await asyncio.sleep(seconds)

    async def _look_up(self, host: str, port: int) -> Sequence[Address]:
        """Return all addresses of a host; concurrent callers share one look-up."""
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


def guarded_pool(
    backend: GuardedBackend, tls: ssl.SSLContext | None, idle_connections: int
) -> httpcore2.AsyncConnectionPool:
    """Return a pool whose connections are made by the guard."""
    return httpcore2.AsyncConnectionPool(
        ssl_context=tls,
        max_connections=MAX_CONNECTIONS,
        max_keepalive_connections=idle_connections,
        keepalive_expiry=IDLE_SECONDS,
        network_backend=backend,
        socket_options=KEEPALIVE,
    )


@dataclass(frozen=True, slots=True)
class Explained:
    """Translates httpcore2's errors into a room's own, in words that follow "it ..." and contain no
    secret.

    A reusable context manager; other exceptions pass unchanged.
    """

    error: type[Exception]
    """Raised for a request that cannot be sent as it is."""
    unavailable: type[Exception]
    timeout: type[Exception]
    broken: type[Exception]
    """Raised for a connection that broke."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, httpcore2.PoolTimeout):
            words = "it has too many of our requests to answer already"
            raise self.unavailable(words) from error
        if isinstance(error, (httpcore2.ConnectError, httpcore2.ConnectTimeout)):
            words = f"it cannot be reached: {why_not_connected(error)}"
            raise self.unavailable(words) from error
        if isinstance(error, httpcore2.TimeoutException):
            raise self.timeout("it did not answer in time") from error
        if isinstance(error, (httpcore2.NetworkError, httpcore2.RemoteProtocolError)):
            raise self.broken("it broke the connection off, or does not speak HTTP") from error
        if isinstance(error, (httpcore2.ProtocolError, httpcore2.UnsupportedProtocol)):
            # No details: the reason may quote a header.
            raise self.error("the request cannot be sent as it is") from error


def _resolve(host: str, port: int) -> asyncio.Future[Sequence[Address]]:
    """Look up in a separate thread: a silent name server must not hold one of the shared
    workers."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Sequence[Address]] = loop.create_future()
    answer.add_done_callback(lambda done: done.cancelled() or done.exception())  # retrieved

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
        except ValueError:  # a name that cannot be encoded, an invalid address
            found = OSError("no such name")
        with suppress(RuntimeError):  # the loop is closed: no caller waits
            loop.call_soon_threadsafe(settle, found)

    threading.Thread(target=ask, name=f"look up {host}", daemon=True).start()
    return answer
