"""HTTP requests to one remote MCP server, with every wait bounded and every failure one of ours.

A request goes to the operator's origin only; a redirect within it is followed a few times where the
message survives it, any other is an error. Credentials are put on here, and a 401 is tried once
more with fresh ones. What goes wrong on the way comes out as `McpError` or a subclass, in words
that follow "it ...", and never carries a header, a secret or a page of the server's.

Used by the transports of this room and, for the token endpoint, by `cordboard.mcp.remote.auth`.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Protocol

import httpx2

from cordboard.errors import McpAddressRefused, McpError, McpLoginFailed, McpUnavailable
from cordboard.mcp.lines import MAX_LINE_BYTES
from cordboard.mcp.remote.http_guard import guarded_backend, only_loopback, within
from cordboard.mcp.remote.http_wire import Wire
from cordboard.net.tls import load_trusted
from cordboard.version import __version__

MAX_BODY_BYTES = MAX_LINE_BYTES
"""As for a message over stdio."""
CONNECT_SECONDS = 10.0
WRITE_SECONDS = 30.0
READ_SECONDS = 620.0
"""Between two pieces of an answer. A call gives up earlier: no tool may take over 600 s."""
MAX_REDIRECTS = 3
MAX_COOKIES = 20

UNAVAILABLE_STATUS = {408, 425, 429, 502, 503, 504}

_TIMEOUT = httpx2.Timeout(
    connect=CONNECT_SECONDS, read=READ_SECONDS, write=WRITE_SECONDS, pool=CONNECT_SECONDS
)
_PATIENT = httpx2.Timeout(
    connect=CONNECT_SECONDS, read=None, write=WRITE_SECONDS, pool=CONNECT_SECONDS
)


@dataclass(frozen=True, slots=True)
class _Request:
    method: str
    url: httpx2.URL
    headers: Mapping[str, str]
    content: bytes | None
    timeout: httpx2.Timeout


class Credentials(Protocol):
    """What is shown to a server."""

    async def authorization(self) -> str | None:
        """The Authorization header's value, if any. Raises `McpError`."""
        ...

    def refused(self, authorization: str) -> bool:
        """The server did not take this value: is it worth asking again with another?"""
        ...

    async def close(self) -> None:
        """Let go of all it holds."""
        ...


class NoCredentials:
    """Nothing is shown."""

    async def authorization(self) -> str | None:
        return None

    def refused(self, authorization: str) -> bool:
        return False

    async def close(self) -> None:
        pass


class Channel:
    """Requests to one server. `open` it, `close` it."""

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
        """Make ready; nothing is sent yet."""
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
        """The answer to a request, whatever its status, its body still to be read.

        `url` must be of the channel's origin (`within`); default: the channel's own. A `patient`
        one is not broken off however long nothing comes: streams of events.
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
        raise McpError("it redirects us again and again")

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
            raise McpError("it answered in a way that is not understood") from error
        if len(self._client.cookies.jar) > MAX_COOKIES:  # kept for load balancers, no more
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
    """All of an answer's body. Raises `McpError` as soon as it is known to be too long."""
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
    """Refuse a compressed answer: a small one may unfold to any size."""
    if response.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
        raise McpError("its answer is compressed, which was not asked for")


def too_long(limit: int) -> McpError:
    """The answer is over the limit."""
    return McpError(f"its answer is longer than {limit} bytes")


def content_type(response: httpx2.Response) -> str:
    """The media type in lower case, without parameters; safe to be shown."""
    kind: str = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    plain = all(character.isascii() and (character.isalnum() or character in "/+.-_")
                for character in kind)  # fmt: skip
    return kind[:60] if plain else "something unnamed"


def status_error(status: int) -> McpError:
    """An HTTP status that is no success, in words."""
    if status == 401:
        return McpLoginFailed("it does not accept our credentials (HTTP 401)")
    if status == 403:
        return McpLoginFailed("it does not allow us in (HTTP 403)")
    if status in UNAVAILABLE_STATUS:
        return McpUnavailable(f"it is not available (HTTP {status})")
    return McpError(f"it answered with HTTP {status}")
