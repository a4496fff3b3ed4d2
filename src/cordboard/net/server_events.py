"""Server-sent events out of the bytes of an answer, however the network has cut them. Pure.

After the WHATWG's definition: lines end with LF, CRLF or CR, an empty line ends an event, what has
no data is none, lines that begin with a colon are comments.
"""

from __future__ import annotations

from dataclasses import dataclass

MAX_EVENT_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """One event."""

    name: str
    """Of its `event:` line; empty without one."""
    data: str


class EventsTooLong(ValueError):
    """An event is larger than any service sends."""


class EventParser:
    """Of one answer."""

    def __init__(self, most: int = MAX_EVENT_BYTES) -> None:
        self._most = most
        self._rest = b""
        self._began = False
        self._name = ""
        self._data: list[str] = []
        self._size = 0

    def feed(self, piece: bytes) -> list[ServerEvent]:
        """The events that are whole now. Raises `EventsTooLong`."""
        whole = self._rest + piece
        if not self._began and len(whole) >= 3:
            whole = whole.removeprefix(b"\xef\xbb\xbf")
            self._began = True
        # A CR at the end may be half of a line's end; what else ends in it waits for the LF.
        held = b"\r" if whole.endswith(b"\r") else b""
        text = whole[: len(whole) - len(held)].replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *lines, rest = text.split(b"\n")
        self._rest = rest + held
        if len(self._rest) > self._most:
            raise EventsTooLong
        events = []
        for line in lines:
            event = self._line(line)
            if event is not None:
                events.append(event)
        return events

    def end(self) -> list[ServerEvent]:
        """The stream is over: an event that only lacks its empty line counts."""
        lines = [*self._rest.removesuffix(b"\r").split(b"\r"), b""] if self._rest else [b""]
        self._rest = b""
        return [event for line in lines if (event := self._line(line)) is not None]

    def _line(self, line: bytes) -> ServerEvent | None:
        if not line:
            event = ServerEvent(self._name, "\n".join(self._data)) if self._data else None
            self._name, self._data, self._size = "", [], 0
            return event
        self._size += len(line)
        if self._size > self._most:
            raise EventsTooLong
        field, _, value = line.decode("utf-8", "replace").partition(":")
        value = value.removeprefix(" ")
        if field == "event":
            self._name = value
        elif field == "data":
            self._data.append(value)
        return None
