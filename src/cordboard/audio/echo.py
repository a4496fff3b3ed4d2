"""Detects whether the sound from the caller's line is only the engine's own voice coming back.

A telephone line returns part of what is played to it: the hybrid of an analogue phone, a hands-free
set, a poor gateway. For voice activity detection this echo is a person speaking over the agent.
``EchoGuard`` remembers the last second of both directions and computes on request which share of
the heard sound is a linear echo of the sent sound. It cancels nothing and adapts to nothing, so it
neither needs to converge nor can diverge; between requests it costs two copies of a frame.

Method: the delay is found by cross-correlation of the last ``_FIT_MS`` of heard sound with
everything sent in the last second, both slightly whitened. Then a filter of ``_TAPS`` samples
around the delay is fitted by least squares over that stretch; the result is the share that the
filter explains of the last ``ms``. The fitted stretch is longer than the judged one because a
filter fitted to 200 ms alone explains up to 0.6 of *any* speech. The quarters of the stretch have
equal weight, so that a caller who has just begun, and is louder than the echo, does not dominate
the fit. A request takes about 2.6 ms of processor time; it is made only while a voice is heard over
the agent's, on a ``snapshot`` in another thread.

Measured on recorded human prompts (u-law, a telephone's band and reflections, delays of 20 to 500
ms, noise at -70 dBFS; tests/audio/test_echo.py checks the same): of an echo of -6 to -30 dB, the
median share explained is 0.95 or more, and 1 of 100 is below 0.8. Of a person who speaks over an
echo or without one, for 100 ms or longer by then, the median is 0.03 to 0.08, and 95 of 100 are at
most 0.35 (with the same voice on both sides, the hardest case). A threshold of 0.7 separates them.
After a loss of sound on the way, the share is too low for 400 ms.

One instance per call, used from one thread, except for a ``snapshot``. Both directions must be fed
steadily, one frame per 20 ms, including silence: the newest samples of both count as simultaneous
(within a few frames).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import log10

import numpy as np
from numpy.typing import NDArray

from cordboard.audio.levels import SILENCE_DBFS

Floats = NDArray[np.float32]

_FLOOR_MS = 3_000
"""Milliseconds of heard sound whose quietest tenth gives the line's own noise level: an echo has
gaps between words, noise has none."""
_ABOVE_NOISE = 2.0
"""Sound below this multiple of the noise's power counts as noise: neither echo nor voice."""
LONGEST_DELAY_MS = 600
"""Longest echo delay that is searched."""
_FIT_MS = 400
_TAPS_BEFORE = 24
_TAPS = 128
"""The fitted filter, in samples at 8 kHz: 3 ms before the peak and 13 ms after it."""
_EMPHASIS = np.float32(0.9)
"""Pre-emphasis for finding the delay and fitting the filter."""
_JUDGED_EMPHASIS = np.float32(0.5)
"""Pre-emphasis for the share: without any, one steady vowel decides; with 0.9, line noise."""
_LOUDEST_RETURN = 1.0
"""Maximum power of an echo relative to its source: a stronger fit is a coincidence."""
_BLOCKS = 4
"""Number of parts of the fitted stretch that have equal weight."""
_QUIET_PART = 0.005
"""Share of the loudest part's power added to each part's power before the parts are weighted."""
_RIDGE = 1e-3
"""Regularisation, relative to the mean power of the sent sound."""
_SENT_FLOOR = 20.0
"""RMS in s16 steps below which the sent sound cannot cause an echo."""
_HEARD_FLOOR = 4.0
"""RMS in s16 steps below which the heard sound counts as silence: the last u-law step is 8."""


@dataclass(frozen=True, slots=True)
class EchoVerdict:
    """Result of ``EchoGuard.judge`` for the last stretch of heard sound."""

    explained: float
    """Share of its energy, 0..1, that is an echo of the sent sound."""
    heard_dbfs: float
    """Level of the heard sound."""
    beyond_dbfs: float
    """Level of the rest after the echo is removed."""
    delay_ms: float
    """Delay of the echo, if there is one."""
    stands_out: bool = True
    """True if the sound is louder than the constant noise of the line."""


