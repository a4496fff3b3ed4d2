"""WAV files, and the header of a stereo file that grows while it is written.

The header has the same length for any file size, so that it can be overwritten at any time: a
killed program leaves a valid file. A `LIST INFO` chunk names the software and has JSON in its
comment that describes the file: the deletion of old recordings recognises the engine's own files by
it.

Other files are 16 bit PCM, read as mono at any rate, written as mono or stereo; recordings (also
u-law) are read as stereo. The functions that take a path block: call them from a worker thread or a
command, not on the event loop.
"""

from __future__ import annotations

import json
import struct
import wave
from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, Literal

import numpy as np

from cordboard.audio.g711 import ulaw_to_linear
from cordboard.audio.resample import resample_pcm
from cordboard.errors import AudioFileError

SOFTWARE = "Cordboard"
WavEncoding = Literal["slin", "ulaw"]
_PCM, _ULAW = 1, 7
"""WAVE_FORMAT_PCM and WAVE_FORMAT_MULAW."""
_CODES: Mapping[WavEncoding, int] = {"slin": _PCM, "ulaw": _ULAW}
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
    for name, content in _riff_chunks(start):
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


def _riff_chunks(data: bytes) -> list[tuple[bytes, bytes]]:
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


def read_mono(path: Path | str, rate: int | None = None) -> tuple[bytes, int]:
    """Return the samples (s16 bytes) and the sample rate of a WAV file.

    With ``rate`` the samples are resampled to it. Several channels are mixed to one. Raises
    ``AudioFileError`` if the file is missing, is not a WAV file, or is not 16 bit PCM.
    """
    try:
        with wave.open(str(path), "rb") as file:
            channels, width = file.getnchannels(), file.getsampwidth()
            found = file.getframerate()
            pcm = file.readframes(file.getnframes())
    except (OSError, EOFError, wave.Error) as error:
        raise AudioFileError(f"cannot read {path} as a WAV file: {error}") from error
    if width != 2:
        raise AudioFileError(f"{path} has {8 * width} bit samples; 16 bit PCM is needed")
    if channels > 1:
        frames = np.frombuffer(pcm, "<i2").reshape(-1, channels)
        pcm = np.rint(frames.mean(axis=1)).astype("<i2").tobytes()
    wanted = rate or found
    return resample_pcm(pcm, found, wanted), wanted


def read_stereo(path: Path | str, rate: int) -> tuple[bytes, bytes]:
    """Return both channels of a recording, s16 or u-law (which `wave` does not read), as s16 bytes
    at ``rate``. Raises ``AudioFileError``."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise AudioFileError(f"cannot read {path} as a WAV file: {error!r}") from error
    return stereo_in(data, path, rate)


def stereo_in(data: bytes, path: Path | str, rate: int) -> tuple[bytes, bytes]:
    """Return both channels of the content of a recording, as `read_stereo`. `path` is for messages.
    Raises ``AudioFileError``."""
    try:
        chunks = dict(_riff_chunks(data))
        code, channels, found = struct.unpack_from("<HHI", chunks[b"fmt "])
        sound = chunks[b"data"]
    except (KeyError, struct.error) as error:
        raise AudioFileError(f"cannot read {path} as a WAV file: {error!r}") from error
    if channels != 2 or code not in (_PCM, _ULAW):
        raise AudioFileError(f"{path} is not a stereo file of 16 bit PCM or u-law")
    pcm = ulaw_to_linear(sound) if code == _ULAW else sound
    frames = np.frombuffer(pcm[: len(pcm) // 4 * 4], "<i2").reshape(-1, 2)
    left, right = (resample_pcm(frames[:, side].tobytes(), found, rate) for side in (0, 1))
    return left, right


def write_mono(path: Path | str, pcm: bytes, rate: int) -> None:
    """Write s16 bytes as a mono WAV."""
    _write(path, pcm, rate, channels=1)


def mono_wav(pcm: bytes, rate: int) -> bytes:
    """Return s16 bytes as a mono WAV."""
    file = BytesIO()
    _write(file, pcm, rate, channels=1)
    return file.getvalue()


def write_stereo(path: Path | str, left: bytes, right: bytes, rate: int) -> None:
    """Write two s16 tracks as one stereo WAV; the shorter one is padded with silence."""
    frames = max(len(left), len(right)) // 2
    mixed = np.zeros((frames, 2), "<i2")
    for side, pcm in enumerate((left, right)):
        mixed[: len(pcm) // 2, side] = np.frombuffer(pcm, "<i2")
    _write(path, mixed.tobytes(), rate, channels=2)


def _write(to: Path | str | BytesIO, pcm: bytes, rate: int, channels: int) -> None:
    with wave.open(str(to) if isinstance(to, Path) else to, "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(pcm)
