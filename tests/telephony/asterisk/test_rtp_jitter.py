"""Order, loss and delay of arriving packets, on a clock that the test moves."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordboard.telephony.asterisk.rtp import RtpPacket
from cordboard.telephony.asterisk.rtp_jitter import (
    CALM_SECONDS,
    MAX_DEPTH,
    MAX_WAITING,
    JitterBuffer,
)

SSRC = 77


def packet(number: int, ssrc: int = SSRC) -> RtpPacket:
    """The packet with this sequence number (any integer); its payload says which."""
    return RtpPacket(0, number & 0xFFFF, number * 160 & 0xFFFFFFFF, ssrc, b"%d" % number)


class Line:
    """A jitter buffer, what it handed on, and when."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.buffer = JitterBuffer(lambda word, count: self.counts.update({word: count}))
        self.heard: list[int | None] = []

    def arrive(self, number: int, at: float, ssrc: int = SSRC) -> list[int | None]:
        return self._take(self.buffer.push(packet(number, ssrc), at))

    def wait(self, at: float) -> list[int | None]:
        return self._take(self.buffer.expire(at))

    def _take(self, payloads):
        found = [None if each is None else int(each) for each in payloads]
        self.heard += found
        return found


@pytest.fixture
def line() -> Line:
    return Line()


@pytest.mark.parametrize("first", [0, 0xFFF0, 65_535, 12_345])
def test_a_quiet_network_costs_no_delay_at_all(line, first):
    for number in range(first, first + 200):
        assert line.arrive(number, number * 0.02) == [number]
    assert line.counts == {}
    assert line.buffer.depth == 0


