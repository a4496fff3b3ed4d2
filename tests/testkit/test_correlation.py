"""How alike two recordings are: what breaks the likeness, and what does not."""

from __future__ import annotations

import numpy as np

from cordboard.audio.g711 import linear_to_ulaw
from cordboard_testkit.correlation import align, came_through, share_heard

NOISE = np.random.default_rng(1).normal(0, 4000, 12 * 320).astype(np.int16)
"""12 pieces of 40 ms."""
PAUSE = np.zeros(160, np.int16)


def test_a_pause_in_the_middle_costs_at_most_the_piece_that_it_cuts():
    at = 1760
    late = np.concatenate((PAUSE, NOISE[:at], PAUSE, PAUSE, NOISE[at:]))
    assert align(NOISE, late).correlation < 0.9
    assert share_heard(NOISE, late) == 11 / 12


def test_what_is_missing_counts_and_silence_does_not():
    assert share_heard(NOISE, NOISE) == 1
    assert share_heard(np.concatenate((PAUSE, PAUSE, NOISE, PAUSE)), NOISE) == 1
    assert share_heard(NOISE, NOISE[: len(NOISE) // 2]) == 0.5
    assert share_heard(NOISE, NOISE[::-1]) == 0


def test_nothing_said_or_heard_is_no_likeness():
    assert share_heard(PAUSE, NOISE) == 0
    assert share_heard(NOISE, PAUSE[:10]) == 0


def test_a_sound_comes_through_in_parted_frames_and_not_in_another_coding():
    frames = np.split(NOISE[: len(NOISE) // 160 * 160], len(NOISE) // 160)
    parted = np.concatenate([np.concatenate((np.zeros(100, np.int16), f)) for f in frames])
    assert came_through(NOISE, parted)
    assert came_through(NOISE, np.concatenate(frames[: len(frames) * 9 // 10]))
    assert not came_through(NOISE, np.concatenate(frames[: len(frames) * 2 // 3]))
    coded = linear_to_ulaw(NOISE.tobytes()) * 4
    assert not came_through(NOISE, np.frombuffer(coded, "<i2")), "taken for samples"
