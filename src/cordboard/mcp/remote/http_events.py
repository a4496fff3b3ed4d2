"""Reads server-sent events from a response, each within the message size limit.

A thin layer around httpx2's reader: it converts errors to `McpError` and remembers where a broken
stream can be resumed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx2

from cordboard.errors import McpError
from cordboard.mcp.remote.http_channel import MAX_BODY_BYTES, check_encoding, content_type, too_long
from cordboard.net.server_events import server_events

EVENT_STREAM = "text/event-stream"
DEFAULT_RETRY = 1.0
MIN_RETRY, MAX_RETRY = 0.05, 30.0
MAX_EVENT_ID = 1_024


class EventReader:
    """The events of one stream, across reconnections."""

    def __init__(self, limit: int = MAX_BODY_BYTES) -> None:
        self._limit = limit
        self.last_id = ""
        """Id of the last event that had one, to resume there; empty if resuming is not possible."""
        self.retry = DEFAULT_RETRY
        """Seconds to wait before resuming; the server's value, within bounds."""
        self.count = 0
        """Number of events so far."""

    async def read(self, response: httpx2.Response) -> AsyncIterator[httpx2.ServerSentEvent]:
        """Yield events until the stream ends. Raises `McpError`."""
        check_encoding(response)
        if content_type(response) != EVENT_STREAM:
            raise McpError(f"it sent {content_type(response) or 'nothing'} in place of events")
        try:
            async for event in server_events(response, self._limit):
                self._note(event)
                yield event
        except httpx2.SSEError as error:
            raise too_long(self._limit) from error
        except httpx2.HTTPError as error:
            raise McpError("it sent events that cannot be read") from error

    def _note(self, event: httpx2.ServerSentEvent) -> None:
        self.count += 1
        if event.id and len(event.id) <= MAX_EVENT_ID and event.id.isprintable():
            self.last_id = event.id if event.id.isascii() else self.last_id
        if event.retry is not None:
            self.retry = min(max(event.retry / 1000, MIN_RETRY), MAX_RETRY)
