"""The HTTP client of all HTTP tools of a generation: pooled connections to guarded addresses.

Requests share nothing but connections: no cookies, no credentials of the environment. A proxy of
the environment is used as `cordboard.net.address_guard` describes. Every wait and every length is
bounded. Failures are raised as `HttpError` or a subclass, in words that follow "it ..." and contain
no header, no URL and no text of the service.

Imported only when the first request is made (`cordboard.tools.http.shared`): httpcore2 is heavy.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from urllib.parse import urljoin, urlsplit

import httpcore2

from cordboard.errors import HttpAddressRefused, HttpError, HttpTimeout, HttpUnavailable
from cordboard.net.address_guard import Explained, GuardedBackend, guarded_pool
from cordboard.tools.http.answer import HttpAnswer, media_type, too_long, unpacked
from cordboard.tools.http.request import (
    HttpRequest,
    all_but_forbidden,
    host_allowed,
    public_addresses,
)

IDLE_CONNECTIONS = 32
CONNECT_SECONDS = 5.0
WRITE_SECONDS = 30.0
READ_SECONDS = 620.0
"""Timeout between two pieces of an answer. The desk gives up earlier: after 600 s at most."""
INLINE_BYTES = 16 * 1024
"""A longer answer is decompressed beside the event loop."""
_TIMEOUT = {
    "connect": CONNECT_SECONDS,
    "read": READ_SECONDS,
    "write": WRITE_SECONDS,
    "pool": CONNECT_SECONDS,
}


REDIRECTS = frozenset({301, 302, 303, 307, 308})
MAX_LOCATION = 4_096
_OF_A_BODY = {"content-type", "idempotency-key", "x-cordboard-signature", "x-cordboard-timestamp"}


def redirected(
    request: HttpRequest, status: int, location: str, hosts: Iterable[str]
) -> HttpRequest:
    """Return the request that a redirect leads to.

    Raises `HttpAddressRefused` when it leads to another host that is not listed, to another port,
    or from https to http; `HttpError` when the redirect would lose the request.
    """
    if len(location) > MAX_LOCATION:
        raise HttpAddressRefused("it sent an address that is too long")
    try:
        parts = urlsplit(
            urljoin(f"{request.scheme}://{request.authority}{request.target}", location)
        )
        host, port = (parts.hostname or "").lower(), parts.port
    except ValueError:
        raise HttpAddressRefused("it sent an address that is not a URL") from None
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if parts.scheme not in ("http", "https") or not host or parts.username is not None:
        raise HttpAddressRefused("it sent us to an address that is not followed")
    if not target.isascii() or not target.isprintable() or " " in target or not host.isascii():
        raise HttpAddressRefused("it sent an address that is not a URL")
    if request.scheme == "https" and parts.scheme == "http":
        raise HttpAddressRefused("it sent us from https to http, which is not followed")
    onwards = request.elsewhere(parts.scheme, host, port, target)
    is_upgrade = (request.scheme, request.port, *onwards.origin) == ("http", 80, "https", host, 443)
    same_place = host == request.host and (onwards.port == request.port or is_upgrade)
    if not same_place and not host_allowed(host, hosts):
        raise HttpAddressRefused("it sent us to a host elsewhere, which is not followed")
    if request.method in ("GET", "HEAD") or status in (307, 308):
        return onwards
    if status == 303:  # the result of the request is at that address
        return replace(onwards, method="GET", body=None, headers=_of_a_get(onwards.headers))
    raise HttpError(f"it redirects us in a way that would lose the request (HTTP {status})")


def _of_a_get(headers: tuple[tuple[str, bytes], ...]) -> tuple[tuple[str, bytes], ...]:
    return tuple((name, value) for name, value in headers if name.lower() not in _OF_A_BODY)


@dataclass(frozen=True, slots=True)
class Reach:
    """Places to which a request may go."""

    private: bool = False
    """True: also addresses that are not public."""
    hosts: Sequence[str] = ()
    """Hosts that redirects may lead to besides the request's own host."""
    redirects: int = 3
    max_bytes: int = 262_144


