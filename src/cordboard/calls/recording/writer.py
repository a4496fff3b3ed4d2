"""The thread that writes all recordings: stereo WAV files that are valid at every moment.

The event loop hands over about a second of both directions at a time (`write`); this thread
interleaves them in the file's encoding, appends them and rewrites the header. A killed program
leaves a playable file, without the sound that was still in memory.

A full or slow disk never blocks the loop: at most `MOST_WAITING` bytes wait for the disk; further
sound is dropped and counted, and so is sound that cannot be written. Missing sound is replaced by
silence as soon as writing works again, so that both channels stay on the clock of the call.
Recordings have a thread of their own: ledgers never wait for them.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

import numpy as np
import structlog

from cordboard import private_files
from cordboard.audio.format import AudioFormat
from cordboard.audio.g711 import alaw_to_linear, linear_to_ulaw, ulaw_to_linear
from cordboard.audio.wav import LARGEST, WavHeader
from cordboard.privacy.sealed_file import PLAIN, CallSeal, Seal, Vault

log = structlog.get_logger()

MOST_WAITING = 32_000_000
"""Bytes of sound of all calls that may wait for the disk: a hundred calls for ten seconds."""
KIND = "recording"
"""Kind of an encrypted recording."""
FILL_FRAMES = 65_536
"""Samples per piece of silence that replaces missing sound."""


class RecordingFile:
    """One recording. Only the writer's thread accesses the private attributes."""

    def __init__(
        self,
        path: Path,
        header: WavHeader,
        source: AudioFormat,
        seal: CallSeal | None = None,
        vault: Vault = PLAIN,
    ) -> None:
        """`source` is the format of both channels in `RecordingWriter.write`. With `seal` the file
        is encrypted; `vault` keeps its key."""
        self._call_seal = seal
        self._vault = vault
        self._seal: Seal | None = None
        self._end = 0
        """Bytes of the encrypted file."""
        self.path = path
        self.header = header
        self.source = source
        self.dropped = 0
        """Samples (of each channel) that could not be written in time so far."""
        self._descriptor: int | None = None
        self._frames = 0
        self._missing = 0

    def append(self, left: bytes, right: bytes) -> None:
        """Write both channels, after silence for the sound missing before them."""
        samples = len(left) // self.source.bytes_per_sample
        self._missing += samples  # until it is written
        if self._descriptor is None:
            self._create()
        while self._missing > samples:
            piece = min(self._missing - samples, FILL_FRAMES)
            self._put(self.header.silence * piece, piece)
        self._put(_side_by_side(left, right, self.source, self.header), samples)

    def skip(self, samples: int) -> None:
        """Note that `samples` samples are missing here."""
        self._missing += samples

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _create(self) -> None:
        if self._call_seal is None:
            self._descriptor = private_files.create(self.path)
            return
        self._vault.keep(self._call_seal)
        begin, seal = self._call_seal.begin(KIND, self.header.comment)
        descriptor = private_files.create(self.path)
        try:
            _write_all(descriptor, begin, 0)
        except OSError:
            os.close(descriptor)
            self.path.unlink()
            raise
        self._descriptor, self._seal, self._end = descriptor, seal, len(begin)

    def _write(self, content: bytes, at: int) -> None:
        """Write at a place of the plain file."""
        assert self._descriptor is not None  # noqa: S101 - opened by `append`
        if self._seal is None:
            _write_all(self._descriptor, content, at)
            return
        record = self._seal.record(at, content)
        try:
            _write_all(self._descriptor, record, self._end)
        except OSError:
            os.ftruncate(self._descriptor, self._end)
            raise
        self._end += len(record)

    def _put(self, frames: bytes, count: int) -> None:
        size = self._frames * self.header.frame_bytes
        if size + len(frames) > LARGEST:
            raise OSError(f"{self.path.name} has reached the largest size of a WAV file")
        self._write(frames, len(self.header.encode(0)) + size)
        self._frames += count
        self._missing -= count
        self._write(self.header.encode(self._frames), 0)


def _write_all(descriptor: int, content: bytes, at: int) -> None:
    written = 0
    while written < len(content):
        written += os.pwrite(descriptor, content[written:], at + written)


@dataclass(frozen=True, slots=True)
class _Sound:
    file: RecordingFile
    left: bytes
    right: bytes

    @property
    def samples(self) -> int:
        return len(self.left) // self.file.source.bytes_per_sample


