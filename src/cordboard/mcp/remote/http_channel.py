"""HTTP requests to one remote MCP server; every wait is bounded, every failure is an `McpError`.

A request goes to the operator's origin only. A redirect within it is followed up to `MAX_REDIRECTS`
times if it preserves the message; any other redirect is an error. This module adds the credentials
and retries once with fresh ones after a 401. Failures are raised as `McpError` or a subclass, with
messages that follow "it ..." and never contain a header, a secret or a page of the server.

Used by the transports of this package and, for the token endpoint, by `cordboard.mcp.remote.auth`.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Protocol

import httpcore2
import httpx2

from cordboard.errors import McpAddressRefused, McpError, McpLoginFailed, McpTimeout, McpUnavailable
from cordboard.mcp.lines import MAX_LINE_BYTES
from cordboard.mcp.remote.http_guard import guarded_backend, only_loopback, within
from cordboard.net.address_guard import Explained, GuardedBackend, guarded_pool
from cordboard.net.tls import load_trusted
from cordboard.version import __version__

MAX_BODY_BYTES = MAX_LINE_BYTES
"""The same limit as for a message over stdio."""
CONNECT_SECONDS = 10.0
WRITE_SECONDS = 30.0
READ_SECONDS = 620.0
"""Timeout between two pieces of an answer. Calls time out earlier: the limit of a tool is 600 s."""
MAX_REDIRECTS = 3
MAX_COOKIES = 20

UNAVAILABLE_STATUS = {408, 425, 429, 502, 503, 504}

_TIMEOUT = httpx2.Timeout(
    connect=CONNECT_SECONDS, read=READ_SECONDS, write=WRITE_SECONDS, pool=CONNECT_SECONDS
)
_PATIENT = httpx2.Timeout(
    connect=CONNECT_SECONDS, read=None, write=WRITE_SECONDS, pool=CONNECT_SECONDS
)


IDLE_CONNECTIONS = 16
_EXPLAINED = Explained(McpError, McpUnavailable, McpTimeout, McpUnavailable)


class Wire(httpx2.AsyncBaseTransport):
    """httpcore2's connection pool over the guarded backend; converts its errors to `McpError`.

    Network errors become an `McpError` at this lowest layer: messages that follow "it ...", without
    a header or any other secret.
    """

    def __init__(self, backend: GuardedBackend, context: ssl.SSLContext | None) -> None:
        self._pool = guarded_pool(backend, context, IDLE_CONNECTIONS)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        url = httpcore2.URL(
            scheme=request.url.raw_scheme,
            host=request.url.raw_host,
            port=request.url.port,
            target=request.url.raw_path,
        )
        with _EXPLAINED:
            response = await self._pool.handle_async_request(
                httpcore2.Request(
                    request.method,
                    url,
                    headers=request.headers.raw,
                    content=await request.aread(),
                    extensions=request.extensions,
                )
            )
        return httpx2.Response(
            response.status,
            headers=response.headers,
            stream=_Body(response),
            extensions=response.extensions,
        )

    async def aclose(self) -> None:
        await self._pool.aclose()


class _Body(httpx2.AsyncByteStream):
    def __init__(self, response: httpcore2.Response) -> None:
        self._response = response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _EXPLAINED:
            async for piece in self._response.aiter_stream():
                yield piece

    async def aclose(self) -> None:
        with _EXPLAINED:
            await self._response.aclose()


@dataclass(frozen=True, slots=True)
class _Request:
    method: str
    url: httpx2.URL
    headers: Mapping[str, str]
    content: bytes | None
    timeout: httpx2.Timeout


class Credentials(Protocol):
    """The source of a server's Authorization header."""

    async def authorization(self) -> str | None:
        """Return the value of the Authorization header, if any. Raises `McpError`."""

    def refused(self, authorization: str) -> bool:
        """Note that the server refused this value. Return True if another one may be tried."""

    async def close(self) -> None:
        """Release everything."""


class NoCredentials:
    """Sends no credentials."""

    async def authorization(self) -> str | None:
        return None

    def refused(self, authorization: str) -> bool:
        return False

    async def close(self) -> None:
        pass


