"""Follows steady tones in telephone sound: one line of the spectrum, or two.

Each 20 ms frame is analysed over 40 ms (itself and the one before), and only where there is energy.
Two lines nearer than 80 Hz, as of the American ringback (440 and 480 Hz), count as one between
them. A vowel is not a tone: its frequency or its level moves within a few frames.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FRAME_SECONDS = 0.02
RATE = 8000
_FRAME = 160
_SIZE = 1024
_HZ = RATE / _SIZE
_LOWEST = int(200 / _HZ)
"""First bin that counts: hum and the fundamental of low voices are below it."""
_LOBE = 11
"""Half width in bins (86 Hz) of a line under the window, or of two that it does not part."""
_SHARE = 0.93
"""Least share of the energy that a tone's lines have. Speech seldom reaches it for 0.1 s."""
_AUDIBLE = 150.0
"""RMS in s16 steps (-47 dBFS) below which no tone is looked for."""
_DRIFT_HZ = 20.0
_DRIFT = 2.5
"""Ratio of powers (4 dB) by which a tone's level may differ from its own mean."""
_SHORTEST = 4
"""Frames from which a run is a tone."""

Samples = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Tone:
    """A steady tone that has ended. Times are seconds since the first frame."""

    begin: float
    end: float
    low: float
    """Frequency in hertz of the only line, or of the lower one."""
    high: float = 0.0
    """Frequency of the upper line; 0 if there is one line."""

    @property
    def seconds(self) -> float:
        return self.end - self.begin


@dataclass(slots=True)
class _Run:
    """A tone that may still be sounding."""

    first: int
    last: int
    low: float
    high: float
    power: float
    frames: int = 1


class ToneTracker:
    """Finds the tones of one call. Call `hear` for each 20 ms frame, in order."""

    def __init__(self) -> None:
        self._number = -1
        self._sound: Samples = np.zeros(2 * _FRAME, np.float32)
        self._window: Samples = np.hanning(2 * _FRAME).astype(np.float32)
        self._bins = np.arange(_SIZE // 2 + 1, dtype=np.float32)
        self._run: _Run | None = None

    @property
    def now(self) -> Tone | None:
        """The tone that is sounding, as far as it is known; None without one."""
        run = self._run
        return self._tone(run) if run is not None and run.frames >= _SHORTEST else None

    def hear(self, frame: Samples, rms: float) -> Tone | None:
        """Take 160 samples at 8 kHz and their RMS; return the tone that has ended with them."""
        self._number += 1
        self._sound[:_FRAME] = self._sound[_FRAME:]
        self._sound[_FRAME:] = frame
        lines = self._lines() if rms > _AUDIBLE else None
        run = self._run
        if run is not None and lines is not None and _goes_on(run, *lines):
            low, high, power = lines
            run.frames += 1
            run.last = self._number
            run.low += (low - run.low) / run.frames
            run.high += (high - run.high) / run.frames
            run.power += (power - run.power) / run.frames
            return None
        ended = None
        if run is not None and (lines is not None or self._number - run.last > 1):
            ended = self._tone(run) if run.frames >= _SHORTEST else None
            self._run = run = None
        if run is None and lines is not None:
            low, high, power = lines
            self._run = _Run(self._number, self._number, low, high, power)
        return ended

    def _tone(self, run: _Run) -> Tone:
        # A window of two frames sees a tone one frame before it fills them, and half a frame after.
        begin = max(0.0, (run.first - 0.5) * FRAME_SECONDS)
        return Tone(begin, (run.last + 0.5) * FRAME_SECONDS, run.low, run.high)

    def _lines(self) -> tuple[float, float, float] | None:
        """Return the frequencies of one line (and 0) or two, and their power; None if the energy is
        elsewhere."""
        spectrum = np.fft.rfft(self._sound * self._window, _SIZE)
        power = np.square(spectrum.real) + np.square(spectrum.imag)
        power[:_LOWEST] *= 0.2
        total = float(power.sum())
        first, energy = self._line(power)
        if energy > _SHARE * total:
            return first, 0.0, energy
        if energy < 0.4 * total:
            return None
        second, rest = self._line(power)
        if rest < 0.1 * energy or energy + rest < _SHARE * total or abs(first - second) < 80:
            return None
        return min(first, second), max(first, second), energy + rest

    def _line(self, power: NDArray[np.float64]) -> tuple[float, float]:
        """Return frequency and energy of the strongest line, and take it out of `power`."""
        peak = int(power.argmax())
        begin = max(0, peak - _LOBE)
        around = power[begin : peak + _LOBE + 1]
        energy = float(around.sum())
        bins = self._bins[begin : peak + _LOBE + 1]
        frequency = float(around @ bins) / max(energy, 1e-9) * _HZ
        around[:] = 0
        return frequency, energy


def _goes_on(run: _Run, low: float, high: float, power: float) -> bool:
    """True if these lines continue the run: the same lines, as loud."""
    if (high > 0) is not (run.high > 0):
        return False
    if abs(low - run.low) > _DRIFT_HZ or abs(high - run.high) > _DRIFT_HZ:
        return False
    # The first windows of a tone hold only a part of it.
    return run.frames < 3 or run.power / _DRIFT < power < run.power * _DRIFT
