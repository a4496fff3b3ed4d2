"""The AudioSocket protocol of Asterisk, without sockets and clocks: bytes in, events out.

A frame is ``kind: u8, length: u16 big-endian, payload``. Asterisk connects to the server and
names the call with a UUID before anything else; then both sides send audio, which is
little-endian s16 PCM for every kind. There is no negotiation: the kind of each frame gives its
sample rate. (asterisk 22 ``include/asterisk/res_audiosocket.h``, ``res/res_audiosocket.c``.)

`Parser` reads one direction of one connection; the ``encode_*`` functions write the other. The
engine is the ``server``; a simulated caller plays Asterisk, the ``client``. What each side accepts
is what the real ones accept:

- The server's parser insists that the UUID comes first and only once; it skips unknown kinds
  (`Unknown`; a newer Asterisk may have more) and empty audio frames.
- The client's parser is as strict as Asterisk: audio and hangup only, and never an empty payload.
  Asterisk ends the call for anything else (measured on 22.10.1).

It detects one trap: ``Dial(AudioSocket/...)`` without ``c(slin)`` makes Asterisk send raw u-law
labelled as slin. Such frames have 160 bytes instead of 320, but so have those of a phone that sends
10 ms packets, hence the audio itself decides (see `_UlawSuspicion`).

A violation is the last event of a parser; it ignores further data. A parser never holds
more than one incomplete frame (64 KiB).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Literal
from uuid import UUID

import numpy as np

from cordboard.audio import g711

HEADER_SIZE = 3
MAX_PAYLOAD = 0xFFFF
DTMF_DIGITS = frozenset("0123456789*#ABCD")


class Kind(IntEnum):
    """The first byte of a frame."""

    HANGUP = 0x00
    UUID = 0x01
    DTMF = 0x03
    SLIN_8K = 0x10
    SLIN_12K = 0x11
    SLIN_16K = 0x12
    SLIN_24K = 0x13
    SLIN_32K = 0x14
    SLIN_44K = 0x15
    SLIN_48K = 0x16
    SLIN_96K = 0x17
    SLIN_192K = 0x18
    ERROR = 0xFF


RATES: dict[int, int] = {
    Kind.SLIN_8K: 8_000,
    Kind.SLIN_12K: 12_000,
    Kind.SLIN_16K: 16_000,
    Kind.SLIN_24K: 24_000,
    Kind.SLIN_32K: 32_000,
    Kind.SLIN_44K: 44_100,
    Kind.SLIN_48K: 48_000,
    Kind.SLIN_96K: 96_000,
    Kind.SLIN_192K: 192_000,
}
"""Samples per second of each audio kind."""

_KINDS = {rate: kind for kind, rate in RATES.items()}


@dataclass(slots=True)
class Identified:
    """Asterisk has named the call of this connection."""

    uuid: UUID


@dataclass(slots=True)
class Audio:
    """Audio: s16 little-endian mono, usually 20 ms."""

    rate: int
    """Samples per second."""
    pcm: bytes


@dataclass(slots=True)
class Dtmf:
    """The caller has pressed and released a key."""

    digit: str
    """One of ``0-9 * # A-D``."""


@dataclass(slots=True)
class Hangup:
    """The other side ends the connection."""


@dataclass(slots=True)
class PeerError:
    """The other side reports an error of its own (asterisk: 1 hangup, 2 frame, 4 memory)."""

    code: bytes


@dataclass(slots=True)
class Unknown:
    """A frame of a kind that this version does not know; safe to ignore."""

    kind: int
    size: int


@dataclass(slots=True)
class Violation:
    """The other side broke the protocol; the connection can no longer be used."""

    message: str


Event = Identified | Audio | Dtmf | Hangup | PeerError | Unknown | Violation
Side = Literal["server", "client"]


