"""The little of SDP (RFC 8866) that a G.711 u-law phone needs: one audio stream, its direction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from cordboard.errors import MalformedPacket
from cordboard_testkit.sip.rtp import PCMU, TELEPHONE_EVENT

Direction: TypeAlias = Literal["sendrecv", "sendonly", "recvonly", "inactive"]

_MIRROR: dict[Direction, Direction] = {
    "sendrecv": "sendrecv",
    "sendonly": "recvonly",
    "recvonly": "sendonly",
    "inactive": "inactive",
}


@dataclass(frozen=True, slots=True)
class AudioDescription:
    """One audio stream as offered or answered."""

    host: str
    port: int
    payload_types: tuple[int, ...] = (PCMU, TELEPHONE_EVENT)
    event_type: int | None = TELEPHONE_EVENT
    """Payload type of telephone events; None when there are none."""
    direction: Direction = "sendrecv"

    @property
    def speaks_ulaw(self) -> bool:
        return PCMU in self.payload_types

    def answer(self, host: str, port: int) -> AudioDescription:
        """Return this phone's answer to the offer."""
        events = self.event_type if self.event_type is not None else TELEPHONE_EVENT
        return AudioDescription(host, port, (PCMU, events), events, _MIRROR[self.direction])

    def to_bytes(self, version: int = 1) -> bytes:
        lines = [
            "v=0",
            f"o=cordboard {self.port} {version} IN IP4 {self.host}",
            "s=-",
            f"c=IN IP4 {self.host}",
            "t=0 0",
            f"m=audio {self.port} RTP/AVP {' '.join(str(number) for number in self.payload_types)}",
            "a=rtpmap:0 PCMU/8000",
        ]
        if self.event_type is not None:
            lines += [
                f"a=rtpmap:{self.event_type} telephone-event/8000",
                f"a=fmtp:{self.event_type} 0-16",
            ]
        lines += ["a=ptime:20", f"a={self.direction}", ""]
        return "\r\n".join(lines).encode()


def parse_sdp(body: bytes) -> AudioDescription:
    """Read the first audio stream of a session description. Raises `MalformedPacket`."""
    host, port, types = "", None, ()  # type: str, int | None, tuple[int, ...]
    event_type: int | None = None
    direction: Direction = "sendrecv"
    in_audio = False
    for line in body.decode(errors="replace").splitlines():
        kind, _, value = line.partition("=")
        if kind == "m":
            if port is not None:  # a second stream: the first one is all we use
                break
            in_audio = value.startswith("audio ")
            if in_audio:
                port, types = _media_line(value)
        elif kind == "c" and (in_audio or not host):
            host = value.split()[-1] if value.split() else ""
        elif kind == "a" and value in _MIRROR and (in_audio or port is None):
            direction = _as_direction(value)
        elif kind == "a" and in_audio and "telephone-event/8000" in value.lower():
            number = value.removeprefix("rtpmap:").split()[0]
            event_type = int(number) if number.isdigit() else None
    if port is None or not host:
        raise MalformedPacket("SDP without an audio stream and its address")
    return AudioDescription(host, port, types, event_type, direction)


def _media_line(value: str) -> tuple[int, tuple[int, ...]]:
    parts = value.split()
    if len(parts) < 4 or not all(part.isascii() and part.isdigit() for part in parts[3:]):
        raise MalformedPacket(f"SDP media line that does not parse: {value[:80]!r}")
    port = parts[1].partition("/")[0]
    if not (port.isascii() and port.isdigit() and int(port) < 65536):
        raise MalformedPacket(f"SDP media port {port!r}")
    return int(port), tuple(int(part) for part in parts[3:])


def _as_direction(value: str) -> Direction:
    return next(direction for direction in _MIRROR if direction == value)
