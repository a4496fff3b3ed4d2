"""HTTP requests to the services of the providers.

`client_for` makes every client: it trusts the machine's certificate authorities, takes the proxy of
the environment (`cordboard.net.proxy`), follows no redirect and uses nothing else of the
environment. `ServiceHttp` keeps one client per part of an agent: its connections are kept, so that
the next sentence or utterance needs no handshake. Failures are raised as `RequestFailed` with their
kind, and never contain a key.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

import httpx2

from cordboard.errors import AgentError
from cordboard.net.failures import HTTP_ERRORS, WORTH_READING, RequestFailed, failed, refused
from cordboard.net.proxy import Proxy, proxy_for
from cordboard.net.tls import load_trusted
from cordboard.version import __version__

KEEP_SECONDS = 30.0
"""Seconds for which an unused connection is kept."""
WRITE_SECONDS = 5.0
WORDS_SECONDS = 2.0
"""Timeout in seconds for the body of a refusal."""


async def client_for(
    base_url: str,
    headers: Mapping[str, str],
    timeout: httpx2.Timeout | float,
    limits: httpx2.Limits | None = None,
) -> httpx2.AsyncClient:
    """Make a client for one service. Raises `OSError` for certificates that cannot be read, and its
    subclass `ProxyFailed` for a proxy that cannot be used."""
    # Without TLS there is nothing to verify, and the certificates take 20 ms to read.
    verify = await load_trusted() if base_url.startswith("https:") else False
    return httpx2.AsyncClient(
        headers={"User-Agent": f"cordboard/{__version__}", **headers},
        timeout=timeout,
        limits=limits or httpx2.Limits(keepalive_expiry=KEEP_SECONDS),
        follow_redirects=False,
        **on_the_way(verify, proxy_for(base_url)),
    )


def on_the_way(verify: ssl.SSLContext | bool, proxy: Proxy | None) -> dict[str, Any]:
    """Return the arguments of an httpx2 client that set its TLS and proxy."""
    return {"verify": verify, "proxy": proxy.url if proxy else None, "trust_env": False}


class ServiceHttp:
    """Requests to one service. Made without an event loop; opened by the first request."""

    def __init__(
        self,
        service: str,
        base_url: str,
        headers: Mapping[str, str],
        error: type[AgentError] | None = None,
        *,
        connect_seconds: float,
        silence_seconds: float | None,
        keep_seconds: float = KEEP_SECONDS,
        connections: int = 100,
        key: str = "",
    ) -> None:
        """`service`: its name in messages. `error`: the failure of `post`. `silence_seconds`: the
        longest silence of the service; None: the caller sets its own limits. `key`: removed from
        the service's messages."""
        self._service = service
        self._base_url = base_url.rstrip("/")
        self._headers = headers
        self._error = error
        self._key = key
        self._timeout = httpx2.Timeout(
            connect=connect_seconds,
            read=silence_seconds,
            write=WRITE_SECONDS,
            pool=connect_seconds,
        )
        self._limits = httpx2.Limits(
            max_connections=connections,
            max_keepalive_connections=connections,
            keepalive_expiry=keep_seconds,
        )
        self._client: httpx2.AsyncClient | None = None
        self._opening = asyncio.Lock()
        self._running = 0
        self._ended = False

    @asynccontextmanager
    async def request(
        self,
        method: str,
        path: str,
        *,
        answer_seconds: float | None = None,
        any_status: bool = False,
        **content: Any,
    ) -> AsyncIterator[httpx2.Response]:
        """Yield the answer with its body unread; leaving the context ends the request.

        `answer_seconds` limits the time until the answer's head. `content` is httpx2's: `params`,
        `json`, `content`, `data`, `files`. Raises `RequestFailed` for a status other than success
        (unless `any_status`), and for every failure while the body is read in the context.
        """
        self._running += 1
        try:
            response = await self._sent(method, path, answer_seconds, content)
            try:
                if not response.is_success and not any_status:
                    raise await self._refused(response)
                yield response
            except HTTP_ERRORS as error:
                raise failed(self._service, error) from error
            finally:
                await response.aclose()
        finally:
            self._running -= 1
            await self._close_if_ended()

    @asynccontextmanager
    async def post(self, path: str, **content: Any) -> AsyncIterator[AsyncIterator[bytes]]:
        """Yield the answer's body, piece by piece; `content` as in `request`.

        Raises the part's own error, with the kind of the failure.
        """
        try:
            async with self.request("POST", path, **content) as response:
                yield response.aiter_bytes()
        except RequestFailed as error:
            if self._error is None:
                raise
            raise self._error(str(error), error.kind) from error

    async def close(self) -> None:
        """Close all connections when no request runs: now, and after each later request."""
        self._ended = True
        await self._close_if_ended()

    async def _close_if_ended(self) -> None:
        if not self._ended or self._running:
            return
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def _sent(
        self, method: str, path: str, seconds: float | None, content: Mapping[str, Any]
    ) -> httpx2.Response:
        try:
            client = await self._opened()
            request = client.build_request(method, f"{self._base_url}{path}", **content)
            async with asyncio.timeout(seconds):
                return await client.send(request, stream=True)
        except TimeoutError:
            message = f"{self._service} does not answer"
            raise RequestFailed(message, "stalled", again=False) from None
        except (*HTTP_ERRORS, OSError) as error:
            raise failed(self._service, error) from error

    async def _opened(self) -> httpx2.AsyncClient:
        if self._client is None:
            async with self._opening:
                if self._client is None:
                    self._client = await client_for(
                        self._base_url, self._headers, self._timeout, self._limits
                    )
        return self._client

    async def _refused(self, response: httpx2.Response) -> RequestFailed:
        status, after = response.status_code, response.headers.get("retry-after")
        body = b""
        with suppress(TimeoutError, *HTTP_ERRORS):  # the status alone says enough
            async with asyncio.timeout(WORDS_SECONDS):
                async for piece in response.aiter_bytes():
                    body += piece
                    if len(body) > WORTH_READING:
                        break
        return refused(self._service, status, body, after, self._key)
