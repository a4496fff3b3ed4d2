"""Levels against signals whose level is known."""

from __future__ import annotations

import numpy as np
import pytest

from cordboard.audio.levels import (
    SILENCE_DBFS,
    energy_envelope,
    peak_dbfs,
    rms_dbfs,
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
