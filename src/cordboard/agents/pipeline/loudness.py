"""Until when could the caller be heard? From the sound itself, not the voice detector's opinion.

The detector notices silence 138 ms late (median, measured). A block of 8 ms counts as heard by the
rule of `cordboard.audio.levels.last_audible`: above a fixed level, and not faded far below the
loudest of the utterance. In addition, on a line with noise, it must stand out from the noise that
was there while nobody spoke. A window of 32 ms costs a few microseconds.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from cordboard.audio.levels import AUDIBLE_DBFS, FADED_DB

BLOCK_SAMPLES = 64
_AUDIBLE = BLOCK_SAMPLES * 32768.0**2 * 10 ** (AUDIBLE_DBFS / 10)
_FADED = 10 ** (-FADED_DB / 10)
_OVER_NOISE = 10 ** (8 / 10)
_FORGET_PEAK = 0.98
"""For each window: 2.7 dB a second, so that one shout does not hide what follows it."""
_NOISE_FALL = 0.2
_NOISE_RISE = 10 ** (0.5 / 10)
"""For each window: 16 dB a second. The first windows of a soft word, which the detector takes for
silence, must not pass for the noise of the line (a whole word was then not heard, measured)."""
_LOUDEST_OF = 12
"""Windows, 0.4 s: as old as a voice over the agent's is when it is decided what it is."""
_AS_LOUD = 10 ** (-1.5 / 10)
_LEAST_NOISE = BLOCK_SAMPLES * 32768.0**2 * 10 ** (-75 / 10)


class Loudness:
    """Follows one caller's sound, window by window."""

    __slots__ = ("_noise", "_peak", "_recent", "heard_until")

    def __init__(self) -> None:
        self._peak = 0.0
        self._noise = 0.0
        self._recent: deque[tuple[float, int]] = deque(maxlen=_LOUDEST_OF)
        self.heard_until = 0
        """Sample after the last block that could be heard."""

    @property
    def noise(self) -> float:
        """Mean square of the line's noise while nobody speaks."""
        return self._noise / BLOCK_SAMPLES

    @property
    def loudest_until(self) -> int:
        """Sample after the loudest window of the last 0.4 s; the newest of several as loud."""
        enough = max((energy for energy, _ in self._recent), default=0.0) * _AS_LOUD
        return max((end for energy, end in self._recent if energy >= enough), default=0)

    def take(self, window: bytes, start: int, *, silent: bool) -> None:
        """Take the s16 samples from `start` on; `silent`: the detector is sure nobody speaks."""
        samples = np.frombuffer(window, "<i2").astype(np.float32).reshape(-1, BLOCK_SAMPLES)
        energies: list[float] = np.einsum("ij,ij->i", samples, samples).tolist()
        if silent:
            mean = sum(energies) / len(energies)
            if mean < self._noise:
                self._noise += _NOISE_FALL * (mean - self._noise)
            else:
                self._noise = min(mean, max(self._noise, _LEAST_NOISE) * _NOISE_RISE)
        self._recent.append((sum(energies), start + len(samples) * BLOCK_SAMPLES))
        self._peak = max(self._peak * _FORGET_PEAK, *energies)
        level = max(_AUDIBLE, self._peak * _FADED, self._noise * _OVER_NOISE)
        for place in range(len(energies) - 1, -1, -1):
            if energies[place] >= level:
                self.heard_until = start + (place + 1) * BLOCK_SAMPLES
                return
