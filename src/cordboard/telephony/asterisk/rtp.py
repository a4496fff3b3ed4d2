"""RTP (RFC 3550) without a socket: datagrams in, packets out, and back.

Asterisk's ExternalMedia channel (`UnicastRTP`) speaks plain RTP with static payload types and no
SDP. `parse` takes any bytes and never raises: anything but RTP becomes `Malformed` with a fixed
word for the statistics. `Packetiser` numbers and stamps our packets.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

VERSION = 2
HEADER_BYTES = 12
_HEADER = struct.Struct(">BBHII")
_PADDING, _EXTENSION, _MARKER = 0x20, 0x10, 0x80
_FIRST_BYTE = VERSION << 6


class RtpPacket(NamedTuple):
    """One packet. Sequence numbers are 16 bit, timestamps and sources 32 bit; all wrap around."""

    payload_type: int
    sequence: int
    timestamp: int
    ssrc: int
    payload: bytes
    marker: bool = False
    contributors: tuple[int, ...] = ()
    """CSRC list: at most 15."""
    extension: tuple[int, bytes] | None = None
    """Profile (16 bit) and data (whole 32 bit words) of a header extension."""


class Malformed(NamedTuple):
    """A datagram that is not an RTP packet."""

    reason: str
    """One of `short`, `version`, `contributors`, `extension`, `padding`."""


def parse(data: bytes) -> RtpPacket | Malformed:
    """Read one datagram."""
    size = len(data)
    if size < HEADER_BYTES:
        return Malformed("short")
    first, second, sequence, timestamp, ssrc = _HEADER.unpack_from(data)
    if first >> 6 != VERSION:
        return Malformed("version")
    payload_type, marker = second & 0x7F, second >= _MARKER
    if first == _FIRST_BYTE:  # only header and payload, as Asterisk always sends it
        return RtpPacket(payload_type, sequence, timestamp, ssrc, data[HEADER_BYTES:], marker)
    start = HEADER_BYTES + 4 * (first & 0x0F)
    if start > size:
        return Malformed("contributors")
    contributors = struct.unpack_from(f">{first & 0x0F}I", data, HEADER_BYTES)
    extension = None
    if first & _EXTENSION:
        if start + 4 > size:
            return Malformed("extension")
        profile, words = struct.unpack_from(">HH", data, start)
        end_of_extension = start + 4 + 4 * words
        if end_of_extension > size:
            return Malformed("extension")
        extension = (profile, data[start + 4 : end_of_extension])
        start = end_of_extension
    end = size
    if first & _PADDING:
        # The last byte counts the padding, itself included (RFC 3550 section 5.1).
        if data[-1] == 0 or size - data[-1] < start:
            return Malformed("padding")
        end -= data[-1]
    return RtpPacket(
        payload_type, sequence, timestamp, ssrc, data[start:end], marker, contributors, extension
    )


def serialise(packet: RtpPacket, padding: int = 0) -> bytes:
    """Return one datagram; `padding` bytes (0-255) are appended and announced.

    Raises ValueError for fields that a header cannot carry.
    """
    if len(packet.contributors) > 15 or not 0 <= padding <= 255 or packet.payload_type > 127:
        raise ValueError("more than an RTP header can say")
    first = _FIRST_BYTE | len(packet.contributors) | (_PADDING if padding else 0)
    extension = b""
    if packet.extension is not None:
        profile, content = packet.extension
        if len(content) % 4:
            raise ValueError("a header extension consists of whole 32 bit words")
        first |= _EXTENSION
        extension = struct.pack(">HH", profile, len(content) // 4) + content
    header = _HEADER.pack(
        first,
        packet.payload_type | (_MARKER if packet.marker else 0),
        packet.sequence,
        packet.timestamp,
        packet.ssrc,
    )
    contributors = struct.pack(f">{len(packet.contributors)}I", *packet.contributors)
    tail = bytes(padding - 1) + bytes((padding,)) if padding else b""
    return header + contributors + extension + packet.payload + tail


class Packetiser:
    """Numbers the packets of one outgoing stream."""

    def __init__(
        self, payload_type: int, timestamp_step: int, *, ssrc: int, sequence: int, timestamp: int
    ) -> None:
        """`timestamp_step` is the duration of one packet, in ticks of the payload type's clock.

        The first numbers should be random (RFC 3550 section 5.1).
        """
        self._payload_type = payload_type
        self._step = timestamp_step
        self._ssrc = ssrc
        self._sequence = sequence & 0xFFFF
        self._timestamp = timestamp & 0xFFFFFFFF

    def packet(self, payload: bytes, *, marker: bool = False) -> bytes:
        """Return the next datagram. `marker`: speech begins after silence (RFC 3551, 4.1)."""
        second = self._payload_type | _MARKER if marker else self._payload_type
        header = _HEADER.pack(_FIRST_BYTE, second, self._sequence, self._timestamp, self._ssrc)
        self._sequence = self._sequence + 1 & 0xFFFF
        self._timestamp = self._timestamp + self._step & 0xFFFFFFFF
        return header + payload
