from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordboard.audio.sample_clock import SampleClock

FRAME, RATE = 160, 8000


def test_before_the_first_frame_there_is_no_time() -> None:
    with pytest.raises(ValueError, match="no frame"):
        SampleClock(RATE).time_of(0)


@given(st.lists(st.floats(0, 0.2), min_size=100, max_size=150))
def test_late_frames_do_not_move_the_time_of_their_samples(delays: list[float]) -> None:
    """However late frames come: one punctual frame in a half second tells the truth."""
    clock = SampleClock(RATE)
    for number, delay in enumerate(delays):
        punctual = number % 25 == 0
        clock.take(FRAME, 50 + 0.02 * number + (0 if punctual else delay))
        assert clock.time_of(number * FRAME) == pytest.approx(50 + 0.02 * number)


def test_several_frames_at_once_were_spoken_one_after_the_other() -> None:
    clock = SampleClock(RATE)
    for number in range(10):
        clock.take(FRAME, 7 + 0.02 * number)
    for _ in range(5):
        clock.take(FRAME, 7.3)
    assert clock.time_of(12 * FRAME + 80) == pytest.approx(7.25)


def test_a_gap_moves_the_clock_on() -> None:
    clock = SampleClock(RATE)
    clock.take(FRAME, 7)
    clock.take(FRAME, 9)
    assert clock.time_of(FRAME) == pytest.approx(9)


def test_a_slower_sender_is_followed() -> None:
    """50 samples a second too few, for a minute: 375 ms in all."""
    clock = SampleClock(RATE)
    for number in range(3000):
        clock.take(FRAME, number * 0.020125)
    assert clock.time_of(2999 * FRAME) == pytest.approx(2999 * 0.020125, abs=0.007)
