"""The one HTTP client of a generation, created on first use."""

from __future__ import annotations

import asyncio
import importlib
from contextlib import suppress
from typing import TYPE_CHECKING

from cordboard.errors import HttpError, HttpUnavailable

if TYPE_CHECKING:
    from cordboard.tools.http.client import HttpClient


class SharedClient:
    """Creates and holds the client. `close` it with its generation."""

    def __init__(self) -> None:
        self._client: HttpClient | None = None
        self._warming: asyncio.Task[None] | None = None
        self._making = asyncio.Lock()
        self._closed = False

    async def client(self) -> HttpClient:
        """Return the client. Raises `HttpError` when it is closed or cannot be created."""
        if self._client is None:
            async with self._making:
                if self._client is None and not self._closed:
                    self._client = await asyncio.to_thread(_make)
        if self._client is None or self._closed:
            raise HttpUnavailable("the engine has closed its connections")
        return self._client

    def begin_to_warm(self) -> None:
        """Start `warm` in the background. Returns at once."""
        if self._warming is None:
            self._warming = asyncio.create_task(self.warm(), name="http client")

    async def warm(self) -> None:
        """Create the client now, so that no call waits for it; a tool call reports failures."""
        with suppress(HttpError):
            await self.client()

    async def close(self) -> None:
        """Close all connections; further requests fail. Idempotent."""
        self._closed = True
        if self._warming is not None:
            await asyncio.gather(self._warming, return_exceptions=True)
        async with self._making:
            client, self._client = self._client, None
        if client is not None:
            await client.close()


def _make() -> HttpClient:
    """Create the client, in a thread: imports and certificate authorities take 0.1 to 0.5 s."""
    with suppress(ImportError):  # else it is loaded by the first connection, on the event loop
        importlib.import_module("anyio._backends._asyncio")
    from cordboard.net.tls import trusted
    from cordboard.tools.http.client import HttpClient

    try:
        return HttpClient(trusted())
    except OSError as error:
        reason = error.strerror or "no reason given"
        raise HttpUnavailable(f"the certificate authorities cannot be read: {reason}") from error