class HttpClient:
    """Sends requests. `close` it at the end."""

    def __init__(self, tls: ssl.SSLContext) -> None:
        self._public = guarded_pool(GuardedBackend(public_addresses), tls, IDLE_CONNECTIONS)
        self._private = guarded_pool(GuardedBackend(all_but_forbidden), tls, IDLE_CONNECTIONS)

    async def send(self, request: HttpRequest, reach: Reach) -> HttpAnswer:
        """Return the answer after redirects, with any status. Raises `HttpError`."""
        for _ in range(reach.redirects + 1):
            answer, location = await self._send(request, reach)
            if answer.status not in REDIRECTS or not location:
                return answer
            if reach.redirects == 0:
                raise HttpError(f"it redirects us (HTTP {answer.status})")
            request = redirected(request, answer.status, location, reach.hosts)
        raise HttpError("it redirects us again and again")

    async def close(self) -> None:
        """Close all connections. Idempotent."""
        await self._public.aclose()
        await self._private.aclose()

    async def _send(self, request: HttpRequest, reach: Reach) -> tuple[HttpAnswer, str]:
        pool = self._private if reach.private else self._public
        try:
            return await _exchange(pool, request, reach.max_bytes)
        except _Broken as error:
            if request.method not in ("GET", "HEAD"):
                raise
            # A kept connection that the server has just closed fails like this.
            broken: HttpError = error
        try:
            return await _exchange(pool, request, reach.max_bytes)
        except _Broken:
            raise broken from None


class _Broken(HttpUnavailable):
    """The connection broke before any part of an answer came."""


_EXPLAINED_FIRST = Explained(HttpError, HttpUnavailable, HttpTimeout, _Broken)
_EXPLAINED = Explained(HttpError, HttpUnavailable, HttpTimeout, HttpUnavailable)


async def _exchange(
    pool: httpcore2.AsyncConnectionPool, request: HttpRequest, most: int
) -> tuple[HttpAnswer, str]:
    """Send one request; return its answer and the target of a redirect."""
    with _EXPLAINED_FIRST:
        response = await pool.handle_async_request(_wire(request))
    try:
        headers = {name.lower(): value for name, value in response.headers}
        location = headers.get(b"location", b"").decode("latin-1")
        if response.status in REDIRECTS and location:
            return HttpAnswer(response.status), location
        packed = await _body(response, headers, most)
    finally:
        with _EXPLAINED:
            await response.aclose()
    encoding = headers.get(b"content-encoding", b"").decode("latin-1")
    if len(packed) > INLINE_BYTES and encoding:
        body = await asyncio.to_thread(unpacked, packed, encoding, most)
    else:
        body = unpacked(packed, encoding, most)
    kind, charset = media_type(headers.get(b"content-type", b"").decode("latin-1"))
    return HttpAnswer(response.status, kind, charset, body), ""


async def _body(response: httpcore2.Response, headers: dict[bytes, bytes], most: int) -> bytes:
    announced = headers.get(b"content-length", b"")
    if announced.isdigit() and len(announced) < 20 and int(announced) > most:
        raise too_long(most)
    pieces: list[bytes] = []
    size = 0
    with _EXPLAINED:
        async for piece in response.aiter_stream():
            size += len(piece)
            if size > most:
                raise too_long(most)
            pieces.append(piece)
    return b"".join(pieces)


def _wire(request: HttpRequest) -> httpcore2.Request:
    headers = [("Host", request.authority.encode()), *request.headers, *request.secret_headers]
    if request.body is not None:
        headers.append(("Content-Length", str(len(request.body)).encode()))
    return httpcore2.Request(
        request.method,
        httpcore2.URL(
            scheme=request.scheme, host=request.host, port=request.port, target=request.target
        ),
        headers=[(name.encode(), value) for name, value in headers],
        content=request.body or None,
        extensions={"timeout": _TIMEOUT},
    )
