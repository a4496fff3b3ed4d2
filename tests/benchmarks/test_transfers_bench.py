"""`bench transfers`: its judge hears music under speech, and its transfers are real."""

from __future__ import annotations

from typing import cast

import numpy as np
import pytest
from bench import transfers
from bench.music import Music, heard_from
from bench.options import Options

from cordboard_testkit.timeline import FRAME_SAMPLES, FRAME_SECONDS, RATE, Samples, TrackFrame

MUSIC = transfers.noise(transfers.MUSIC, 4.0)


def speech(seconds: float) -> Samples:
    """A voice: a tone of changing pitch and its harmonics."""
    time = np.arange(int(seconds * RATE)) / RATE
    phase = 2 * np.pi * np.cumsum(120 + 40 * np.sin(2 * np.pi * 1.3 * time)) / RATE
    return (4_000 * sum(np.sin(n * phase) / n for n in range(1, 12))).astype(np.int16)


def frames(*sounds: Samples) -> list[TrackFrame]:
    sound = np.concatenate(sounds)
    pieces = sound[: len(sound) // FRAME_SAMPLES * FRAME_SAMPLES].reshape(-1, FRAME_SAMPLES)
    times = (number * FRAME_SECONDS for number in range(len(pieces)))
    return [TrackFrame(at, at, piece) for at, piece in zip(times, pieces, strict=True)]


def part(begin: float, end: float) -> Samples:
    return MUSIC[int(begin * RATE) : int(end * RATE)]


def test_music_before_speech_is_not_under_it() -> None:
    found = Music.of(frames(speech(1), part(0, 2), speech(1)), MUSIC)
    assert (found.frames, found.under_speech) == (100, 0)
    assert found.sound_after(1.0) == pytest.approx(3.0, abs=0.01)
    with pytest.raises(ValueError, match="heard nothing"):
        found.sound_after(5.0)


@pytest.mark.parametrize("gain", [1.0, 0.5, 0.25])
def test_music_under_speech_is_found_also_if_it_is_quiet(gain: float) -> None:
    both = speech(1) + (gain * part(1, 2)).astype(np.int16)
    assert Music.of(frames(part(0, 1), both), MUSIC).under_speech >= 20
    assert not Music.of(frames(part(0, 1), speech(1)), MUSIC).under_speech


def test_speech_in_gaps_of_the_music_is_found() -> None:
    found = Music.of(frames(part(0, 1), speech(0.1), part(1.1, 2)), MUSIC)
    assert found.under_speech >= 5


def test_the_voice_of_the_other_phone_is_told_from_the_music() -> None:
    voice = transfers.noise(transfers.CALLER, 1.0)
    assert heard_from(frames(part(0, 1), voice), voice) == pytest.approx(1.0)
    with pytest.raises(ValueError, match="did not hear"):
        heard_from(frames(part(0, 1), speech(1)), voice)


@pytest.mark.asterisk
@pytest.mark.voices
async def test_transfers_are_taken_and_declined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfers, "TALK_SECONDS", 3.0)
    monkeypatch.setattr(transfers, "LONGEST_WAIT", 60.0)
    report = await transfers.measure(lambda text: None, Options(calls=1))
    figures = report.figures
    for name, count in (("briefing_s", 2), ("talk_s", 1), ("back_s", 1)):
        times = cast("list[float]", figures[name])
        assert len(times) == count
        assert min(times) > 0
    assert (figures["under_speech_frames"], figures["music_frames_at_humans"]) == (0, 0)
