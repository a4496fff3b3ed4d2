"""RTP packets (RFC 3550) and telephone-event payloads (RFC 4733). Pure: bytes in, values out."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from cordboard.errors import MalformedPacket

PCMU = 0
TELEPHONE_EVENT = 101
"""The payload type this phone offers for telephone events; the far side may name another."""
KEYS = "0123456789*#ABCD"
"""RFC 4733 table 7: the event code is the index."""

_HEADER = struct.Struct("!BBHII")
_EVENT = struct.Struct("!BBH")
_KEY_VOLUME = 10  # -10 dBm0
_TICK = 160  # timestamp units in 20 ms


@dataclass(frozen=True, slots=True)
class RtpPacket:
    """One packet, without header extension and contributing sources when it is ours."""

    payload_type: int
    sequence: int
    timestamp: int
    ssrc: int
    payload: bytes
    marker: bool = False

    def to_bytes(self) -> bytes:
        return (
            _HEADER.pack(
                0x80,
                self.payload_type | (0x80 if self.marker else 0),
                self.sequence & 0xFFFF,
                self.timestamp & 0xFFFFFFFF,
                self.ssrc,
            )
            + self.payload
        )

    @classmethod
    def parse(cls, data: bytes) -> RtpPacket:
        """Read one datagram. Raises `MalformedPacket`."""
        if len(data) < _HEADER.size:
            raise MalformedPacket(f"{len(data)} bytes are too few for RTP")
        first, second, sequence, timestamp, ssrc = _HEADER.unpack_from(data)
        if first >> 6 != 2:
            raise MalformedPacket(f"RTP version {first >> 6}")
        start = _HEADER.size + 4 * (first & 0x0F)
        if first & 0x10:  # a header extension: 16 bit profile, 16 bit length in words
            if len(data) < start + 4:
                raise MalformedPacket("the RTP header extension is cut off")
            start += 4 + 4 * int.from_bytes(data[start + 2 : start + 4], "big")
        end = len(data)
        if first & 0x20:  # padding: its length is in the last byte
            end -= data[-1]
            if data[-1] == 0:
                raise MalformedPacket("RTP padding of length 0")
        if start > end:
            raise MalformedPacket("the RTP payload is cut off")
        return cls(second & 0x7F, sequence, timestamp, ssrc, data[start:end], bool(second & 0x80))


@dataclass(frozen=True, slots=True)
class TelephoneEvent:
    """The payload of a telephone-event packet; `duration` in timestamp units."""

    event: int
    end: bool
    duration: int
    volume: int = _KEY_VOLUME

    def to_bytes(self) -> bytes:
        return _EVENT.pack(self.event, (0x80 if self.end else 0) | self.volume, self.duration)

    @classmethod
    def parse(cls, payload: bytes) -> TelephoneEvent:
        """Read a payload; further events of a packed payload are ignored."""
        if len(payload) < _EVENT.size:
            raise MalformedPacket(f"a telephone event of {len(payload)} bytes")
        event, flags, duration = _EVENT.unpack_from(payload)
        return cls(event, bool(flags & 0x80), duration, flags & 0x3F)

    @property
    def key(self) -> str | None:
        """The telephone key; None for events that are not keys."""
        return KEYS[self.event] if self.event < len(KEYS) else None


def key_press(key: str, ms: int = 120) -> Iterator[TelephoneEvent]:
    """The events of one key press, one for each 20 ms, the end three times (RFC 4733 2.5.1.4)."""
    event = KEYS.index(key)
    total = ms // 20 * _TICK
    for duration in range(_TICK, total + 1, _TICK):
        yield TelephoneEvent(event, False, duration)
    for _ in range(3):
        yield TelephoneEvent(event, True, total)
