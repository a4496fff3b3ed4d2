"""Sizes and durations of telephone audio."""

from __future__ import annotations

import pytest

from cordboard.audio.format import ALAW_8K, SLIN_8K, SLIN_16K, ULAW_8K, AudioFormat


@pytest.mark.parametrize(
    ("audio", "frame"), [(SLIN_8K, 320), (SLIN_16K, 640), (ULAW_8K, 160), (ALAW_8K, 160)]
)
def test_a_frame_lasts_20_ms(audio: AudioFormat, frame: int) -> None:
    assert audio.frame_bytes == frame
    assert audio.duration_ms(frame) == 20
    assert audio.bytes_for(20) == frame
    assert len(audio.silence()) == frame


def test_part_of_a_sample_is_never_asked_for() -> None:
    assert SLIN_8K.bytes_for(0.2) == 2


def test_silence_is_what_the_law_calls_zero() -> None:
    assert set(ULAW_8K.silence()) == {0xFF}
    assert set(ALAW_8K.silence()) == {0xD5}
    assert set(SLIN_8K.silence()) == {0}


@pytest.mark.parametrize(("encoding", "rate"), [("opus", 8000), ("slin", 11025), ("slin", 0)])
def test_formats_that_do_not_exist_are_refused(encoding: str, rate: int) -> None:
    with pytest.raises(ValueError, match=r"encoding|rate"):
        AudioFormat(encoding, rate)  # type: ignore[arg-type]
