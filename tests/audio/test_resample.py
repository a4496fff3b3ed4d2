"""Resampling: the telephone band survives, everything else is gone, time stays put."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordboard.audio.resample import Floats, Resampler, resample, resample_pcm, to_floats, to_pcm


def tone(frequency: float, rate: int, seconds: float = 0.5) -> Floats:
    at = np.arange(int(rate * seconds)) / rate
    return np.sin(2 * np.pi * frequency * at).astype(np.float32)


def level(samples: Floats) -> float:
    """Level in dB against a full-scale sine."""
    return float(10 * np.log10(2 * np.mean(np.square(samples.astype(float))) + 1e-20))


RATES = [(24000, 8000), (16000, 8000), (48000, 8000), (44100, 8000), (8000, 16000), (8000, 24000)]


@pytest.mark.parametrize(("source", "target"), RATES)
@pytest.mark.parametrize("frequency", [300, 1000, 3300])
def test_speech_passes_unchanged_and_in_place(source: int, target: int, frequency: int) -> None:
    heard = resample(tone(frequency, source), source, target)
    wanted = tone(frequency, target)
    assert len(heard) == len(wanted)
    assert level((heard - wanted)[200:-200]) < -60


@pytest.mark.parametrize("source", [16000, 24000, 44100, 48000])
@pytest.mark.parametrize("frequency", [4150, 4600, 6000, 7700])
def test_what_would_alias_into_the_band_is_gone(source: int, frequency: int) -> None:
    assert level(resample(tone(frequency, source), source, 8000)[100:-100]) < -60


@given(
    sizes=st.lists(st.integers(0, 700), max_size=12),
    rates=st.sampled_from([(24000, 8000), (8000, 16000), (8000, 24000), (16000, 24000)]),
)
def test_a_stream_in_pieces_gives_what_the_whole_clip_gives(
    sizes: list[int], rates: tuple[int, int]
) -> None:
    samples = np.random.default_rng(1).uniform(-1, 1, sum(sizes)).astype(np.float32)
    resampler = Resampler(*rates)
    edges = np.cumsum([0, *sizes])
    pieces = [resampler.process(samples[a:b]) for a, b in pairwise(edges)]
    streamed = np.concatenate([*pieces, resampler.flush()])
    whole = resample(samples, *rates)
    assert len(streamed) == -(-len(samples) * rates[1] // rates[0])
    np.testing.assert_allclose(streamed, whole, atol=1e-5)


def test_a_stream_waits_for_no_more_than_4_ms() -> None:
    out = Resampler(24000, 8000).process(tone(1000, 24000, 0.1))
    assert len(out) >= 800 - 32


def test_a_flushed_stream_can_start_again() -> None:
    resampler = Resampler(24000, 8000)
    clip = tone(700, 24000)
    first = np.concatenate((resampler.process(clip), resampler.flush()))
    second = np.concatenate((resampler.process(clip), resampler.flush()))
    np.testing.assert_array_equal(first, second)


def test_loud_samples_are_clipped_not_wrapped() -> None:
    assert to_pcm(np.array([1.5, -1.5], np.float32)) == b"\xff\x7f\x00\x80"


def test_s16_survives_the_way_through_floats() -> None:
    pcm = np.arange(-32768, 32767, 7).astype("<i2").tobytes()
    assert to_pcm(to_floats(pcm)) == pcm
    assert resample_pcm(pcm, 8000, 8000) == pcm


@pytest.mark.parametrize(
    ("source", "target"),
    [(8000, 16_000), (16_000, 8000), (8000, 24_000), (24_000, 8000), (16_000, 24_000)],
)
def test_after_its_lookahead_of_silence_each_piece_gives_all_it_has(source, target):
    resampler = Resampler(source, target)
    ahead = resampler.process(np.zeros(resampler.lookahead, np.float32))
    assert len(ahead) / target < 1 / source, "nothing, but for what the rounding up gives"
    frame = np.ones(source // 50, np.float32)
    assert {len(resampler.process(frame)) for _ in range(9)} == {target // 50}
