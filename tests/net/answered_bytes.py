"""Events out of an answer whose body comes in given pieces."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import httpx2

from cordboard.net.server_events import MAX_EVENT_BYTES, ServerSentEvent, server_events


class _Pieces(httpx2.SyncByteStream):
    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = pieces

    def __iter__(self) -> Iterator[bytes]:
        yield from self._pieces


def parsed(
    pieces: Iterable[bytes], most: int = MAX_EVENT_BYTES, kind: str = "text/event-stream"
) -> list[ServerSentEvent]:
    """The events of that body."""
    response = httpx2.Response(
        200,
        headers={"content-type": kind},
        stream=_Pieces(pieces),
        request=httpx2.Request("GET", "http://127.0.0.1/"),
    )
    return list(server_events(response, most))
