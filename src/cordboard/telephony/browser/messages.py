"""The protocol `cordboard.call.v1` between a page and the engine, as bytes and as events. No I/O.

Binary frames carry sound, in both directions: 9 bytes of header, `kind u8 | seq u32 | at_ms u32` in
network byte order, then samples. `kind` is 1; `seq` counts the frames of one direction from 0. A
frame of the page has exactly 20 ms; one of the engine at most. Text frames are JSON objects with a
`type`. docs/browser-call.md describes them.

`decode_sound` and `decode_text` never raise: a frame that breaks the protocol becomes a
`Violation`, which ends the call with its close code. Unknown fields of a message are ignored.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from cordboard.audio.format import SLIN_16K, ULAW_8K, AudioFormat

SUBPROTOCOL = "cordboard.call.v1"
FORMATS = {"slin16": SLIN_16K, "ulaw": ULAW_8K}
"""Names of the formats; a call has one for both directions."""
FormatName = Literal["slin16", "ulaw"]

HEADER = struct.Struct("!BII")
SOUND = 1
"""The kind of a binary frame with sound."""
MAX_TEXT_CHARACTERS = 1_024
"""The page's messages have less than 200."""
_WRAP = 1 << 32

BAD_FRAME = 4400
SILENT = 4408
OUT_OF_ORDER = 4409
TOO_LARGE = 4413
FLOOD = 4429
"""Close codes for applications: 4000 and the HTTP status that fits."""

Count = Annotated[int, Field(ge=0, lt=_WRAP)]
Milliseconds = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]
"""At most eleven days: more is an error of the page."""


class Message(BaseModel):
    """The base of all text frames."""

    model_config = ConfigDict(frozen=True, strict=True)


# Of the page.


class Played(Message):
    """The state of the page's playout. Sent when it begins, stops, is held or flushed, and every
    100 ms while it plays."""

    type: Literal["played"] = "played"
    flush: Count
    """Number of the last flush that the page has carried out; 0 before the first."""
    ms: Milliseconds
    """Sound that has left the loudspeaker since then, to the sample."""
    playing: bool
    """True while sound leaves it."""
    queued_ms: Milliseconds
    """Sound that waits in the page."""
    underruns: Count
    """Number of times for which the page ran dry in the middle of sound."""


class MarkDone(Message):
    """The sound before this mark has been played."""

    type: Literal["mark_done"] = "mark_done"
    name: Count


class PressedKey(Message):
    """A key of the page's keypad."""

    type: Literal["key"] = "key"
    digit: Annotated[str, Field(pattern=r"^[0-9*#A-D]$")]


class HangupByPage(Message):
    """The person at the page hangs up."""

    type: Literal["hangup"] = "hangup"


class PageStats(Message):
    """The page's own measurements, for the log."""

    type: Literal["stats"] = "stats"
    output_ms: Milliseconds
    """Latency of the loudspeaker's path, which `played` already excludes."""
    late: Count
    """Frames that came later than the page's jitter buffer bridges."""


# Of the engine.


class Ready(Message):
    """The call is taken: the page may send its microphone."""

    type: Literal["ready"] = "ready"
    call: str
    format: FormatName
    rate: int
    """Samples per second."""
    frame_ms: int


class Flush(Message):
    """Drop the queued sound, and the marks in it; end a hold."""

    type: Literal["flush"] = "flush"
    flush: int
    """Its number; the next count of `played` begins here."""


class Hold(Message):
    """Fall silent, and keep the queue."""

    type: Literal["hold"] = "hold"


class Resume(Message):
    """Go on at the sample where the hold began."""

    type: Literal["resume"] = "resume"


class MarkHere(Message):
    """Answer `mark_done` when the sound before it has been played, and that behind it begins."""

    type: Literal["mark"] = "mark"
    name: int


class ShowKeys(Message):
    """Keys that the agent sends to the caller."""

    type: Literal["keys"] = "keys"
    keys: str


class Over(Message):
    """The call is over; the socket is closed next."""

    type: Literal["ended"] = "ended"
    reason: str
    """`caller_hangup`, `hangup` (by the agent), `busy`, `unavailable`, `trial_over`,
    `engine_stopped`."""


OfPage = Played | MarkDone | PressedKey | HangupByPage | PageStats
OF_PAGE = (Played, MarkDone, PressedKey, HangupByPage, PageStats)
OF_ENGINE = (Ready, Flush, Hold, Resume, MarkHere, ShowKeys, Over)
_OF_PAGE: TypeAdapter[OfPage] = TypeAdapter(Annotated[OfPage, Field(discriminator="type")])


@dataclass(frozen=True, slots=True)
class Sound:
    """20 ms of the microphone."""

    pcm: bytes
    at_ms: int
    """Time of its first sample on the page's clock; any zero."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A frame that breaks the protocol."""

    code: int
    problem: str


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


def decode_text(text: str) -> OfPage | Violation:
    """Return the message of a text frame of the page."""
    if len(text) > MAX_TEXT_CHARACTERS:
        return Violation(TOO_LARGE, f"a message of {len(text)} characters")
    try:
        return _OF_PAGE.validate_json(text)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(map(str, fault["loc"]))
        return Violation(BAD_FRAME, f"{place}: {fault['msg']}"[:200].lstrip(": "))


def encode_sound(seq: int, at_ms: int, pcm: bytes) -> bytes:
    """Return a binary frame, of the engine or of a page."""
    return HEADER.pack(SOUND, seq % _WRAP, at_ms % _WRAP) + pcm
