"""Until when a caller could be heard, from the sound alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cordboard.audio.vad import WINDOW_SAMPLES
from cordboard.speech.turns.loudness import Loudness

_NOISE = np.random.default_rng(3)


def window(dbfs: float) -> bytes:
    sound: NDArray[np.float64] = _NOISE.standard_normal(WINDOW_SAMPLES) * 32768 * 10 ** (dbfs / 20)
    return sound.astype("<i2").tobytes()


def follow(loudness: Loudness, start: int, count: int, dbfs: float, *, silent: bool) -> int:
    for _ in range(count):
        loudness.take(window(dbfs), start, silent=silent)
        start += WINDOW_SAMPLES
    return start


def test_the_beginning_of_a_word_is_not_learned_as_noise() -> None:
    """The detector is sure that nobody speaks in the first windows of a soft beginning."""
    loudness = Loudness()
    at = follow(loudness, 0, 60, -90, silent=True)
    at = follow(loudness, at, 3, -15, silent=True)
    at = follow(loudness, at, 10, -15, silent=False)
    at = follow(loudness, at, 10, -32, silent=False)
    assert loudness.heard_until == at, "the soft end of the word is heard"


def test_a_noisy_line_is_known_after_some_seconds_and_does_not_speak() -> None:
    loudness = Loudness()
    at = follow(loudness, 0, 150, -38, silent=True)
    spoken = follow(loudness, at, 10, -15, silent=False)
    follow(loudness, spoken, 20, -38, silent=False)
    assert loudness.heard_until == spoken
    assert -41 < 10 * np.log10(loudness.noise / 32768**2) < -36


def test_noise_that_ends_is_forgotten_soon() -> None:
    loudness = Loudness()
    at = follow(loudness, 0, 150, -38, silent=True)
    follow(loudness, at, 20, -80, silent=True)
    assert 10 * np.log10(loudness.noise / 32768**2) < -50