def test_jitter_without_disorder_is_no_reason_to_wait(line):
    """Packets in bunches of five, as after a stall."""
    for number in range(100):
        assert line.arrive(number, number // 5 * 0.1) == [number]
    assert line.buffer.depth == 0


def test_a_lost_packet_is_one_lost_frame(line):
    assert line.arrive(1, 0.00) == [1]
    assert line.arrive(3, 0.04) == [None, 3]
    assert line.arrive(4, 0.06) == [4]
    assert line.counts == {"lost": 1}


def test_a_duplicate_is_heard_once(line):
    for number in (1, 1, 2, 3, 2, 1, 4):
        line.arrive(number, 0.02 * number)
    assert line.heard == [1, 2, 3, 4]
    assert line.counts == {"duplicate": 3}


def test_a_late_packet_teaches_to_wait_and_the_next_is_saved(line):
    line.arrive(1, 0.00)
    line.arrive(3, 0.040)
    assert line.arrive(2, 0.055) == [], "its place is taken"
    assert line.counts == {"lost": 1, "late": 1}
    assert line.buffer.depth == pytest.approx(0.02)
    assert line.arrive(4, 0.06) == [4], "what is in order is never delayed"
    assert line.arrive(6, 0.100) == []
    assert line.arrive(5, 0.115) == [5, 6]
    assert line.counts == {"lost": 1, "late": 1, "reordered": 1}


def test_waiting_ends_in_time(line):
    line.buffer.depth = 0.03
    line.arrive(1, 0.0)
    assert line.arrive(3, 0.04) == []
    assert line.buffer.waiting
    assert line.wait(0.06) == []
    assert line.wait(0.07) == [None, 3]
    assert not line.buffer.waiting


def test_several_gaps_at_once(line):
    line.buffer.depth = 0.04
    line.arrive(1, 0.0)
    for number, at in ((3, 0.02), (5, 0.03), (8, 0.04)):
        assert line.arrive(number, at) == []
    assert line.arrive(4, 0.05) == []
    assert line.wait(0.061) == [None, 3, 4, 5]
    assert line.wait(0.081) == [None, None, 8]


def test_calm_makes_the_wait_short_again(line):
    line.arrive(1, 0.0)
    line.arrive(3, 0.04)
    line.arrive(2, 0.09)
    deepest = line.buffer.depth
    assert deepest == pytest.approx(0.05)
    number, at = 4, 0.1
    while line.buffer.depth and at < 60:
        line.arrive(number, at)
        number, at = number + 1, at + 0.02
    assert line.buffer.depth == 0
    assert 5 * CALM_SECONDS <= at <= 6 * CALM_SECONDS


def test_needed_depth_is_kept(line):
    line.arrive(0, 0.0)
    line.buffer.depth = 0.03
    for number in range(1, 2000, 2):  # every pair the wrong way round, 20 ms apart
        line.arrive(number + 1, number * 0.02)
        line.arrive(number, number * 0.02 + 0.02)
    assert line.heard == list(range(2001))
    assert line.buffer.depth == pytest.approx(0.03)
    assert line.counts == {"reordered": 1000}


def test_much_too_late_is_not_waited_for(line):
    line.arrive(1, 0.0)
    line.arrive(3, 0.04)
    line.arrive(2, 0.04 + MAX_DEPTH + 0.05)
    assert line.counts["late"] == 1
    assert line.buffer.depth == 0


def test_a_pause_is_no_loss(line):
    """Hold, keys, silence suppression: the numbers go on where they stopped."""
    line.arrive(1, 0.0)
    assert line.arrive(2, 60.0) == [2]
    assert line.buffer.push(packet(3)._replace(timestamp=5), 60.02) == (b"3",)
    assert line.counts == {}


@pytest.mark.parametrize("missing", [4, 9, 60])
def test_a_gap_is_not_filled_up(line, missing):
    """Asterisk leaves numbers out for every key that the phone sends."""
    line.arrive(1, 0.0)
    after = 2 + missing
    assert line.arrive(after, 0.02 * after) == [after]
    assert line.counts == {"gap": 1}
    assert line.arrive(after + 1, 0.02 * after + 0.02) == [after + 1]


def test_numbers_that_begin_anew_are_followed_once_confirmed(line):
    for number in (40_000, 40_001):
        line.arrive(number, 0.0)
    assert line.arrive(100, 0.02) == []
    assert line.arrive(101, 0.04) == [101]
    assert line.arrive(102, 0.06) == [102]
    assert line.counts == {"jumped": 1, "restart": 1}


def test_one_wild_number_changes_nothing(line):
    line.arrive(10, 0.0)
    assert line.arrive(30_000, 0.01) == []
    assert line.arrive(11, 0.02) == [11]
    assert line.arrive(30_001, 0.03) == [], "not in a row with the first"
    assert line.arrive(12, 0.04) == [12]
    assert line.counts["restart"] == 0


def test_another_source_begins_at_once_and_loses_nothing_of_the_old(line):
    line.buffer.depth = 0.05
    line.arrive(1, 0.0)
    line.arrive(3, 0.04)
    assert line.arrive(500, 0.05, ssrc=78) == [3, 500]
    assert line.arrive(501, 0.07, ssrc=78) == [501]
    assert line.counts == {"restart": 1}


def test_a_flood_behind_a_gap_is_not_hoarded(line):
    line.buffer.depth = MAX_DEPTH
    line.arrive(1, 0.0)
    for number in range(3, 3 + MAX_WAITING):
        assert line.arrive(number, 0.01) == []
    assert line.arrive(3 + MAX_WAITING, 0.01)[:2] == [None, 3]


def test_a_bad_network_shuffles_loses_and_doubles(line):
    """2 % lost, 3 % doubled, up to 30 ms of jitter: what comes in time is heard, once, in order."""
    chance = random.Random(4)
    arrivals = []
    for number in range(3000):
        copies = 0 if chance.random() < 0.02 else 2 if chance.random() < 0.03 else 1
        delays = (chance.random() * 0.03 for _ in range(copies))
        arrivals += [(number * 0.02 + delay, 65_000 + number) for delay in delays]
    sent = {number for _, number in arrivals}
    for at, number in sorted(arrivals):
        line.wait(at)
        line.arrive(number, at)
    heard = [number for number in line.heard if number is not None]
    assert heard == sorted(set(heard))
    assert len(heard) >= len(sent) - line.counts["late"]
    assert line.counts["late"] <= 10, "it learnt"
    assert line.heard.count(None) == line.counts["lost"]


@given(
    st.lists(
        st.tuples(
            st.one_of(st.integers(0, 0xFFFF), st.integers(-120, 120)),
            st.sampled_from([SSRC, SSRC, SSRC, 78]),
            st.floats(0, 0.1),
        ),
        max_size=120,
    )
)
def test_any_numbers_at_any_time_keep_it_bounded(steps):
    counts: Counter[str] = Counter()
    buffer = JitterBuffer(lambda word, count: counts.update({word: count}))
    now, pushed, heard = 0.0, 0, 0
    for number, ssrc, later in steps:
        now += later
        handed = [*buffer.expire(now), *buffer.push(packet(number, ssrc), now)]
        pushed += 1
        heard += sum(payload is not None for payload in handed)
        assert len(buffer._waiting) <= MAX_WAITING + 1
        assert len(buffer._given_up) <= 64
        assert 0 <= buffer.depth <= MAX_DEPTH + 1e-9
    heard += sum(payload is not None for payload in buffer.expire(now + 1))
    assert heard + counts["duplicate"] + counts["late"] + counts["jumped"] == pushed
    assert not buffer.waiting
