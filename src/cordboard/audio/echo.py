"""Is what the caller's line brings only our own voice coming back?

A telephone line returns part of what is played to it: the hybrid of an analogue phone, a hands-free
set, a sloppy gateway. To voice activity that echo is a person speaking over the agent.
``EchoGuard`` remembers the last second of both directions and says, when asked, which share of the
heard sound is a linear echo of the sent one. It cancels nothing and adapts to nothing, so there is
nothing to converge and nothing to diverge; between questions it costs two copies of a frame.

How: the delay is found by cross-correlation of the last ``_FIT_MS`` of heard sound with everything
sent in the last second, both whitened a little; then a filter of ``_TAPS`` samples around it is
fitted by least squares over that stretch, and the share is what it explains of the last ``ms``.
The stretch is longer than what is judged because a filter fitted to 200 ms alone explains up to
0.6 of *any* speech, and its quarters count alike so that a caller who has just begun, and is louder
than the echo, does not bend the filter to himself. About 2.6 ms of processor time a question: it is
asked only while a voice is heard over the agent's, and of a ``snapshot`` in another thread.

Measured on recorded human prompts (u-law, a telephone's band and reflections, delays of 20 to
500 ms, noise at -70 dBFS; tests/audio/test_echo.py asks the same): of an echo of -6 to -30 dB 0.95
or more is explained in the middle case, below 0.8 in 1 of 100; of somebody speaking over an echo or
without one, by then for 100 ms or longer, 0.03 to 0.08 in the middle case and at most 0.35 in 95
of 100 (one and the same voice on both sides, which is the hardest). 0.7 tells them apart. After
sound was lost on the way, for 400 ms the share is too low.

One per call, used from one thread, except for what was ``snapshot``. Both directions must be fed
steadily, one frame per 20 ms, silence included: the newest samples of both count as simultaneous
(give or take a few frames).
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
"""The line's own noise is the level of the quietest tenth of so much heard sound: an echo has gaps
where the words have, noise has none."""
_ABOVE_NOISE = 2.0
"""Sound of less than so many times the noise's power is that noise: no echo, and no voice."""
LONGEST_DELAY_MS = 600
"""Echo that comes back later than this is not looked for."""
_FIT_MS = 400
_TAPS_BEFORE = 24
_TAPS = 128
"""The fitted filter, in samples at 8 kHz: 3 ms before the peak and 13 ms after it."""
_EMPHASIS = np.float32(0.9)
"""How much the higher frequencies are lifted for finding the delay and fitting the filter."""
_JUDGED_EMPHASIS = np.float32(0.5)
"""The same for the share: with none, one steady vowel decides; with 0.9, the noise of the line."""
_LOUDEST_RETURN = 1.0
"""An echo is not stronger than what caused it (power ratio): such a fit is a coincidence."""
_BLOCKS = 4
"""Parts of the fitted stretch that count alike."""
_QUIET_PART = 0.005
"""Part of the loudest one's power that is added to each part's before they are made alike."""
_RIDGE = 1e-3
"""Regularisation, relative to the mean power of what was sent."""
_SENT_FLOOR = 20.0
"""RMS in s16 steps below which nothing was sent that could come back."""
_HEARD_FLOOR = 4.0
"""RMS in s16 steps below which nothing was heard: the last step of u-law is 8."""


@dataclass(frozen=True, slots=True)
class EchoVerdict:
    """What ``EchoGuard.judge`` found out about the last stretch of heard sound."""

    explained: float
    """Share of its energy, 0..1, that is an echo of what was sent."""
    heard_dbfs: float
    """Its level."""
    beyond_dbfs: float
    """The level of the rest, after the echo is taken away."""
    delay_ms: float
    """How long the echo took, when there is one."""
    stands_out: bool = True
    """Whether it is more than the noise that the line always has."""


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
        """The newest ``samples`` samples, oldest first."""
        whole = bytes(self._bytes[self._at :] + self._bytes[: self._at])
        return np.frombuffer(whole[len(whole) - 2 * samples :], "<i2").astype(np.float32)


