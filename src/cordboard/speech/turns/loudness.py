"""The end of the caller's audible speech, from the sound itself instead of the voice detector.

The detector notices silence 138 ms late (median, measured). A block of 8 ms counts as heard by the
rule of `cordboard.audio.levels.last_audible`: above a fixed level, and not faded far below the
loudest of the utterance. In addition, on a line with noise, it must stand out from the noise that
was there during silence. A window of 32 ms costs a few microseconds.
"""

from __future__ import annotations

import numpy as np

from cordboard.audio.levels import AUDIBLE_DBFS, FADED_DB

BLOCK_SAMPLES = 64
_AUDIBLE = BLOCK_SAMPLES * 32768.0**2 * 10 ** (AUDIBLE_DBFS / 10)
_FADED = 10 ** (-FADED_DB / 10)
_OVER_NOISE = 10 ** (8 / 10)
_FORGET_PEAK = 0.98
"""Factor per window: 2.7 dB a second, so that one shout does not hide the sound after it."""
_NOISE_FALL = 0.2
_NOISE_RISE = 10 ** (0.5 / 10)
"""Factor per window: 16 dB a second. The first windows of a soft word, which the detector takes for
silence, must not pass for the noise of the line (a whole word was then not heard, measured)."""
_LEAST_NOISE = BLOCK_SAMPLES * 32768.0**2 * 10 ** (-75 / 10)


class Loudness:
    """Follows one caller's sound, window by window."""

    __slots__ = ("_noise", "_peak", "heard_until")

    def __init__(self) -> None:
        self._peak = 0.0
        self._noise = 0.0
        self.heard_until = 0
        """Sample after the last audible block."""

    @property
    def noise(self) -> float:
        """Mean square of the line's noise during silence."""
        return self._noise / BLOCK_SAMPLES

    def take(self, window: bytes, start: int, *, silent: bool) -> None:
        """Take the s16 samples from `start` on; `silent`: the detector is sure that there is no
        voice."""
        samples = np.frombuffer(window, "<i2").astype(np.float32).reshape(-1, BLOCK_SAMPLES)
        energies: list[float] = np.einsum("ij,ij->i", samples, samples).tolist()
        if silent:
            mean = sum(energies) / len(energies)
            if mean < self._noise:
                self._noise += _NOISE_FALL * (mean - self._noise)
            else:
                self._noise = min(mean, max(self._noise, _LEAST_NOISE) * _NOISE_RISE)
        self._peak = max(self._peak * _FORGET_PEAK, *energies)
        level = max(_AUDIBLE, self._peak * _FADED, self._noise * _OVER_NOISE)
        for place in range(len(energies) - 1, -1, -1):
            if energies[place] >= level:
                self.heard_until = start + (place + 1) * BLOCK_SAMPLES
                return
