"""Server-sent events (WHATWG HTML, section 9.2) of an HTTP answer."""

from __future__ import annotations

import httpx2
from httpx2 import ServerSentEvent

__all__ = ["MAX_EVENT_BYTES", "ServerSentEvent", "server_events"]

MAX_EVENT_BYTES = 4 * 1024 * 1024


def server_events(
    response: httpx2.Response, max_event_bytes: int = MAX_EVENT_BYTES
) -> httpx2.EventSource:
    """Return the events of an answer whose body is not read yet; iterate with `for` or `async for`.

    The iteration raises `httpx2.SSEError` for an event that is too long, and httpx2's errors of
    reading. The caller must check the media type: gateways before language models send others.
    """
    response.headers["content-type"] = "text/event-stream"
    # Always UTF-8: some "charsets" unfold to any size. The format allows a BOM.
    response.encoding = "utf-8-sig"
    return httpx2.EventSource(response, max_event_size=max_event_bytes)
