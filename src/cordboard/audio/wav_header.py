"""The header of a stereo WAV file that grows while it is written. Pure: no files.

The header has the same length for any file size, so that it can be overwritten at any time: a
killed program leaves a valid file. A `LIST INFO` chunk names the software and has JSON in its
comment that describes the file: the deletion of old recordings recognises the engine's own files by
it.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

SOFTWARE = "Cordboard"
WavEncoding = Literal["slin", "ulaw"]
PCM, ULAW = 1, 7
"""WAVE_FORMAT_PCM and WAVE_FORMAT_MULAW."""
_CODES: Mapping[WavEncoding, int] = {"slin": PCM, "ulaw": ULAW}
CHANNELS = 2
LARGEST = 0xFFFF_0000
"""Bytes of sound that the 32 bit sizes of a WAV file can express, less room for the header."""


@dataclass(frozen=True, slots=True)
class WavHeader:
    """The content of a file's header, except for its size."""

    encoding: WavEncoding
    rate: int
    comment: Mapping[str, Any]
    """Description of the file, as JSON values."""

    @property
    def frame_bytes(self) -> int:
        """Bytes of one sample of both channels."""
        return CHANNELS * (2 if self.encoding == "slin" else 1)

    @property
    def silence(self) -> bytes:
        """One frame of silence."""
        return (b"\0" if self.encoding == "slin" else b"\xff") * self.frame_bytes

    def encode(self, frames: int) -> bytes:
        """Return the header for `frames` frames of sound. Its length is always the same."""
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
    """Return the comment of a file made by `WavHeader`, from its first KB; None for other files."""
    for name, content in riff_chunks(start):
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


def riff_chunks(data: bytes) -> list[tuple[bytes, bytes]]:
    """Return name and content of a WAV file's chunks; none of another file. The last may be cut."""
    return _chunks(data[12:]) if data[:4] == b"RIFF" and data[8:12] == b"WAVE" else []


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
