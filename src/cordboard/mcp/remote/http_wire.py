"""httpcore2's connections under httpx2's client, over the guarded backend, with readable errors.

Network errors become an `McpError` at this lowest layer: messages that follow "it ...", without a
header or any other secret. Used by `cordboard.mcp.remote.http_channel`.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator

import httpcore2
import httpx2

from cordboard.errors import McpError, McpTimeout, McpUnavailable
from cordboard.net.address_guard import Explained, GuardedBackend, guarded_pool

IDLE_CONNECTIONS = 16
_EXPLAINED = Explained(McpError, McpUnavailable, McpTimeout, McpUnavailable)


class Wire(httpx2.AsyncBaseTransport):
    """httpcore2's connection pool over the guarded backend; converts its errors to `McpError`."""

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
