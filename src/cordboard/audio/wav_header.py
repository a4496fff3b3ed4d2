"""The header of a stereo WAV file that grows while it is written. Pure: no files.

The header has the same length whatever the file's size, so that it can be written over at any time:
a program that is killed leaves a whole file. A `LIST INFO` chunk says who made it and, as JSON in
its comment, what for: whoever deletes old recordings knows its own by it.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

SOFTWARE = "Cordboard"
WavEncoding = Literal["slin", "ulaw"]
_CODES: Mapping[WavEncoding, int] = {"slin": 1, "ulaw": 7}
"""WAVE_FORMAT_PCM and WAVE_FORMAT_MULAW."""
CHANNELS = 2
LARGEST = 0xFFFF_0000
"""Bytes of sound that the 32 bit sizes of a WAV file can tell, less room for the header."""


@dataclass(frozen=True, slots=True)
class WavHeader:
    """What a file's header says, except for its size."""

    encoding: WavEncoding
    rate: int
    comment: Mapping[str, Any]
    """What is known of the file, as JSON values."""

    @property
    def frame_bytes(self) -> int:
        """Bytes of one sample of both channels."""
        return CHANNELS * (2 if self.encoding == "slin" else 1)

    @property
    def silence(self) -> bytes:
        """One frame of silence."""
        return (b"\0" if self.encoding == "slin" else b"\xff") * self.frame_bytes

    def encode(self, frames: int) -> bytes:
        """The header of a file with so many frames of sound. Its length is always the same."""
        size = frames * self.frame_bytes
        width = 8 * self.frame_bytes // CHANNELS
        code, per_second = _CODES[self.encoding], self.rate * self.frame_bytes
        fmt = struct.pack(
            "<HHIIHHH", code, CHANNELS, self.rate, per_second, self.frame_bytes, width, 0
        )
        comment = json.dumps(dict(self.comment), sort_keys=True).encode()
        info = b"INFO" + _chunk(b"ISFT", SOFTWARE.encode() + b"\0") + _chunk(b"ICMT", comment)
        body = (
            b"WAVE"
            + _chunk(b"fmt ", fmt)
            + _chunk(b"fact", struct.pack("<I", frames))
            + _chunk(b"LIST", info)
            + struct.pack("<4sI", b"data", size)
        )
        return struct.pack("<4sI", b"RIFF", len(body) + size) + body


def read_comment(start: bytes) -> dict[str, Any] | None:
    """The comment of a file that `WavHeader` made, from its first KB; None for any other file."""
    if start[:4] != b"RIFF" or start[8:12] != b"WAVE":
        return None
    for name, content in _chunks(start[12:]):
        if name == b"LIST" and content[:4] == b"INFO":
            info = dict(_chunks(content[4:]))
            if info.get(b"ISFT", b"").rstrip(b"\0") != SOFTWARE.encode():
                return None
            try:
                comment = json.loads(info.get(b"ICMT", b""))
            except ValueError:
                return None
            return comment if isinstance(comment, dict) else None
    return None


def _chunk(name: bytes, content: bytes) -> bytes:
    return struct.pack("<4sI", name, len(content)) + content + b"\0" * (len(content) % 2)


def _chunks(data: bytes) -> list[tuple[bytes, bytes]]:
    found = []
    at = 0
    while at + 8 <= len(data):
        name, size = struct.unpack_from("<4sI", data, at)
        found.append((name, data[at + 8 : at + 8 + size]))
        at += 8 + size + size % 2
    return found