class _Ring:
    """The last ``size`` bytes written, readable in one piece."""

    __slots__ = ("_at", "_bytes", "_size")

    def __init__(self, size: int) -> None:
        self._bytes = bytearray(size)
        self._size = size
        self._at = 0

    def write(self, pcm: bytes) -> None:
        at, count = self._at, len(pcm)
        end = at + count
        if end <= self._size:
            self._bytes[at:end] = pcm
            self._at = end
            return
        pcm = pcm[-self._size :]
        split = self._size - at
        self._bytes[at:] = pcm[:split]
        self._at = len(pcm) - split
        self._bytes[: self._at] = pcm[split:]

    def last(self, samples: int) -> Floats:
        """Return the newest ``samples`` samples, oldest first."""
        whole = bytes(self._bytes[self._at :] + self._bytes[: self._at])
        return np.frombuffer(whole[len(whole) - 2 * samples :], "<i2").astype(np.float32)


class EchoGuard:
    """The two directions of one call. See the module's docstring."""

    def __init__(self, rate: int = 8000) -> None:
        self._rate = rate
        self._fit = rate * _FIT_MS // 1000
        self._before = _TAPS_BEFORE * rate // 8000
        self._taps = _TAPS * rate // 8000
        self._span = self._fit + rate * LONGEST_DELAY_MS // 1000 + self._taps
        self._transform = 1 << (self._span - 1).bit_length()
        self._heard = _Ring(2 * rate * _FLOOR_MS // 1000)
        self._listened = 0
        """Number of samples heard since the beginning, up to the size of the ring."""
        self._sent = _Ring(2 * self._span)

    def sent(self, pcm: bytes) -> None:
        """Add a frame sent to the caller (s16), including silence."""
        self._sent.write(pcm)

    def heard(self, pcm: bytes) -> None:
        """Add a frame that came from the caller (s16)."""
        self._heard.write(pcm)
        self._listened = min(self._listened + len(pcm) // 2, self._rate * _FLOOR_MS // 1000)

    def explained(self, ms: int = 200) -> float:
        """Return the share, 0..1, of the energy of the last ``ms`` (at most 400) of heard sound
        that an echo of the sent sound explains. Heard silence gives 1; if nothing was sent, 0."""
        return self.judge(ms).explained

    def judge(self, ms: int = 200) -> EchoVerdict:
        """Return the share of ``explained`` together with levels and delay."""
        return self.snapshot()(ms)

    def snapshot(self) -> Callable[[int], EchoVerdict]:
        """Return ``judge`` bound to the present sound; call it once, later, in any thread."""
        listened = max(self._listened, self._fit)
        return partial(self._judge, self._heard.last(listened), self._sent.last(self._span))

    def _judge(self, listened: Floats, sent: Floats, ms: int) -> EchoVerdict:
        heard = listened[-self._fit :]
        judged = heard[-min(self._fit, self._rate * ms // 1000) :]
        power = _power(judged)
        level = _dbfs(power)
        if power < _HEARD_FLOOR**2:
            return EchoVerdict(1.0, level, SILENCE_DBFS, 0.0)
        if _power(sent) < _SENT_FLOOR**2:
            return EchoVerdict(0.0, level, level, 0.0)
        place = self._best_place(_whitened(sent), _whitened(heard))
        end = min(place + self._before + self._fit, self._span)
        source = sent[end - self._fit - self._taps + 1 : end]
        taps = _fitted(_whitened(source), _whitened(heard), self._taps)
        echo = np.convolve(source[-len(judged) - self._taps + 1 :], taps, "valid")
        rest = judged - echo
        if _power(echo) > _LOUDEST_RETURN * _power(source[-len(judged) - self._before :]):
            return EchoVerdict(0.0, level, level, 0.0)
        floor = _noise(_whitened(listened, _JUDGED_EMPHASIS), self._rate // 50)
        all_of_it = _power(_whitened(judged, _JUDGED_EMPHASIS))
        left = _power(_whitened(rest, _JUDGED_EMPHASIS))
        if all_of_it < _ABOVE_NOISE * floor:
            return EchoVerdict(0.0, level, level, 0.0, stands_out=False)
        explained = min(1.0, max(0.0, 1 - (left - floor) / (all_of_it - floor)))
        delay_ms = (self._span - self._fit - place) * 1000 / self._rate
        return EchoVerdict(explained, level, _dbfs(min(power, _power(rest))), delay_ms)

    def _best_place(self, sent: Floats, heard: Floats) -> int:
        """Return where in ``sent`` the stretch most similar to ``heard`` begins, of either sign."""
        spectrum = np.fft.rfft(sent, self._transform) * np.fft.rfft(heard, self._transform).conj()
        likeness = np.fft.irfft(spectrum, self._transform)[: self._span - self._fit + 1]
        sums = np.concatenate(([0.0], np.cumsum(np.square(sent), dtype=np.float64)))
        energy = sums[self._fit :] - sums[: -self._fit]
        score = np.square(likeness) / (energy + 1e-3 * float(energy.max()) + 1.0)
        return int(np.argmax(score[self._taps :])) + self._taps


def _whitened(samples: Floats, by: np.float32 = _EMPHASIS) -> Floats:
    """Lift the higher frequencies, so that the strong low ones of speech do not dominate."""
    white = samples.copy()
    white[1:] -= by * samples[:-1]
    return white


def _fitted(source: Floats, target: Floats, taps: int) -> Floats:
    """Return the filter of ``taps`` samples whose output for ``source`` is closest to ``target``.

    ``source`` is ``taps - 1`` samples longer than ``target``. The ``_BLOCKS`` parts have equal
    weight at any level, so that a loud caller at the end does not dominate the fit of the earlier
    echo; but a part with little sound has little weight.
    """
    wide = source.astype(np.float64)
    size = len(target) // _BLOCKS
    powers = [_power(target[at : at + size]) for at in range(0, size * _BLOCKS, size)]
    normal, right = np.zeros((taps, taps)), np.zeros(taps)
    for number, power in enumerate(powers):
        part = wide[number * size : (number + 1) * size + taps - 1]
        weight = 1 / (power + _QUIET_PART * max(powers))
        normal += weight * _normal_matrix(part, taps)
        wanted = target[number * size : (number + 1) * size].astype(np.float64)
        right += weight * np.correlate(part, wanted, "valid")[::-1]
    normal[np.diag_indices(taps)] += 1e-9 + _RIDGE * np.trace(normal) / taps
    return np.linalg.solve(normal, right).astype(np.float32)


def _normal_matrix(source: NDArray[np.float64], taps: int) -> NDArray[np.float64]:
    """Return products of ``source`` with itself at each pair of delays below ``taps``, summed over
    the ``len(source) - taps + 1`` samples that have all of them.

    Exact, not the usual Toeplitz approximation: the first row is a correlation; each further entry
    is its upper left neighbour plus the product that enters and minus the one that leaves.
    """
    count = len(source) - taps + 1
    first = np.correlate(source, source[taps - 1 :], "valid")[::-1]
    entering, leaving = source[taps - 2 :: -1], source[count + taps - 2 : count - 1 : -1]
    change = np.zeros((taps - 1) * (2 * taps - 1))
    rows = change[: (taps - 1) * (2 * taps - 2)].reshape(taps - 1, 2 * taps - 2)
    rows[:, : taps - 1] = np.outer(entering, entering) - np.outer(leaving, leaving)
    along = np.cumsum(change.reshape(taps - 1, 2 * taps - 1)[:, : taps - 1], axis=0)
    skewed = np.zeros((taps, 2 * taps + 1))
    skewed[0, :taps] = first
    skewed[1:, : taps - 1] = first[:-1] + along
    upper = np.triu(skewed.reshape(-1)[: taps * 2 * taps].reshape(taps, 2 * taps)[:, :taps])
    normal: NDArray[np.float64] = upper + np.triu(upper, 1).T
    return normal


def _noise(samples: Floats, frame: int) -> float:
    """Return the power of the constant noise: that of the quietest tenth of all frames."""
    frames = samples[: len(samples) // frame * frame].reshape(-1, frame)
    powers = np.einsum("ij,ij->i", frames, frames) / frame
    return float(np.partition(powers, len(powers) // 10)[len(powers) // 10])


def _power(samples: Floats) -> float:
    return float(np.dot(samples, samples)) / max(1, len(samples))


def _dbfs(power: float) -> float:
    return max(SILENCE_DBFS, 10 * log10(power / 32768**2)) if power > 0 else SILENCE_DBFS