@dataclass(frozen=True, slots=True)
class _Gap:
    file: RecordingFile
    samples: int


@dataclass(frozen=True, slots=True)
class _End:
    file: RecordingFile


class RecordingWriter:
    """The thread. One per process; it starts with the first recording. `close` at the end."""

    def __init__(
        self, on_dropped: Callable[[float], None] = lambda _: None, vault: Vault = PLAIN
    ) -> None:
        """`on_dropped(seconds)` is called for lost sound of a call; from any thread. `vault` keeps
        the keys of encrypted recordings."""
        self.vault = vault
        self._on_dropped = on_dropped
        self._jobs: SimpleQueue[_Sound | _Gap | _End | threading.Event | None] = SimpleQueue()
        self._waiting = 0
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._open: set[RecordingFile] = set()
        self.trouble = ""
        """Reason why recordings cannot be written now; empty if the last write succeeded."""

    def write(self, file: RecordingFile, left: bytes, right: bytes) -> None:
        """Append the same stretch of time of both channels, of equal length. Returns at once."""
        self._start()
        sound = _Sound(file, left, right)
        size = 2 * len(left)
        with self._lock:
            crowded = self._waiting + size > MOST_WAITING
            if not crowded:
                self._waiting += size
        if crowded:
            self._lost(file, sound.samples)
            self._jobs.put(_Gap(file, sound.samples))
        else:
            self._jobs.put(sound)

    def finish(self, file: RecordingFile) -> None:
        """Close this file once its sound is written; no further sound follows."""
        self._start()
        self._jobs.put(_End(file))

    def flush(self) -> None:
        """Wait until all sound so far is written. Blocks: do not call it on the event loop."""
        if self._thread is not None and self._thread.is_alive():
            written = threading.Event()
            self._jobs.put(written)
            written.wait()

    def close(self) -> None:
        """Write all waiting sound and stop. Blocks meanwhile; idempotent."""
        if self._thread is not None:
            self._jobs.put(None)
            self._thread.join()

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._work, name="cordboard-recordings", daemon=True
            )
            self._thread.start()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            if isinstance(job, threading.Event):
                job.set()
                continue
            if isinstance(job, _Sound):
                with self._lock:
                    self._waiting -= 2 * len(job.left)
            try:
                self._do(job)
            except Exception as error:  # noqa: BLE001 - thread border: others continue
                self._failed(job, error)
        for file in self._open:
            file.close()

    def _do(self, job: _Sound | _Gap | _End) -> None:
        if isinstance(job, _Sound):
            self._open.add(job.file)
            job.file.append(job.left, job.right)
            self.trouble = ""
        elif isinstance(job, _Gap):
            job.file.skip(job.samples)
        else:
            self._open.discard(job.file)
            job.file.close()

    def _failed(self, job: _Sound | _Gap | _End, error: Exception) -> None:
        """Log the first failure only, not every second of every call until it is repaired."""
        if not self.trouble:
            ours = None if isinstance(error, OSError) else error
            path = str(job.file.path)
            log.error("recording_write_failed", path=path, error=str(error), exc_info=ours)
        self.trouble = f"recordings cannot be written: {error}"
        if isinstance(job, _Sound):
            self._lost(job.file, job.samples)

    def _lost(self, file: RecordingFile, samples: int) -> None:
        with self._lock:
            file.dropped += samples
        self._on_dropped(samples / file.source.rate)


def _side_by_side(left: bytes, right: bytes, source: AudioFormat, header: WavHeader) -> bytes:
    """Interleave both channels as frames in the file's encoding."""
    kind = "<i2" if header.encoding == "slin" else "u1"
    frames = np.empty((len(left) // source.bytes_per_sample, 2), kind)
    for side, sound in enumerate((left, right)):
        frames[:, side] = np.frombuffer(_encoded(sound, source, header), kind)
    return frames.tobytes()


def _encoded(sound: bytes, source: AudioFormat, header: WavHeader) -> bytes:
    if source.encoding == header.encoding:
        return sound
    if source.encoding == "ulaw":
        return ulaw_to_linear(sound)
    linear = alaw_to_linear(sound) if source.encoding == "alaw" else sound
    return linear if header.encoding == "slin" else linear_to_ulaw(linear)
