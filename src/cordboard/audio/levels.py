"""The loudness of s16 audio: RMS, peak, an envelope over time; and where speech becomes audible.

The engine's ledger and the telephones that verify it both use `first_audible` and `last_audible` to
decide when speech began and ended.

Levels are in dBFS: 0 is a full-scale square wave, a full-scale sine has an RMS of -3.0. Digital
silence is ``SILENCE_DBFS`` instead of minus infinity, so that it can be compared, averaged and
printed.
"""

from __future__ import annotations

from math import log10

import numpy as np
from numpy.typing import NDArray

SILENCE_DBFS = -100.0
"""Floor of every level here; one s16 step is already -90.3."""


AUDIBLE_DBFS = -45.0
"""Level of 5 ms from which sound on a telephone line counts as audible."""
FADED_DB = 30.0
"""Decibels below the loudest part of an utterance at which it has faded: breath, echo, noise."""
OVER_NOISE_DB = 8.0
"""Decibels above the noise of a noisy line from which sound counts as audible."""
_PAUSE_MS = 60
_STRETCH_MS = 5
"""Milliseconds over which a level is measured; its beginning counts to the millisecond."""


def first_audible(samples: NDArray[np.int16], rate: int) -> int | None:
    """Return the index of the first audible sample; None if there is none.

    The level is fixed, so that the result does not depend on later samples: the beginning of speech
    that is still being generated is the same as in the complete speech.
    """
    parts = _power_by_ms(samples, rate)
    level = _power(AUDIBLE_DBFS)
    loud = np.flatnonzero(_stretches(parts) >= level)
    if not len(loud):
        return None
    within = parts[loud[0] : loud[0] + _STRETCH_MS] >= level
    return (int(loud[0]) + int(np.argmax(within))) * (rate // 1000)


def last_audible(samples: NDArray[np.int16], rate: int, noise: float = 0.0) -> int | None:
    """Return the index after the last audible sample; None if there is none.

    Sound `FADED_DB` below the loudest part does not count, and neither does sound less than
    `OVER_NOISE_DB` above the noise of the line (`noise`: its mean square, if known): neither a
    breath nor a noisy line prolongs an utterance. Two observers of the same utterance find the same
    sample, regardless of their frame boundaries.
    """
    parts = _power_by_ms(samples, rate)
    power = _stretches(parts)
    if not len(power):
        return None
    faded = float(power.max()) * 10 ** (-FADED_DB / 10)
    level = max(_power(AUDIBLE_DBFS), faded, noise * 10 ** (OVER_NOISE_DB / 10))
    loud = np.flatnonzero(power >= level)
    if not len(loud):
        return None
    within = np.flatnonzero(parts[loud[-1] : loud[-1] + _STRETCH_MS] >= level)
    return (int(loud[-1]) + int(within[-1]) + 1) * (rate // 1000)


def speech_onset(samples: NDArray[np.int16], rate: int, noise: float = 0.0) -> int | None:
    """Return where the speech that reaches the end of `samples` became audible; None if nowhere.

    A voice detector is certain of speech some windows after its first soft sound. Backwards from
    there, a pause of 60 ms separates the speech from earlier sound; `noise` as in `last_audible`.
    """
    parts = _power_by_ms(samples, rate)
    level = max(_power(AUDIBLE_DBFS), noise * 10 ** (OVER_NOISE_DB / 10))
    loud = np.flatnonzero(_stretches(parts) >= level)
    if not len(loud):
        return None
    pauses = np.flatnonzero(np.diff(loud) > _PAUSE_MS)
    begin = int(loud[pauses[-1] + 1] if len(pauses) else loud[0])
    within = parts[begin : begin + _STRETCH_MS] >= level
    return (begin + int(np.argmax(within))) * (rate // 1000)


def _power_by_ms(samples: NDArray[np.int16], rate: int) -> NDArray[np.float32]:
    """Return the mean square of each whole millisecond."""
    size = rate // 1000
    parts = samples[: len(samples) // size * size].reshape(-1, size).astype(np.float32)
    power: NDArray[np.float32] = np.einsum("ij,ij->i", parts, parts) / np.float32(size)
    return power


def _stretches(power: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the mean square of the stretch that begins at each millisecond."""
    if len(power) < _STRETCH_MS:
        return np.zeros(0, np.float32)
    sums = np.cumsum(np.concatenate((np.zeros(1), power)), dtype=np.float64)
    means = (sums[_STRETCH_MS:] - sums[:-_STRETCH_MS]) / _STRETCH_MS
    return means.astype(np.float32)


def _power(dbfs: float) -> float:
    return float(32768.0**2 * 10 ** (dbfs / 10))


def rms_dbfs(pcm: bytes) -> float:
    """Return the root mean square level of all samples."""
    samples = np.frombuffer(pcm, "<i2").astype(np.float64)
    if not len(samples):
        return SILENCE_DBFS
    return _dbfs(float(np.sqrt(np.mean(samples * samples))))


def peak_dbfs(pcm: bytes) -> float:
    """Return the level of the largest sample."""
    samples = np.frombuffer(pcm, "<i2").astype(np.int32)
    return _dbfs(float(np.abs(samples).max())) if len(samples) else SILENCE_DBFS


def energy_envelope(pcm: bytes, rate: int, window_ms: int = 20) -> NDArray[np.float32]:
    """Return the RMS level in dBFS of each window of ``window_ms``; the last may be shorter."""
    samples = np.frombuffer(pcm, "<i2").astype(np.float32)
    size = max(1, rate * window_ms // 1000)
    windows = -(-len(samples) // size)
    padded = np.zeros(windows * size, np.float32)
    padded[: len(samples)] = samples
    sums = np.sum(np.square(padded).reshape(windows, size), axis=1)
    counts = np.full(windows, size, np.float32)
    if len(samples) % size:
        counts[-1] = len(samples) % size
    power = sums / counts / np.float32(32768.0**2)
    levels: NDArray[np.float32] = 10 * np.log10(np.maximum(power, 10 ** (SILENCE_DBFS / 10)))
    return levels.astype(np.float32)


def speech_rms_dbfs(pcm: bytes, rate: int) -> float:
    """Return the RMS level of the parts with speech: windows within 20 dB of the loudest one.

    Pauses do not count, so a sentence with long pauses measures as loud as it sounds.
    """
    levels = energy_envelope(pcm, rate)
    if not len(levels):
        return SILENCE_DBFS
    loud = levels[levels >= levels.max() - 20].astype(np.float64)
    return max(SILENCE_DBFS, 10 * log10(float(np.mean(10 ** (loud / 10)))))


def _dbfs(amplitude: float) -> float:
    return max(SILENCE_DBFS, 20 * log10(amplitude / 32768)) if amplitude > 0 else SILENCE_DBFS
