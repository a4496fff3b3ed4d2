"""Recordings for a player: peaks to draw, and sound in pieces that HTTP ranges ask for.

A recording is a stereo WAV file, s16 or u-law, caller left, agent right. Browsers do not all play
u-law, and a listener may want one side alone, so `Playback` is a PCM file that exists only piece by
piece: any range of it is computed from the same range of the recording. Everything that takes a
path blocks.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Literal

import numpy as np
import structlog
from numpy.typing import NDArray

from cordboard import private_files
from cordboard.audio.g711 import ulaw_to_linear
from cordboard.calls.recording.retention import PEAKS
from cordboard.errors import AudioFileError, HistoryError
from cordboard.privacy.sealed_file import PLAIN, Vault

log = structlog.get_logger()

Track = Literal["caller", "agent", "both"]

PER_SECOND = 50
"""Peaks of a second: one of 20 ms."""
PEAK_BYTES = 4
"""Least and greatest sample of the caller, then of the agent, each int8."""
_MAGIC = struct.Struct("<4sIQ")
"""Beginning of a file of peaks: name, peaks per second, samples of each side. The size of the
recording would not do: its header grows after its sound."""
_NAME = b"CBP2"
_HEAD = 65_536
"""Bytes in which the sound of a WAV file must have begun."""
_PCM, _ULAW = 1, 7
_PIECE_SECONDS = 60
_HEADER_BYTES = 44
_LARGEST = 0xFFFF_FFFF


@dataclass(frozen=True, slots=True)
class StereoFile:
    """A recording on disk, open until `close`; it may still grow. For one thread at a time.

    It is opened once for all that is read of it: where the sound lies in an encrypted recording is
    only known after a look at each of its records, two for a second.
    """

    path: Path
    is_ulaw: bool
    rate: int
    begin: int
    """Position of the first sample in the file."""
    frames: int
    """Samples of each side."""
    content: BinaryIO = field(repr=False)
    vault: Vault = PLAIN

    @classmethod
    def open(cls, path: Path, vault: Vault = PLAIN) -> StereoFile:
        """Open a recording and read its header. Raises `AudioFileError` for anything else, and
        `OSError`."""
        content = vault.open(path)
        try:
            return cls._read(path, content, vault)
        except BaseException:
            content.close()
            raise

    @classmethod
    def _read(cls, path: Path, content: BinaryIO, vault: Vault) -> StereoFile:
        head = content.read(_HEAD)
        size = content.seek(0, 2)
        if head[:4] != b"RIFF" or head[8:12] != b"WAVE":
            raise AudioFileError(f"{path} is not a WAV file")
        at, form = 12, b""
        while at + 8 <= len(head):
            name, length = struct.unpack_from("<4sI", head, at)
            if name == b"fmt ":
                form = head[at + 8 : at + 24]
            if name == b"data" and len(form) == 16:
                code, channels, rate = struct.unpack_from("<HHI", form)
                if channels != 2 or code not in (_PCM, _ULAW) or not 1 <= rate <= 192_000:
                    raise AudioFileError(f"{path} is not a stereo file of 16 bit PCM or u-law")
                frames = min(length, size - at - 8) // (2 if code == _ULAW else 4)
                return cls(path, code == _ULAW, rate, at + 8, frames, content, vault)
            at += 8 + length + length % 2
        raise AudioFileError(f"{path} has no sound")

    def __enter__(self) -> StereoFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file. Idempotent."""
        self.content.close()

    def samples(self, first: int, count: int) -> NDArray[np.int16]:
        """Return samples as an array of (n, 2), n <= `count`: fewer at the end."""
        width = 2 if self.is_ulaw else 4
        count = max(0, min(count, self.frames - first))
        self.content.seek(self.begin + first * width)
        raw = self.content.read(count * width)
        raw = raw[: len(raw) // width * width]
        pcm = ulaw_to_linear(raw) if self.is_ulaw else raw
        return np.frombuffer(pcm, "<i2").reshape(-1, 2)


def read_peaks(recording: Path, from_ms: int, to_ms: int, vault: Vault = PLAIN) -> bytes:
    """Return the peaks of a stretch of a recording, `PEAK_BYTES` each, from the one that `from_ms`
    lies in; fewer at the end. They are made once and kept in a file beside the recording. Raises
    `AudioFileError`, `OSError`."""
    with StereoFile.open(recording, vault) as file:
        peaks = _kept_peaks(file)
        if peaks is None:
            peaks = make_peaks(file)
            _keep(file, peaks)
    first = max(0, from_ms) * PER_SECOND // 1000
    last = -(-max(0, to_ms) * PER_SECOND // 1000)
    return peaks[first * PEAK_BYTES : last * PEAK_BYTES]


def _head(file: StereoFile) -> bytes:
    return _MAGIC.pack(_NAME, PER_SECOND, file.frames)


def _keep(file: StereoFile, peaks: bytes) -> None:
    """Write the peaks beside the recording, unless it was deleted meanwhile. A full disk costs only
    that they are made again."""
    path = file.path.with_suffix(PEAKS)
    try:
        with private_files.alone(path.parent):
            if file.path.exists():
                seal, content = file.vault.seal_of(file.path), _head(file) + peaks
                private_files.replace(path, seal.whole("peaks", content) if seal else content)
    except OSError as error:
        log.warning("peaks_not_kept", path=str(path), error=str(error))


def _kept_peaks(file: StereoFile) -> bytes | None:
    """Return the peaks in the file; None if there are none of this recording as it is now."""
    try:
        content = file.vault.plain(file.path.with_suffix(PEAKS).read_bytes())
    except FileNotFoundError:
        return None
    return content[_MAGIC.size :] if content.startswith(_head(file)) else None


def make_peaks(file: StereoFile) -> bytes:
    """Return all peaks of a recording."""
    pieces = []
    for begin in range(0, file.frames, _PIECE_SECONDS * file.rate):
        samples = file.samples(begin, _PIECE_SECONDS * file.rate)
        if not len(samples):
            break
        count = -(-len(samples) * PER_SECOND // file.rate)
        edges = np.arange(count) * file.rate // PER_SECOND
        least = np.minimum.reduceat(samples, edges)
        most = np.maximum.reduceat(samples, edges)
        pieces.append(np.stack((least, most), axis=2) >> 8)
    return b"".join(piece.astype(np.int8).tobytes() for piece in pieces)


@dataclass(frozen=True, slots=True)
class Playback:
    """A recording, or one side of it, as a PCM file."""

    file: StereoFile
    track: Track = "both"

    @property
    def channels(self) -> int:
        return 2 if self.track == "both" else 1

    @property
    def size(self) -> int:
        """Bytes of the whole PCM file."""
        return _HEADER_BYTES + self.file.frames * 2 * self.channels

    def read(self, begin: int, end: int) -> bytes:
        """Return the bytes from `begin` to before `end`; ask for pieces of some 100 kB."""
        begin, end = max(0, begin), min(end, self.size)
        head = self._header()[begin:end]
        if end <= _HEADER_BYTES or begin >= end:
            return head
        width = 2 * self.channels
        at, until = max(0, begin - _HEADER_BYTES), end - _HEADER_BYTES
        first = at // width
        samples = self.file.samples(first, -(-until // width) - first)
        if self.track != "both":
            samples = samples[:, 0 if self.track == "caller" else 1]
        return head + samples.tobytes()[at - first * width : until - first * width]

    def _header(self) -> bytes:
        width, rate = 2 * self.channels, self.file.rate
        size = min(self.file.frames * width, _LARGEST - 36)
        return struct.pack(
            "<4sI4s4sIHHIIHH4sI",
            b"RIFF", 36 + size, b"WAVE", b"fmt ", 16, _PCM, self.channels, rate, rate * width,
            width, 16, b"data", size,
        )  # fmt: skip


class RangeNotSatisfiable(HistoryError):
    """No byte of a file lies in the requested range; HTTP status 416."""


def parse_range(header: str, size: int) -> tuple[int, int] | None:
    """Return the (begin, end) of the header `Range`, `end` excluded; None to send everything: the
    header is empty, malformed, or has several ranges, which a server may ignore (RFC 9110, 14.2).
    Raises `RangeNotSatisfiable`."""
    found = re.fullmatch(r"bytes=\s*(\d{0,18})-(\d{0,18})\s*", header, re.ASCII)
    if found is None or not (found[1] or found[2]):
        return None
    if not found[1]:
        begin, end = max(0, size - int(found[2])), size
    else:
        begin = int(found[1])
        end = min(size, int(found[2]) + 1) if found[2] else size
        if found[2] and int(found[2]) < begin:
            return None
    if begin >= end:
        raise RangeNotSatisfiable(f"expected a range within {size} bytes, found {header!r}")
    return begin, end
