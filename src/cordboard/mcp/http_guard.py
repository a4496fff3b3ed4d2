"""Where our HTTP requests may go: to the operator's server, and nowhere that it sends us.

Whatever URL a server gives (a redirect, the `endpoint` of the SSE transport) must be of the origin
that the operator wrote, else it is refused (`within`). And the address is checked where it counts:
`GuardedBackend` looks the name up itself and connects to the very address that it has checked, so
that a name which leads elsewhere at the second look-up (DNS rebinding) is of no use. The rules for
addresses are `cordboard.config.remote_url`'s.

Used by `cordboard.mcp.http_channel`. No proxy from the environment is ever used.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from ipaddress import ip_address

import httpcore2
import httpx2

from cordboard.config.remote_url import (
    Address,
    address_problem,
    literal_address,
    unwrapped,
)
from cordboard.errors import McpAddressRefused

MAX_REFERENCE = 4_096
"""A URL that a server sends may be as long as this."""
ATTEMPT_SECONDS = 3.0
"""For each of a name's addresses but the last."""

_PORTS = {"http": 80, "https": 443}


def origin(url: httpx2.URL) -> tuple[str, str, int]:
    """Scheme, host and port."""
    return url.scheme, url.host, url.port or _PORTS.get(url.scheme, 0)


def within(base: httpx2.URL, reference: str) -> httpx2.URL:
    """The absolute form of a URL that a server sent. Raises `McpAddressRefused` off its origin."""
    if len(reference) > MAX_REFERENCE:
        raise McpAddressRefused("it sent an address that is too long")
    try:
        url = base.join(reference)
    except (httpx2.InvalidURL, ValueError) as error:
        raise McpAddressRefused("it sent an address that is no URL") from error
    if origin(url) != origin(base) or url.userinfo:
        raise McpAddressRefused("it sent us to an address elsewhere, which is not followed")
    return url.copy_with(fragment=None)


def allowed(addresses: Iterable[Address], only_loopback: bool) -> list[Address]:
    """Those of a name's addresses that may be connected to. Raises `McpAddressRefused` if none."""
    good: list[Address] = []
    problem = "leads to no address"
    for address in addresses:
        kind = address_problem(address)
        if kind is not None:
            problem = f"leads to a {kind} address ({address})"
        elif only_loopback and not unwrapped(address).is_loopback:
            problem = f"leads off this machine ({address}), where only https may be used"
        else:
            good.append(address)
    if not good:
        raise McpAddressRefused(f"its name {problem}")
    return good


def only_loopback(url: httpx2.URL, plain_http: bool) -> bool:
    """Whether a URL may be used for this machine alone: it is not encrypted."""
    return url.scheme != "https" and not plain_http


class GuardedBackend(httpcore2.AsyncNetworkBackend):
    """Opens TCP connections for httpcore2, to allowed addresses only."""

    def __init__(self, only_loopback: bool) -> None:
        self._only_loopback = only_loopback
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
        """Connect within `timeout` seconds. Raises `McpAddressRefused` or httpcore2's errors."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + (timeout or 60.0)
        try:
            async with asyncio.timeout_at(deadline):
                addresses = allowed(await self._look_up(host, port), self._only_loopback)
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
        raise McpAddressRefused("no server is reached by a local socket")

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
        try:
            return await asyncio.shield(lookup)
        except OSError as error:
            raise httpcore2.ConnectError("its name is not known") from error


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
