"""The control messages of Asterisk's websocket channel, as bytes and as events. No I/O.

Asterisk's chan_websocket sends and takes audio as binary messages and everything else as text,
here always in its JSON form (`f(json)` when the channel is made). Names and fields are those of
`channels/chan_websocket.c` of Asterisk 22.

`decode` never raises: an invalid text becomes `Malformed`; a valid message without use here (or of
a later Asterisk) becomes `Unknown`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import orjson

Command = Literal[
    "FLUSH_MEDIA",  # drop the whole queue, marks too
    "PAUSE_MEDIA",  # play silence and keep the queue
    "CONTINUE_MEDIA",  # continue playing the queue
    "GET_STATUS",  # answered at once by STATUS
]

MAX_COMMAND_BYTES = 128
"""A longer command is ignored (`MAX_TEXT_MESSAGE_LEN`)."""
MAX_EVENT_BYTES = 65_536
"""Asterisk's events have some hundred bytes; MEDIA_START also holds the channel's variables."""
_KEYS = frozenset("0123456789*#ABCD")


@dataclass(frozen=True, slots=True)
class MediaStart:
    """The channel and its audio are ready."""

    connection_id: str
    channel_id: str
    """Channel of the call. No URI contains it: Asterisk reuses URIs (measured)."""
    format: str
    """Asterisk's name of the format: `ulaw`, `slin16`, ..."""
    frame_bytes: int
    """Bytes of a 20 ms frame; Asterisk drops the rest of a message that is not a multiple."""


@dataclass(frozen=True, slots=True)
class MarkProcessed:
    """Everything sent before this mark has been played."""

    mark: int


@dataclass(frozen=True, slots=True)
class Status:
    """The answer to `GET_STATUS`."""

    queue_frames: int
    paused: bool


@dataclass(frozen=True, slots=True)
class Dtmf:
    """The caller has released a key."""

    digit: str


@dataclass(frozen=True, slots=True)
class Flow:
    """Asterisk's queue is nearly full (`stop`), or has room again."""

    stop: bool


@dataclass(frozen=True, slots=True)
class Refusal:
    """Asterisk could not carry out a command."""

    problem: str


@dataclass(frozen=True, slots=True)
class Unknown:
    """A message without use here."""

    name: str


@dataclass(frozen=True, slots=True)
class Malformed:
    """A text that is not a message of chan_websocket."""

    problem: str


Event = MediaStart | MarkProcessed | Status | Dtmf | Flow | Refusal | Unknown | Malformed


def encode_command(command: Command) -> bytes:
    """Return a command without arguments."""
    return b'{"command":"%s"}' % command.encode()


def encode_mark(mark: int) -> bytes:
    """Request `MarkProcessed` once everything sent before has been played."""
    return b'{"command":"MARK_MEDIA","correlation_id":"%d"}' % mark


def decode(text: bytes) -> Event:
    """Return the event in a text message."""
    if len(text) > MAX_EVENT_BYTES:
        return Malformed(f"a message of {len(text)} bytes")
    try:
        message = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        return Malformed(f"not JSON: {error}")
    name = message.get("event") if isinstance(message, dict) else None
    if not isinstance(name, str):
        return Malformed("no event in it")
    try:
        return _event(name, message)
    except _Wrong as error:
        return Malformed(f"{name[:40]}: {error}")


class _Wrong(Exception):
    """A field is missing or of another type than Asterisk sends."""


def _event(name: str, message: dict[str, Any]) -> Event:
    match name:
        case "MEDIA_MARK_PROCESSED":
            mark = _text(message, "correlation_id")
            if not (mark.isascii() and mark.isdigit() and len(mark) <= 18):
                raise _Wrong("correlation_id is not one of ours")
            return MarkProcessed(int(mark))
        case "STATUS":
            return Status(_count(message, "queue_length"), message.get("media_paused") is True)
        case "DTMF_END":
            digit = _text(message, "digit").upper()
            if digit not in _KEYS:
                raise _Wrong("digit is not a key")
            return Dtmf(digit)
        case "MEDIA_XOFF" | "MEDIA_XON":
            return Flow(name == "MEDIA_XOFF")
        case "MEDIA_START":
            return MediaStart(
                _text(message, "connection_id"),
                _text(message, "channel_id"),
                _text(message, "format"),
                _count(message, "optimal_frame_size"),
            )
        case "ERROR":
            return Refusal(_text(message, "error_text")[:200])
    return Unknown(name[:40])


def _text(message: dict[str, Any], key: str) -> str:
    value = message.get(key)
    if not isinstance(value, str):
        raise _Wrong(f"{key} is not a text")
    return value


def _count(message: dict[str, Any], key: str) -> int:
    value = message.get(key)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise _Wrong(f"{key} is not a count")
    return value
