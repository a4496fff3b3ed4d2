import numpy as np

from cordboard_testkit.room import BUFFER, Room
from cordboard_testkit.timeline import FRAME_SAMPLES, RATE, Track

SILENCE = np.zeros(FRAME_SAMPLES, np.int16)


def test_the_echo_is_the_heard_sound_later_and_quieter() -> None:
    room, ear = Room(echo_db=-20, echo_delay=0.03), Track()
    tone = (np.sin(np.arange(10 * FRAME_SAMPLES) / 5) * 10_000).astype(np.int16)
    picked = []
    for tick in range(20):
        at = 100 + tick * 0.02
        left_at = at + (0.003 if tick % 3 else 0)  # packets leave unevenly, microphones do not
        if tick < 10:
            part = tone[tick * FRAME_SAMPLES : (tick + 1) * FRAME_SAMPLES]
            room.played(ear.append(at, part))
        picked.append(room.picked_up(left_at, SILENCE))
    sound, delay = np.concatenate(picked), round((0.03 + BUFFER) * RATE)
    assert not sound[:delay].any()
    assert np.abs(sound[delay : delay + len(tone)] - tone / 10).max() <= 1
    assert not sound[delay + len(tone) :].any()


def test_noise_goes_on_from_frame_to_frame_under_the_speech() -> None:
    noise = np.arange(100, 100 + FRAME_SAMPLES + 40).astype(np.int16)
    room = Room(noise=noise)
    first = room.picked_up(0.0, SILENCE + 1000)
    second = room.picked_up(0.02, SILENCE)
    assert np.array_equal(first, noise[:FRAME_SAMPLES] + 1000)
    assert np.array_equal(second[:40], noise[FRAME_SAMPLES:])
    assert second[40] == noise[0]


def test_what_is_too_loud_is_cut_and_does_not_wrap() -> None:
    room = Room(noise=np.full(FRAME_SAMPLES, 30_000, np.int16))
    assert room.picked_up(0.0, SILENCE + 30_000).max() == 32767
