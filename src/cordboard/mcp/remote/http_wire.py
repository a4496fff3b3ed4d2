"""httpcore2's connections under httpx2's client, over the guarded backend, with readable errors.

Network errors become an `McpError` at this lowest layer: messages that follow "it ...", without a
header or any other secret. Used by `cordboard.mcp.remote.http_channel`.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import httpcore2
import httpx2

from cordboard.errors import McpError, McpTimeout, McpUnavailable
from cordboard.net.guarded import (
    IDLE_SECONDS,
    KEEPALIVE,
    GuardedBackend,
    why_not_connected,
)

MAX_CONNECTIONS = 256
IDLE_CONNECTIONS = 16


class Wire(httpx2.AsyncBaseTransport):
    """httpcore2's connection pool over the guarded backend; converts its errors to `McpError`."""

    def __init__(self, backend: GuardedBackend, context: ssl.SSLContext | None) -> None:
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=context,
            max_connections=MAX_CONNECTIONS,
            max_keepalive_connections=IDLE_CONNECTIONS,
            keepalive_expiry=IDLE_SECONDS,
            network_backend=backend,
            socket_options=KEEPALIVE,
        )

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        url = httpcore2.URL(
            scheme=request.url.raw_scheme,
            host=request.url.raw_host,
            port=request.url.port,
            target=request.url.raw_path,
        )
        with _explained():
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
        with _explained():
            async for piece in self._response.aiter_stream():
                yield piece

    async def aclose(self) -> None:
        with _explained():
            await self._response.aclose()


@contextmanager
def _explained() -> Iterator[None]:
    try:
        yield
    except httpcore2.PoolTimeout as error:
        raise McpUnavailable("it is already answering too many of our requests") from error
    except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
        raise McpUnavailable(f"it cannot be reached: {why_not_connected(error)}") from error
    except httpcore2.TimeoutException as error:
        raise McpTimeout("it did not answer in time") from error
    except (httpcore2.NetworkError, httpcore2.RemoteProtocolError) as error:
        raise McpUnavailable("it broke the connection") from error
    except (httpcore2.ProtocolError, httpcore2.UnsupportedProtocol) as error:
        # No details: the reason may quote a header.
        raise McpError("the request cannot be sent as it is") from error
