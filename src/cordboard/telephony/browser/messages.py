"""The protocol `cordboard.call.v1` between a page and the engine, as bytes and as events. No I/O.

Binary frames carry sound, in both directions: 9 bytes of header, `kind u8 | seq u32 | at_ms u32` in
network byte order, then samples. `kind` is 1; `seq` counts the frames of one direction from 0. A
frame of the page has exactly 20 ms; one of the engine at most. Text frames are JSON objects with a
`type`. docs/browser-call.md describes them.

`decode_sound` and `decode_text` never raise: a frame that breaks the protocol becomes a
`Violation`, which ends the call with its close code.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import Any, Literal

import orjson

from cordboard.audio.format import SLIN_16K, ULAW_8K, AudioFormat

SUBPROTOCOL = "cordboard.call.v1"
FORMATS = {"slin16": SLIN_16K, "ulaw": ULAW_8K}
"""Names of the formats; a call has one for both directions."""
FormatName = Literal["slin16", "ulaw"]

HEADER = struct.Struct("!BII")
SOUND = 1
"""The kind of a binary frame with sound."""
MAX_TEXT_BYTES = 1_024
"""The page's messages have less than 200 bytes."""
MAX_SOUND_BYTES = HEADER.size + SLIN_16K.frame_bytes
_WRAP = 1 << 32
_MOST_MS = 1e9
"""Eleven days: more is an error of the page."""
_KEYS = frozenset("0123456789*#ABCD")

BAD_FRAME = 4400
SILENT = 4408
OUT_OF_ORDER = 4409
TOO_LARGE = 4413
FLOOD = 4429
"""Close codes for applications: 4000 and the HTTP status that fits."""


@dataclass(frozen=True, slots=True)
class Sound:
    """20 ms of the microphone."""

    pcm: bytes
    at_ms: int
    """Time of its first sample on the page's clock; any zero."""


@dataclass(frozen=True, slots=True)
class Played:
    """The state of the page's playout. Sent when it begins, stops, is held or flushed, and every
    100 ms while it plays."""

    flush: int
    """Number of the last flush that the page has carried out; 0 before the first."""
    ms: float
    """Sound played since then, to the sample."""
    playing: bool
    """True while sound leaves the loudspeaker."""
    queued_ms: float
    """Sound that waits in the page."""
    underruns: int
    """Number of times for which the page ran dry in the middle of sound."""


@dataclass(frozen=True, slots=True)
class MarkDone:
    """The sound before this mark has been played."""

    name: int


@dataclass(frozen=True, slots=True)
class Key:
    """A key of the page's keypad."""

    digit: str


@dataclass(frozen=True, slots=True)
class Hangup:
    """The person at the page hangs up."""


@dataclass(frozen=True, slots=True)
class Stats:
    """The page's own measurements, for the log."""

    output_ms: float
    """Latency of the loudspeaker's path, which `Played.ms` already excludes."""
    late: int
    """Frames that came later than the page's jitter buffer bridges."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A frame that breaks the protocol."""

    code: int
    problem: str


Message = Played | MarkDone | Key | Hangup | Stats


def decode_sound(frame: bytes, expected_seq: int, audio_format: AudioFormat) -> Sound | Violation:
    """Return the sound of a binary frame of the page."""
    if len(frame) < HEADER.size:
        return Violation(BAD_FRAME, f"a binary frame of {len(frame)} bytes has no header")
    kind, seq, at_ms = HEADER.unpack_from(frame)
    if kind != SOUND:
        return Violation(BAD_FRAME, f"binary frames of kind {kind} do not exist")
    size = len(frame) - HEADER.size
    if size > audio_format.frame_bytes:
        return Violation(TOO_LARGE, f"{size} bytes of sound; 20 ms have {audio_format.frame_bytes}")
    if size < audio_format.frame_bytes:
        return Violation(BAD_FRAME, f"{size} bytes of sound; 20 ms have {audio_format.frame_bytes}")
    if seq != expected_seq % _WRAP:
        return Violation(OUT_OF_ORDER, f"frame {seq} came in place of {expected_seq % _WRAP}")
    return Sound(frame[HEADER.size :], at_ms)


def decode_text(text: str) -> Message | Violation:
    """Return the message of a text frame of the page."""
    if len(text) > MAX_TEXT_BYTES:
        return Violation(TOO_LARGE, f"a message of {len(text)} characters")
    try:
        body = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        return Violation(BAD_FRAME, f"not JSON: {error}")
    kind = body.get("type") if isinstance(body, dict) else None
    if not isinstance(kind, str):
        return Violation(BAD_FRAME, "no type in the message")
    try:
        return _message(kind, body)
    except _Wrong as error:
        return Violation(BAD_FRAME, f"{kind[:40]}: {error}")


def encode_sound(seq: int, at_ms: int, pcm: bytes) -> bytes:
    """Return a binary frame, of the engine or of a page."""
    return HEADER.pack(SOUND, seq % _WRAP, at_ms % _WRAP) + pcm


def encode_text(kind: str, **fields: Any) -> str:
    """Return a text frame, of the engine or of a page."""
    return orjson.dumps({"type": kind, **fields}).decode()


class _Wrong(Exception):
    """A field is missing or of the wrong type."""


def _message(kind: str, body: dict[str, Any]) -> Message:
    match kind:
        case "played":
            return Played(
                _count(body, "flush"),
                _ms(body, "ms"),
                _flag(body, "playing"),
                _ms(body, "queued_ms"),
                _count(body, "underruns"),
            )
        case "mark_done":
            return MarkDone(_count(body, "name"))
        case "key":
            digit = body.get("digit")
            if not isinstance(digit, str) or digit not in _KEYS:
                raise _Wrong("digit is not one of 0-9*#A-D")
            return Key(digit)
        case "hangup":
            return Hangup()
        case "stats":
            return Stats(_ms(body, "output_ms"), _count(body, "late"))
    raise _Wrong("there is no such type")


def _count(body: dict[str, Any], key: str) -> int:
    value = body.get(key)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < _WRAP:
        raise _Wrong(f"{key} is not a count")
    return value


def _ms(body: dict[str, Any], key: str) -> float:
    value = body.get(key)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _Wrong(f"{key} is not a number")
    if not math.isfinite(value) or not 0 <= value <= _MOST_MS:
        raise _Wrong(f"{key} is not a time in ms")
    return float(value)


def _flag(body: dict[str, Any], key: str) -> bool:
    value = body.get(key)
    if not isinstance(value, bool):
        raise _Wrong(f"{key} is not true or false")
    return value
