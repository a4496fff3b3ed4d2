"""The protocol of an upgraded connection: uvicorn's, which always ends.

uvicorn closes by `transport.close()`, which waits until the peer has read all. A peer that never
reads would keep its connection, and the engine's stop, for ever; it is cut off here.
"""

from __future__ import annotations

import asyncio

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

CUT_SECONDS = 1.0
"""Time of a closed connection to take its last bytes, and to close itself."""


class ServerWebSocket(WebSocketsSansIOProtocol):
    """One websocket of a server."""

    _cut: asyncio.TimerHandle | None = None

    async def run_asgi(self) -> None:
        """Run the application; its end is that of the connection."""
        try:
            await super().run_asgi()
        finally:
            self._cut_soon()

    def shutdown(self) -> None:
        """Close it, because the server stops."""
        super().shutdown()
        self._cut_soon()

    def keepalive_timeout(self) -> None:
        """Close it, because the peer has not answered a ping."""
        super().keepalive_timeout()
        self._cut_soon()

    def handle_parser_exception(self) -> None:
        """Close it, because the peer breaks the protocol."""
        super().handle_parser_exception()
        self._cut_soon()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the application that the peer is gone."""
        if self._cut is not None:
            self._cut.cancel()
        super().connection_lost(exc)

    def _cut_soon(self) -> None:
        if self._cut is None and not self.disconnected:
            self._cut = self.loop.call_later(CUT_SECONDS, self.transport.abort)