class Parser:
    """Reads one direction of one connection. `side` is our side; the other side wrote the data."""

    def __init__(self, side: Side = "server") -> None:
        self._buffer = bytearray()
        self._side = side
        self._identified = side == "client"
        self._suspicion: _UlawSuspicion | None = _UlawSuspicion() if side == "server" else None
        self.frames = 0
        """Frames read so far, including those without an event."""
        self.failed = False
        """True after a `Violation`: further data is ignored."""

    def feed(self, data: bytes) -> list[Event]:
        """Take received bytes, in pieces of any size, and return their events."""
        if self.failed:
            return []
        buffer = self._buffer
        buffer += data
        events: list[Event] = []
        position, end = 0, len(buffer)
        while end - position >= HEADER_SIZE:
            start = position + HEADER_SIZE
            size = (buffer[position + 1] << 8) | buffer[position + 2]
            # The order of the first frame is checked on its kind alone: a stranger who announces
            # a wrong frame of 64 KiB is turned away before sending it.
            if not self._identified and buffer[position] != Kind.UUID:
                kind = buffer[position]
                events.append(self._violation(f"the first frame is 0x{kind:02x}, not the UUID"))
                break
            if end - start < size:
                break
            position = start + size
            self.frames += 1
            event = self._event(buffer[start - HEADER_SIZE], bytes(buffer[start:position]))
            if event is not None:
                events.append(event)
            if isinstance(event, Violation):
                break
        del buffer[:position]
        return events

    def _event(self, kind: int, payload: bytes) -> Event | None:
        if kind in RATES:
            return self._audio(kind, payload)
        if kind == Kind.HANGUP:
            return Hangup()
        if self._side == "client":
            return self._violation(f"a server may send audio and hangup only, not 0x{kind:02x}")
        if kind == Kind.UUID:
            return self._uuid(payload)
        if kind == Kind.DTMF:
            digit = payload.decode("latin-1").upper()
            if digit not in DTMF_DIGITS:
                return self._violation(f"a DTMF frame holds {payload[:8]!r}, not one digit")
            return Dtmf(digit)
        if kind == Kind.ERROR:
            return PeerError(payload)
        return Unknown(kind, len(payload))

    def _uuid(self, payload: bytes) -> Event:
        if len(payload) != 16:
            return self._violation(f"a UUID has 16 bytes, not {len(payload)}")
        if self._identified:
            return self._violation("a second UUID on the same connection")
        self._identified = True
        return Identified(UUID(bytes=payload))

    def _audio(self, kind: int, payload: bytes) -> Event | None:
        if not payload:
            return self._violation("an empty audio frame") if self._side == "client" else None
        if len(payload) % 2:
            return self._violation(f"an audio frame of {len(payload)} bytes: half a sample")
        if self._suspicion is not None and kind == Kind.SLIN_8K:
            verdict = self._suspicion.judge(payload)
            if verdict is True:
                return self._violation(
                    "Asterisk sends u-law labelled as slin: use Dial(AudioSocket/.../c(slin)) "
                    "or ExternalMedia with format=slin"
                )
            if verdict is False:
                self._suspicion = None
        return Audio(RATES[kind], payload)

    def _violation(self, message: str) -> Violation:
        self.failed = True
        self._buffer.clear()
        return Violation(message)


class _UlawSuspicion:
    """Distinguishes u-law labelled as slin from real slin, by which reading sounds like sound.

    Sound at 8 kHz is smooth: neighbouring samples are near each other. Read in the wrong coding it
    is noise. A frame whose smoothness differs clearly between the two readings is one vote; silence
    and hiss do not vote. Only frames of 160 bytes are suspect: 20 ms of u-law or 10 ms of slin.
    """

    SUSPECT_SIZE = 160
    CLEAR_FACTOR = 2.0
    VOTES = 4

    def __init__(self) -> None:
        self._votes = 0

    def judge(self, payload: bytes) -> bool | None:
        """Return True for u-law, False for slin (final: stop calling), None while undecided."""
        if len(payload) != self.SUSPECT_SIZE:
            return False
        as_ulaw = _roughness(g711.ulaw_to_linear(payload))
        as_slin = _roughness(payload)
        if as_ulaw * self.CLEAR_FACTOR < as_slin:
            self._votes += 1
        elif as_slin * self.CLEAR_FACTOR < as_ulaw:
            self._votes -= 1
        if abs(self._votes) < self.VOTES:
            return None
        return self._votes > 0


def _roughness(pcm: bytes) -> float:
    """Return the energy of the sample-to-sample steps over the energy: near 0 for tones, 2 for
    white noise."""
    samples = np.frombuffer(pcm, "<i2").astype(np.float64)
    samples -= samples.mean()
    energy = float(samples @ samples)
    steps = np.diff(samples)
    # Silence (a few units of rounding) decides nothing: as rough as noise in both readings.
    return float(steps @ steps) / energy if energy > 100.0 * len(samples) else 2.0


def encode_uuid(uuid: UUID) -> bytes:
    """Client to server: name the call. Must be the first frame."""
    return _frame(Kind.UUID, uuid.bytes)


def encode_audio(pcm: bytes, rate: int = 8_000) -> bytes:
    """Both directions: a piece of audio, s16 little-endian.

    Asterisk plays it on arrival (one RTP packet per frame), so send 20 ms every 20 ms.
    Raises ValueError for a rate without a kind, no samples, half a sample or over 65,535 bytes.
    """
    kind = _KINDS.get(rate)
    if kind is None:
        raise ValueError(f"AudioSocket has no kind for {rate} Hz")
    if not pcm or len(pcm) % 2:
        raise ValueError(f"an audio frame needs whole samples, not {len(pcm)} bytes")
    return _frame(kind, pcm)


def encode_dtmf(digit: str) -> bytes:
    """Client to server only (Asterisk ends the call if a server sends it)."""
    if digit not in DTMF_DIGITS:
        raise ValueError(f"{digit!r} is not a DTMF digit")
    return _frame(Kind.DTMF, digit.encode("ascii"))


def encode_hangup() -> bytes:
    """Server to client: end the AudioSocket() application; the dialplan continues after it."""
    return _frame(Kind.HANGUP, b"")


def encode_error(code: int) -> bytes:
    """Client to server: report an error of the client."""
    return _frame(Kind.ERROR, bytes((code,)))


def _frame(kind: int, payload: bytes) -> bytes:
    size = len(payload)
    if size > MAX_PAYLOAD:
        raise ValueError(f"a frame holds at most {MAX_PAYLOAD} bytes, not {size}")
    return bytes((kind, size >> 8, size & 0xFF)) + payload
