"""Levels against signals whose level is known."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from cordboard.audio.levels import (
    AUDIBLE_DBFS,
    SILENCE_DBFS,
    energy_envelope,
    first_audible,
    last_audible,
    peak_dbfs,
    rms_dbfs,
    speech_onset,
    speech_rms_dbfs,
)


def sine(amplitude: float, seconds: float) -> bytes:
    at = np.arange(int(8000 * seconds)) / 8000
    return np.rint(32767 * amplitude * np.sin(2 * np.pi * 440 * at)).astype("<i2").tobytes()


def test_a_sine_is_3_db_below_its_peak() -> None:
    assert rms_dbfs(sine(0.5, 1)) == pytest.approx(-9.03, abs=0.05)
    assert peak_dbfs(sine(0.5, 1)) == pytest.approx(-6.02, abs=0.05)


def test_silence_and_nothing_have_a_finite_level() -> None:
    for pcm in (b"", bytes(320)):
        assert rms_dbfs(pcm) == peak_dbfs(pcm) == SILENCE_DBFS
    assert energy_envelope(b"", 8000).size == 0


def test_the_envelope_shows_where_sound_is_and_counts_a_short_last_window() -> None:
    envelope = energy_envelope(bytes(3200) + sine(0.5, 0.21), 8000)
    assert list(envelope > -30) == [False] * 10 + [True] * 11
    assert envelope[-1] == pytest.approx(-9, abs=1)


def test_pauses_do_not_make_speech_quieter() -> None:
    spoken = sine(0.5, 0.5)
    assert speech_rms_dbfs(spoken + bytes(32000) + spoken, 8000) == pytest.approx(-9.03, abs=0.2)


def at_level(dbfs: float, ms: int) -> NDArray[np.int16]:
    """Noise of that RMS level."""
    noise = np.random.default_rng(1).standard_normal(8 * ms)
    noise *= 32768 * 10 ** (dbfs / 20) / np.sqrt(np.mean(noise**2))
    return noise.astype(np.int16)


def test_speech_is_heard_from_a_level_on() -> None:
    sound = np.concatenate([at_level(-60, 40), at_level(-20, 100), at_level(-60, 200)])
    assert first_audible(sound, 8000) == pytest.approx(8 * 40, abs=8 * 5)
    assert last_audible(sound, 8000) == pytest.approx(8 * 140, abs=8 * 5)


def test_what_can_be_heard_begins_where_it_does_however_much_of_it_is_there() -> None:
    sound = np.concatenate([at_level(-60, 40), at_level(-38, 60), at_level(-10, 300)])
    whole = first_audible(sound, 8000)
    assert whole == pytest.approx(8 * 40, abs=8 * 5)
    assert first_audible(sound[: 8 * 60], 8000) == whole


def test_the_noise_of_a_line_does_not_prolong_what_was_said() -> None:
    noisy = np.concatenate([at_level(-8, 300), at_level(AUDIBLE_DBFS + 3, 300)])
    assert last_audible(noisy, 8000) == pytest.approx(8 * 300, abs=8 * 5)


def test_nothing_is_heard_in_silence() -> None:
    for silence in (np.zeros(0, np.int16), np.zeros(39, np.int16), at_level(-60, 100)):
        assert first_audible(silence, 8000) is None
        assert last_audible(silence, 8000) is None


@pytest.mark.parametrize("offset", [1, 3, 40, 77, 159])
def test_two_who_look_at_the_same_utterance_find_the_same_sample(offset: int) -> None:
    """A fading tail right at the level, seen in frames that begin elsewhere."""
    fade = at_level(0, 700) * 10 ** (-np.linspace(10, 60, 8 * 700) / 20)
    sound = np.concatenate([np.zeros(800, np.int16), fade.astype(np.int16)])
    first, last = first_audible(sound, 8000), last_audible(sound, 8000)
    later_first, later_last = (
        first_audible(sound[offset:], 8000),
        last_audible(sound[offset:], 8000),
    )
    assert first is not None
    assert last is not None
    assert later_first == pytest.approx(first - offset, abs=8)
    assert later_last == pytest.approx(last - offset, abs=8 * 5)


def test_the_known_noise_of_a_line_is_not_speech() -> None:
    noise = at_level(-35, 300)
    noisy = np.concatenate([at_level(-20, 300), noise])
    assert last_audible(noisy, 8000) == 8 * 600
    power = float(np.mean(noise.astype(float) ** 2))
    assert last_audible(noisy, 8000, power) == pytest.approx(8 * 300, abs=8 * 5)


def test_speech_begins_where_its_soft_sound_does() -> None:
    before = np.concatenate([at_level(-20, 80), at_level(-70, 90)])
    soft = np.concatenate([at_level(-41, 110), at_level(-70, 30), at_level(-15, 32)])
    sound = np.concatenate([before, soft])
    assert speech_onset(sound, 8000) == pytest.approx(8 * 170, abs=8 * 5)
    assert speech_onset(soft, 8000) == pytest.approx(0, abs=8 * 5)
    noise = float(np.mean(at_level(-44, 100).astype(float) ** 2))
    assert speech_onset(sound, 8000, noise) == pytest.approx(8 * 310, abs=8 * 5)
    assert speech_onset(at_level(-70, 100), 8000) is None
