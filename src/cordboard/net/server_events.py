"""Server-sent events (WHATWG HTML, section 9.2) of an HTTP answer."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx2
from httpx2 import ServerSentEvent

__all__ = ["MAX_EVENT_BYTES", "ServerSentEvent", "events_or_whole", "server_events"]

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


async def events_or_whole(
    response: httpx2.Response, max_event_bytes: int = MAX_EVENT_BYTES
) -> AsyncIterator[ServerSentEvent]:
    """Yield the events of an answer; one event if it is a single JSON object instead.

    Some servers cannot stream, and send the whole answer at once; others call their events JSON, so
    that the first character decides. Raises as `server_events` does.
    """
    if not response.headers.get("content-type", "").startswith("application/json"):
        async for event in server_events(response, max_event_bytes):
            yield event
        return
    held = b""
    async for piece in response.aiter_bytes():
        held = (held + piece).lstrip(b"\xef\xbb\xbf \r\n\t") if held[:1] != b"{" else held + piece
        while held and held[:1] != b"{":
            line, found, rest = held.partition(b"\n")
            if not found:
                break
            held = rest
            if line.startswith(b"data:"):
                yield ServerSentEvent(data=line[5:].decode(errors="replace").strip())
        if len(held) > max_event_bytes:
            raise httpx2.SSEError(f"an event of more than {max_event_bytes} bytes")
    if held[:1] == b"{" or held.startswith(b"data:"):
        yield ServerSentEvent(data=held.removeprefix(b"data:").decode(errors="replace").strip())