class Channel:
    """Sends requests to one server. `open` it, `close` it."""

    def __init__(
        self,
        url: str,
        *,
        plain_http: bool = False,
        headers: Mapping[str, str] | None = None,
        credentials: Credentials | None = None,
    ) -> None:
        self.url = httpx2.URL(url)
        self._only_loopback = only_loopback(self.url, plain_http)
        self._headers = {
            "User-Agent": f"cordboard/{__version__}",
            "Accept-Encoding": "identity",
            **(headers or {}),
        }
        self._credentials: Credentials = credentials or NoCredentials()
        self._client: httpx2.AsyncClient | None = None

    async def open(self) -> None:
        """Create the client; nothing is sent yet."""
        if self._client is not None:
            return
        context = await _tls_context() if self.url.scheme == "https" else None
        self._client = httpx2.AsyncClient(
            transport=Wire(guarded_backend(self._only_loopback), context),
            headers=self._headers,
            trust_env=False,
        )

    async def close(self) -> None:
        """Close all connections. Idempotent."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()
        await self._credentials.close()

    @asynccontextmanager
    async def request(
        self,
        method: str,
        headers: Mapping[str, str],
        content: bytes | None = None,
        *,
        url: httpx2.URL | None = None,
        patient: bool = False,
    ) -> AsyncIterator[httpx2.Response]:
        """Yield the response to a request, of any status, with its body still unread.

        `url` must be of the channel's origin (`within`); default: the channel's own. A `patient`
        request has no read timeout; it is meant for event streams.
        """
        timeout = _PATIENT if patient else _TIMEOUT
        request = _Request(method, url or self.url, headers, content, timeout)
        response = await self._send(request)
        try:
            yield response
        finally:
            await response.aclose()

    async def _send(self, request: _Request) -> httpx2.Response:
        for _ in range(MAX_REDIRECTS + 1):
            response = await self._send_with_credentials(request)
            if not response.has_redirect_location:
                return response
            await response.aclose()
            request = replace(request, url=_redirected(response, request))
        raise McpError("it redirects us too many times")

    async def _send_with_credentials(self, request: _Request) -> httpx2.Response:
        authorization = await self._credentials.authorization()
        response = await self._send_once(request, authorization)
        if response.status_code != 401 or authorization is None:
            return response
        if not self._credentials.refused(authorization):
            return response
        await response.aclose()
        return await self._send_once(request, await self._credentials.authorization())

    async def _send_once(self, request: _Request, authorization: str | None) -> httpx2.Response:
        if self._client is None:
            raise McpUnavailable("the connection is closed")
        headers = dict(request.headers)
        if authorization is not None:
            headers["Authorization"] = authorization
        try:
            sent = self._client.build_request(
                request.method,
                request.url,
                headers=headers,
                content=request.content,
                timeout=request.timeout,
            )
            response = await self._client.send(sent, stream=True, follow_redirects=False)
        except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.CookieConflict) as error:
            raise McpError("it gave an answer that cannot be understood") from error
        if len(self._client.cookies.jar) > MAX_COOKIES:  # kept only for load balancers
            self._client.cookies.clear()
        return response


async def _tls_context() -> ssl.SSLContext:
    try:  # reads the certificate authorities: 20 ms
        return await load_trusted()
    except OSError as error:
        raise McpError(f"the certificate authorities cannot be read: {error.strerror}") from error


def _redirected(response: httpx2.Response, request: _Request) -> httpx2.URL:
    status = response.status_code
    if request.method != "GET" and status not in (307, 308):
        raise McpError(f"it redirects us in a way that would lose the message (HTTP {status})")
    try:
        return within(request.url, response.headers["location"])
    except McpAddressRefused as error:
        raise McpAddressRefused(f"{error} (HTTP {status})") from error


async def read_body(response: httpx2.Response, limit: int = MAX_BODY_BYTES) -> bytes:
    """Return the whole body. Raises `McpError` as soon as it is known to be too long."""
    check_encoding(response)
    announced = response.headers.get("content-length", "")
    if announced.isdigit() and len(announced) < 20 and int(announced) > limit:
        raise too_long(limit)
    pieces: list[bytes] = []
    size = 0
    async for piece in response.aiter_raw():
        size += len(piece)
        if size > limit:
            raise too_long(limit)
        pieces.append(piece)
    return b"".join(pieces)


def check_encoding(response: httpx2.Response) -> None:
    """Refuse a compressed answer: a small one may expand to any size."""
    if response.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
        raise McpError("its answer is compressed, which was not asked for")


def too_long(limit: int) -> McpError:
    """Return the error for an answer over the limit."""
    return McpError(f"its answer is longer than {limit} bytes")


def content_type(response: httpx2.Response) -> str:
    """Return the media type in lower case, without parameters; safe to show."""
    kind: str = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    plain = all(character.isascii() and (character.isalnum() or character in "/+.-_")
                for character in kind)  # fmt: skip
    return kind[:60] if plain else "something unnamed"


def status_error(status: int) -> McpError:
    """Return the error for an unsuccessful HTTP status."""
    if status == 401:
        return McpLoginFailed("it does not accept our credentials (HTTP 401)")
    if status == 403:
        return McpLoginFailed("it denies us access (HTTP 403)")
    if status in UNAVAILABLE_STATUS:
        return McpUnavailable(f"it is not available (HTTP {status})")
    return McpError(f"it answered with HTTP {status}")
