"""Where sound lies on the clock, and what is measured from it."""

from __future__ import annotations

import numpy as np
import pytest

from cordboard_testkit.timeline import (
    FRAME_SAMPLES,
    FRAME_SECONDS,
    RATE,
    Samples,
    Segment,
    Track,
    turn_latencies,
)

LOUD: Samples = np.full(FRAME_SAMPLES, 5000, np.int16)
QUIET: Samples = np.zeros(FRAME_SAMPLES, np.int16)


def _track(*frames: tuple[float, Samples]) -> Track:
    track = Track()
    for at, samples in frames:
        track.append(at, samples)
    return track


def test_regular_frames_make_one_piece_in_spite_of_jitter() -> None:
    track = _track(*((100 + n * 0.02 + (n % 3) * 0.004, LOUD) for n in range(10)))
    sound = track.render(100.0, 100.2)
    assert len(sound) == 1600
    assert (sound == 5000).all()


def test_a_bunch_of_frames_is_heard_one_after_the_other() -> None:
    track = _track(*((100.0, LOUD) for _ in range(10)))
    (heard,) = track.segments()
    assert heard.start == 100.0
    assert heard.end == pytest.approx(100.2 - 1 / RATE)


def test_a_pause_inside_a_bunch_is_kept() -> None:
    bunch = [LOUD] + [QUIET] * 10 + [LOUD]
    starts = [s.start for s in _track(*((100.0, frame) for frame in bunch)).segments(join=0.1)]
    assert starts == [100.0, pytest.approx(100.22)]


def test_a_late_frame_leaves_a_gap() -> None:
    track = _track((100.0, LOUD), (100.5, LOUD))
    assert [round(s.start, 3) for s in track.segments(join=0.3)] == [100.0, 100.5]
    assert len(track.segments(join=0.6)) == 1


def test_silence_brings_the_playout_back_to_the_wires_pace() -> None:
    """After frames that came 80 ms ahead, an onset is heard when it arrives."""
    early = [(100.0, LOUD)] * 5
    pause = [(100.02 * 1 + n * 0.02, QUIET) for n in range(10)]
    onset = (100.22, LOUD)
    starts = [s.start for s in _track(*early, *pause, onset).segments(join=0.05)]
    assert starts == [100.0, pytest.approx(100.22)]


def test_an_onset_is_never_measured_before_its_packet_arrived() -> None:
    """A frame that comes 50 ms late is played without a gap, but counted when it came."""
    track = _track((100.0, QUIET), (100.07, LOUD))
    assert track.first_loud_at == pytest.approx(100.07)


def test_onset_and_end_are_exact_to_the_sample() -> None:
    frame = QUIET.copy()
    frame[40:81] = 5000
    assert _track((100.0, frame)).segments() == [Segment(100.0 + 40 / RATE, 100.0 + 80 / RATE)]


def test_the_next_onset_after_a_moment_is_found() -> None:
    track = _track((100.0, LOUD), (100.02, QUIET), (100.04, LOUD), (100.06, LOUD))
    assert track.first_loud_after(99.0) == 100.0
    assert track.first_loud_after(100.01) == pytest.approx(100.01, abs=2 / RATE)
    assert track.first_loud_after(100.03) == pytest.approx(100.04)
    assert track.first_loud_after(100.08) is None
    assert Track().first_loud_after(0) is None


def test_a_rendered_stretch_may_begin_anywhere() -> None:
    track = _track((100.0, LOUD))
    assert int((track.render(99.99, 100.01) == 5000).sum()) == 80
    assert int((track.render(100.01, 101.0) == 5000).sum()) == 80
    assert not len(track.render(101.0, 100.0))


def test_each_turn_has_one_latency() -> None:
    caller = [Segment(1, 2), Segment(4, 5), Segment(5.5, 6), Segment(9, 10), Segment(20, 21)]
    agent = [Segment(0, 0.5), Segment(2.5, 3), Segment(6.75, 7), Segment(9.5, 11)]
    turns = turn_latencies(caller, agent)
    assert [turn.seconds for turn in turns] == [0.5, 0.75]
    assert [turn.caller_stopped_at for turn in turns] == [2, 6]


def test_frames_are_twenty_milliseconds() -> None:
    assert FRAME_SECONDS == 0.02


def test_what_can_be_heard_reaches_beyond_the_loud_samples() -> None:
    faint = np.full(FRAME_SAMPLES, 250, np.int16)  # -42 dBFS, in the middle of an "s"
    track = _track(
        (99.98, QUIET), (100.0, faint), (100.02, LOUD), (100.04, faint // 3), (100.06, QUIET)
    )
    (loud,) = track.segments()
    assert loud.start == pytest.approx(100.02)
    heard = track.audible(loud)
    assert heard.start == pytest.approx(100.0, abs=0.005)
    assert heard.end == pytest.approx(100.04, abs=0.005)


def test_who_speaks_while_the_phone_stutters_has_not_spoken_later() -> None:
    stutter = {7: 0.05, 8: 0.03, 9: 0.01}
    track = _track(
        *((100 + n * 0.02 + stutter.get(n, 0), LOUD if 2 <= n < 10 else QUIET) for n in range(15))
    )
    (segment,) = track.segments()
    assert track.audible(segment, spoken=True).end == pytest.approx(100.2, abs=0.001)
    assert track.audible(segment).end == pytest.approx(100.21, abs=0.001)


def test_an_utterance_has_no_gap_where_a_frame_came_late() -> None:
    """What is said is there, in order and without the holes of the line; long pauses divide it."""
    early, late = [100 + n * 0.02 for n in range(5)], [100.5 + n * 0.02 for n in range(5)]
    pause = [100.6 + n * 0.02 for n in range(50)]
    after = [101.6 + n * 0.02 for n in range(5)]
    track = _track(
        *((at, LOUD) for at in early + late),
        *((at, QUIET) for at in pause),
        *((at, LOUD) for at in after),
    )
    first, second = track.utterances()
    loud = [int(np.count_nonzero(part)) for part in (first, second)]
    assert loud == [10 * FRAME_SAMPLES, 5 * FRAME_SAMPLES]
    assert np.all(first[: 10 * FRAME_SAMPLES] != 0), "no gap"
    assert len(track.utterances(since=101.5)) == 1
    assert Track().utterances() == []
