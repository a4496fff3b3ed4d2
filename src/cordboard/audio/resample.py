"""Changes the sample rate with our own windowed-sinc filters, for streams and whole clips.

``resample(samples, 24000, 8000)`` converts a whole clip and keeps its timing: an event at second 1
stays at second 1, and the length is exact. ``Resampler`` does the same for a stream, piece by
piece; its output is delayed by the filter's look-ahead (3 ms at 24 to 8 kHz).

Filters are Kaiser windowed, flat to 85 % of the lower of the two Nyquist frequencies (3.4 kHz,
the telephone band, for 8 kHz) and down by more than 60 dB where aliases or images would begin.
Samples are float32; scale does not matter.
"""

from __future__ import annotations

from functools import lru_cache
from math import ceil, gcd, pi

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

_STOP_DB = 66.0
_PASS = 0.425
"""End of the flat band as a fraction of the lower sample rate."""
_CONVOLVE_LIMIT = 6
"""Up to this decimation, a few long convolutions are faster than many short dot products."""


@lru_cache(maxsize=16)
def _kernel(up: int, down: int, lower_rate: float) -> Floats:
    """Return the low-pass filter at the common rate, to which ``lower_rate`` is relative."""
    stop = 0.5 if down > up else 1 - _PASS
    width = (stop - _PASS) * lower_rate
    half = ceil((_STOP_DB - 8) / (2.285 * 2 * pi * width) / 2)
    at = np.arange(-half, half + 1)
    cutoff = (stop + _PASS) * lower_rate
    taps = cutoff * np.sinc(cutoff * at) * np.kaiser(2 * half + 1, 0.1102 * (_STOP_DB - 8.7))
    kernel: Floats = (taps * (up / taps.sum())).astype(np.float32)
    kernel.flags.writeable = False
    return kernel


class Resampler:
    """Converts one stream from ``source_rate`` to ``target_rate`` (any two positive integers)."""

    def __init__(self, source_rate: int, target_rate: int) -> None:
        if source_rate <= 0 or target_rate <= 0:
            raise ValueError("sample rates must be positive")
        common = gcd(source_rate, target_rate)
        self._up = target_rate // common
        self._down = source_rate // common
        lower = min(source_rate, target_rate) / (source_rate * self._up)
        kernel = _kernel(self._up, self._down, lower)
        self._centre = len(kernel) // 2
        self._phases = [kernel[phase :: self._up] for phase in range(self._up)]
        self._reach = len(self._phases[0])
        self._start()

    def _start(self) -> None:
        self._buffer: Floats = np.zeros(self._reach, np.float32)
        self._next = self._reach * self._up + self._centre
        self._taken = 0
        self._given = 0

    @property
    def lookahead(self) -> int:
        """Source samples that the filter looks ahead. After as many samples of silence, each piece
        gives output of exactly its own duration."""
        return max(0, ceil((self._centre + 1 - self._down) / self._up))

    def process(self, samples: Floats) -> Floats:
        """Process the next piece; return all output that is final (may be empty)."""
        self._taken += len(samples)
        return self._advance(samples)

    def flush(self) -> Floats:
        """Return the rest of the stream and reset the resampler."""
        due = ceil(self._taken * self._up / self._down) - self._given
        tail = self._advance(np.zeros(self._centre // self._up + 1, np.float32))[:due]
        self._start()
        return tail

    def _advance(self, samples: Floats) -> Floats:
        self._buffer = np.concatenate((self._buffer, samples))
        count = max(0, (len(self._buffer) * self._up - 1 - self._next) // self._down + 1)
        output = np.empty(count, np.float32)
        for first in range(min(self._up, count)):
            position, phase = divmod(self._next + first * self._down, self._up)
            rows = (count - first - 1) // self._up + 1
            output[first :: self._up] = self._filter(self._phases[phase], position, rows)
        self._next += count * self._down
        self._given += count
        spare = self._next // self._up - self._reach
        if spare > 0:
            self._buffer = self._buffer[spare:]
            self._next -= spare * self._up
        return output

    def _filter(self, taps: Floats, position: int, rows: int) -> Floats:
        """Return ``rows`` outputs of one phase, the first one ending at input ``position``."""
        step, length = self._down, len(taps)
        segment = self._buffer[position - length + 1 : position + (rows - 1) * step + 1]
        output: Floats
        if step > _CONVOLVE_LIMIT:
            windows = np.lib.stride_tricks.sliding_window_view(segment, length)[::step]
            output = windows @ taps[::-1]
            return output
        output = np.zeros(rows, np.float32)
        for offset in range(min(step, length)):
            part = taps[offset::step]
            begin = length - 1 - offset - (len(part) - 1) * step
            output += np.convolve(segment[begin::step][: rows + len(part) - 1], part, "valid")
        return output


def resample(samples: Floats, source_rate: int, target_rate: int) -> Floats:
    """Convert a whole clip to ``target_rate``; returns ``ceil(len * target / source)`` samples."""
    if source_rate == target_rate or not len(samples):
        return samples.astype(np.float32, copy=False)
    resampler = Resampler(source_rate, target_rate)
    return np.concatenate((resampler.process(samples), resampler.flush()))


def to_floats(pcm: bytes) -> Floats:
    """Convert s16 bytes to float32 in -1..1."""
    return np.frombuffer(pcm, "<i2").astype(np.float32) * np.float32(1 / 32768)


def to_pcm(samples: Floats) -> bytes:
    """Convert float32 in -1..1 to s16 bytes, clipped and rounded."""
    return np.clip(np.rint(samples * 32768), -32768, 32767).astype("<i2").tobytes()


def resample_pcm(pcm: bytes, source_rate: int, target_rate: int) -> bytes:
    """Apply ``resample`` to s16 bytes."""
    if source_rate == target_rate:
        return pcm
    return to_pcm(resample(to_floats(pcm), source_rate, target_rate))
