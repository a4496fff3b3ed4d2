"""G.722 as we use it. That it is G.722, a call through Asterisk's own codec shows (telephony)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordboard.audio import g722

RATE = 16_000


def tone(hertz: float, seconds: float = 0.4, level: float = 8000) -> np.ndarray:
    at = np.arange(int(seconds * RATE)) / RATE
    return (level * np.sin(2 * np.pi * hertz * at)).astype("<i2")


def there_and_back(pcm: bytes, frame: int = 640) -> bytes:
    encoder, decoder = g722.Encoder(), g722.Decoder()
    return b"".join(
        decoder.decode(encoder.encode(pcm[start : start + frame]))
        for start in range(0, len(pcm), frame)
    )


@pytest.mark.parametrize("hertz", [200, 1000, 3400, 5000, 6500])
def test_wideband_tones_survive(hertz):
    said = tone(hertz)
    heard = np.frombuffer(there_and_back(said.tobytes()), "<i2")
    assert len(heard) == len(said)
    spectrum = np.abs(np.fft.rfft(heard[800:].astype(float) * np.hanning(len(heard) - 800)))
    peak = spectrum.argmax() * RATE / (len(heard) - 800)
    assert peak == pytest.approx(hertz, abs=5)
    around = slice(spectrum.argmax() - 4, spectrum.argmax() + 5)
    share = (spectrum[around] ** 2).sum() / (spectrum**2).sum()
    assert share > 0.99
    assert heard[800:].std() == pytest.approx(said.std(), rel=0.05)


def test_it_is_one_stream_however_it_is_cut():
    said = tone(700).tobytes()
    assert there_and_back(said, 640) == there_and_back(said, 4)


def test_silence_stays_silence():
    heard = np.frombuffer(there_and_back(bytes(640 * 50)), "<i2")
    assert np.abs(heard).max() <= 8


@given(st.binary(max_size=500))
def test_any_bytes_are_four_times_as_many_of_sound(coded):
    assert len(g722.Decoder().decode(coded)) == 4 * len(coded)


@given(st.lists(st.integers(-32768, 32767), max_size=600))
def test_any_sound_is_coded_to_a_quarter(samples):
    pcm = np.array(samples[: len(samples) & ~1], "<i2").tobytes()
    assert len(g722.Encoder().encode(pcm)) == len(pcm) // 4