class EchoGuard:
    """One call's two directions. See the module's docstring."""

    def __init__(self, rate: int = 8000) -> None:
        self._rate = rate
        self._fit = rate * _FIT_MS // 1000
        self._before = _TAPS_BEFORE * rate // 8000
        self._taps = _TAPS * rate // 8000
        self._span = self._fit + rate * LONGEST_DELAY_MS // 1000 + self._taps
        self._transform = 1 << (self._span - 1).bit_length()
        self._heard = _Ring(2 * rate * _FLOOR_MS // 1000)
        self._listened = 0
        """Samples heard since the beginning, as far as they are kept."""
        self._sent = _Ring(2 * self._span)

    def sent(self, pcm: bytes) -> None:
        """One frame that goes to the caller (s16), silence included."""
        self._sent.write(pcm)

    def heard(self, pcm: bytes) -> None:
        """One frame that came from the caller (s16)."""
        self._heard.write(pcm)
        self._listened = min(self._listened + len(pcm) // 2, self._rate * _FLOOR_MS // 1000)

    def explained(self, ms: int = 200) -> float:
        """Share, 0..1, of the energy of the last ``ms`` (at most 400) of heard sound that an echo
        of the sent sound explains. Silence heard is fully explained; with nothing sent, nothing."""
        return self.judge(ms).explained

    def judge(self, ms: int = 200) -> EchoVerdict:
        """The share of ``explained`` with the levels and the delay it was found at."""
        return self.snapshot()(ms)

    def snapshot(self) -> Callable[[int], EchoVerdict]:
        """``judge`` of the sound as it is now; may be called once, later, in any thread."""
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
        """Where in ``sent`` the stretch begins that ``heard`` resembles most, of either sign."""
        spectrum = np.fft.rfft(sent, self._transform) * np.fft.rfft(heard, self._transform).conj()
        likeness = np.fft.irfft(spectrum, self._transform)[: self._span - self._fit + 1]
        sums = np.concatenate(([0.0], np.cumsum(np.square(sent), dtype=np.float64)))
        energy = sums[self._fit :] - sums[: -self._fit]
        score = np.square(likeness) / (energy + 1e-3 * float(energy.max()) + 1.0)
        return int(np.argmax(score[self._taps :])) + self._taps


def _whitened(samples: Floats, by: np.float32 = _EMPHASIS) -> Floats:
    """Higher frequencies lifted, so that the strong low ones of speech do not decide alone."""
    white = samples.copy()
    white[1:] -= by * samples[:-1]
    return white


def _fitted(source: Floats, target: Floats, taps: int) -> Floats:
    """The filter of ``taps`` samples whose output for ``source`` is nearest to ``target``.

    ``source`` is ``taps - 1`` samples longer than ``target``. Each of ``_BLOCKS`` parts counts
    the same whatever its level, so that a loud caller at the end does not decide what the echo
    before him was; but a part with little sound counts for little.
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
    """Products of ``source`` with itself at each pair of delays below ``taps``, summed over the
    ``len(source) - taps + 1`` samples that have them all.

    Exact, not the usual Toeplitz approximation: the first row is a correlation, each further entry
    is the one up and left of it, plus the product that enters and less the one that leaves.
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
    """Power of the noise that is always there: of the quietest tenth of all frames."""
    frames = samples[: len(samples) // frame * frame].reshape(-1, frame)
    powers = np.einsum("ij,ij->i", frames, frames) / frame
    return float(np.partition(powers, len(powers) // 10)[len(powers) // 10])


def _power(samples: Floats) -> float:
    return float(np.dot(samples, samples)) / max(1, len(samples))


def _dbfs(power: float) -> float:
    return max(SILENCE_DBFS, 10 * log10(power / 32768**2)) if power > 0 else SILENCE_DBFS
