"""Detects telephone keys: the two tones of DTMF, distinguished from speech.

``is_dtmf(pcm, rate)`` analyses one stretch of 40 to 120 ms: both tones of ITU-T Q.23 must be
present, one of each group, similar in level (Q.24's twist, wider), and together they must contain
nearly all of the sound's energy above 100 Hz. It keeps the voice guard from mistaking a key for a
voice; the keys themselves reach the engine from Asterisk as events. Takes about 25 us for 100 ms.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

LOW_GROUP = (697.0, 770.0, 852.0, 941.0)
HIGH_GROUP = (1209.0, 1336.0, 1477.0, 1633.0)
"""Frequencies in hertz of the rows and the columns of the keypad (ITU-T Q.23)."""
KEYS = "123A456B789C*0#D"

_SHORTEST_MS = 40
_SHARE = 0.85
"""Minimum share of the energy in the two tones."""
_TWIST_DB = 10.0
"""Maximum level difference of the tones: Q.24 requires receivers to accept 4 to 8 dB."""
_FLOOR = 50.0
"""RMS in s16 steps below which no key is detected (-56 dBFS)."""

_OFF = 0.025
"""Maximum relative deviation of a tone; Q.24 requires receivers to accept 1.5 %, and a short
stretch adds an uncertainty of its own."""
_LOBE_HZ = 2.0
"""Half width of a tone's main lobe under the Hann window, in hertz times seconds."""

_Row = NDArray[np.float64]


@lru_cache(maxsize=8)
def _window(count: int) -> _Row:
    return np.hanning(count + 2)[1:-1]


def _tone(power: _Row, group: tuple[float, ...], step: float, lobe: int) -> tuple[int, float]:
    """Return the strongest tone of a group: its index (-1: not of the group) and its energy."""
    first = int(group[0] * (1 - _OFF) / step)
    last = int(group[-1] * (1 + _OFF) / step) + 2
    peak = first + int(np.argmax(power[first:last]))
    around = power[peak - lobe : peak + lobe + 1]
    energy = float(around.sum())
    if energy <= 0:
        return -1, 0.0
    frequency = float(np.dot(around, np.arange(peak - lobe, peak + lobe + 1))) / energy * step
    for place, wanted in enumerate(group):
        if abs(frequency - wanted) <= _OFF * wanted:
            return place, energy
    return -1, energy


def dtmf_key(pcm: bytes, rate: int = 8000) -> str | None:
    """Return the key, one of ``KEYS``, that sounds throughout ``pcm`` (s16); None if none does.

    Pass 40 to 120 ms. A stretch that is half silence or half voice contains no key.
    """
    samples = np.frombuffer(pcm, "<i2").astype(np.float64)
    count = len(samples)
    if count * 1000 < _SHORTEST_MS * rate or float(np.dot(samples, samples)) < _FLOOR**2 * count:
        return None
    size = 1 << (2 * count - 1).bit_length()
    spectrum = np.fft.rfft(samples * _window(count), size)
    power = np.square(spectrum.real) + np.square(spectrum.imag)
    step = rate / size
    lobe = int(_LOBE_HZ * size / count)
    row, low = _tone(power, LOW_GROUP, step, lobe)
    column, high = _tone(power, HIGH_GROUP, step, lobe)
    if row < 0 or column < 0:
        return None
    if low + high < _SHARE * float(power[int(100 / step) :].sum()):
        return None
    if max(low, high) > 10 ** (_TWIST_DB / 10) * min(low, high):
        return None
    return KEYS[4 * row + column]


def is_dtmf(pcm: bytes, rate: int = 8000) -> bool:
    """True if ``pcm`` (s16, 40 to 120 ms) is the sound of a key and nothing else."""
    return dtmf_key(pcm, rate) is not None
