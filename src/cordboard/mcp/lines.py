"""Newline-delimited messages out of a server's byte stream, with a cap on the length of a line.

Pure: bytes in, events out; no pipe, no clock. A line within the cap is one `Line`. A longer one is
never kept: it gives `OverlongBegan` as soon as the cap is passed (so that whoever waits for it can
be told at once) and `OverlongEnded` at its newline. Work and memory stay linear whatever arrives.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

MAX_LINE_BYTES = 8 * 1024 * 1024
"""A larger tool result is of no use to a phone call; parsing 8 MiB takes about 40 ms."""
KEPT_BYTES = 512
"""How much of an over-long line's head and tail is kept, to see whose answer it was."""


@dataclass(frozen=True, slots=True)
class Line:
    """One complete line, without its newline; never empty."""

    data: bytes


@dataclass(frozen=True, slots=True)
class OverlongBegan:
    """A line has passed the cap; its head."""

    head: bytes


@dataclass(frozen=True, slots=True)
class OverlongEnded:
    """The over-long line is over; its tail."""

    tail: bytes


LineEvent: TypeAlias = Line | OverlongBegan | OverlongEnded


class LineSplitter:
    """Cuts a byte stream into lines. What follows the last newline is never an event."""

    def __init__(self, max_line: int = MAX_LINE_BYTES) -> None:
        self._max_line = max_line
        self._parts: list[bytes] = []
        self._size = 0
        self._tail: bytes | None = None
        """The last bytes of an over-long line; None outside of one."""

    def feed(self, chunk: bytes) -> list[LineEvent]:
        """Take what was read; returns the events it completes, in order."""
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
