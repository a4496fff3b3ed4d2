from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordboard.audio import g711
from cordboard.audio.tones import HIGH_GROUP, KEYS, LOW_GROUP, dtmf_key, is_dtmf

NOISE = np.random.default_rng(7)


def key_sound(
    key: str,
    *,
    ms: int = 80,
    rate: int = 8000,
    dbfs: float = -16,
    twist_db: float = 0,
    off: float = 0,
    noise_db: float = -20,
    phase: float = 0,
) -> bytes:
    """A key as it comes over a u-law line; ``noise_db`` is relative to the tones."""
    row, column = divmod(KEYS.index(key), 4)
    at = np.arange(rate * ms // 1000) / rate
    low = 10 ** (-twist_db / 40) * np.sin(2 * np.pi * LOW_GROUP[row] * (1 + off) * at + phase)
    high = 10 ** (twist_db / 40) * np.sin(2 * np.pi * HIGH_GROUP[column] * (1 + off) * at)
    tones = (low + high) / np.sqrt(np.mean(np.square(low + high)))
    noisy = tones + NOISE.normal(0, 10 ** (noise_db / 20), len(at))
    samples = np.clip(noisy * 32768 * 10 ** (dbfs / 20), -32768, 32767)
    return g711.ulaw_to_linear(g711.linear_to_ulaw(samples.astype("<i2").tobytes()))


@given(
    key=st.sampled_from(KEYS),
    ms=st.integers(40, 120),
    dbfs=st.floats(-38, -8),
    twist_db=st.floats(-6, 6),
    off=st.floats(-0.015, 0.015),
    noise_db=st.floats(-60, -15),
    phase=st.floats(0, 6.28),
)
def test_every_key_is_known_by_its_sound(
    key: str, ms: int, dbfs: float, twist_db: float, off: float, noise_db: float, phase: float
) -> None:
    sound = key_sound(
        key, ms=ms, dbfs=dbfs, twist_db=twist_db, off=off, noise_db=noise_db, phase=phase
    )
    assert dtmf_key(sound) == key


@pytest.mark.parametrize("key", KEYS)
def test_every_key_is_known_at_16_khz(key: str) -> None:
    assert dtmf_key(key_sound(key, rate=16000), 16000) == key


def test_speech_is_no_key(speech: list[np.ndarray], over_the_line: Callable[..., bytes]) -> None:
    stretches = 0
    for sentence in speech:
        pcm = over_the_line(sentence)
        for size in (1024, 1600):
            for at in range(0, len(pcm) - size, 800):
                stretches += 1
                assert not is_dtmf(pcm[at : at + size])
    assert stretches > 500


@given(st.binary(min_size=0, max_size=2000).map(lambda data: data[: len(data) // 2 * 2]))
def test_anything_may_be_asked(pcm: bytes) -> None:
    assert dtmf_key(pcm) is None or len(pcm) >= 640


@given(frequency=st.floats(200, 3600), ms=st.integers(40, 120))
def test_one_tone_alone_is_no_key(frequency: float, ms: int) -> None:
    at = np.arange(8 * ms) / 8000
    tone = (5000 * np.sin(2 * np.pi * frequency * at)).astype("<i2").tobytes()
    assert not is_dtmf(tone)


@pytest.mark.parametrize(("first", "second"), [(440, 480), (350, 440), (480, 620), (1400, 2060)])
def test_the_tones_of_an_exchange_are_no_keys(first: float, second: float) -> None:
    at = np.arange(800) / 8000
    tones = 4000 * (np.sin(2 * np.pi * first * at) + np.sin(2 * np.pi * second * at))
    assert not is_dtmf(tones.astype("<i2").tobytes())


def test_noise_and_silence_are_no_keys() -> None:
    for level in (0, 5, 300, 3000):
        for _ in range(50):
            assert not is_dtmf(NOISE.normal(0, level, 800).astype("<i2").tobytes())


def test_a_voice_over_a_key_is_heard_as_a_voice(speech: list[np.ndarray]) -> None:
    key = np.frombuffer(key_sound("5", ms=100, dbfs=-26), "<i2")
    loud = [sentence[4000:4800] for sentence in speech if np.std(sentence[4000:4800]) > 2000]
    mixed = [np.clip(key + voice, -32768, 32767).astype("<i2").tobytes() for voice in loud]
    assert mixed
    assert sum(map(is_dtmf, mixed)) <= len(mixed) // 20
