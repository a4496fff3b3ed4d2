"""Splits a server's byte stream into newline-delimited messages, with a cap on line length.

Pure: bytes in, events out; no pipe, no clock. A line within the cap gives one `Line`. A longer line
is not kept: it gives `OverlongBegan` as soon as it passes the cap, so that the waiting call can
fail at once, and `OverlongEnded` at its newline. Work and memory stay linear for any input.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

MAX_LINE_BYTES = 8 * 1024 * 1024
"""A larger tool result is of no use to a phone call; parsing 8 MiB takes about 40 ms."""
KEPT_BYTES = 512
"""Bytes kept of an over-long line's head and tail, to find the request that it answers."""


@dataclass(frozen=True, slots=True)
class Line:
    """One complete line, without its newline; never empty."""

    data: bytes


@dataclass(frozen=True, slots=True)
class OverlongBegan:
    """A line has passed the cap; carries its head."""

    head: bytes


@dataclass(frozen=True, slots=True)
class OverlongEnded:
    """The over-long line has ended; carries its tail."""

    tail: bytes


LineEvent: TypeAlias = Line | OverlongBegan | OverlongEnded


class LineSplitter:
    """Splits a byte stream into lines. Bytes after the last newline never become an event."""

    def __init__(self, max_line: int = MAX_LINE_BYTES) -> None:
        self._max_line = max_line
        self._parts: list[bytes] = []
        self._size = 0
        self._tail: bytes | None = None
        """The last bytes of an over-long line; None outside of one."""

    def feed(self, chunk: bytes) -> list[LineEvent]:
        """Process a chunk; return the events it completes, in order."""
        events: list[LineEvent] = []
        start = 0
        while (end := chunk.find(b"\n", start)) >= 0:
            self._take(chunk[start:end], events)
            self._end_line(events)
            start = end + 1
        self._take(chunk[start:], events)
        return events

    def _take(self, piece: bytes, events: list[LineEvent]) -> None:
        if not piece:
            return
        if self._tail is not None:
            self._tail = (self._tail + piece[-KEPT_BYTES:])[-KEPT_BYTES:]
            return
        self._parts.append(piece)
        self._size += len(piece)
        if self._size > self._max_line:
            line = b"".join(self._parts)
            self._forget()
            self._tail = line[-KEPT_BYTES:]
            events.append(OverlongBegan(line[:KEPT_BYTES]))

    def _end_line(self, events: list[LineEvent]) -> None:
        if self._tail is not None:
            events.append(OverlongEnded(self._tail))
            self._tail = None
            return
        line = b"".join(self._parts).strip()
        self._forget()
        if line:
            events.append(Line(line))

    def _forget(self) -> None:
        self._parts.clear()
        self._size = 0
