"""The judgement of a canary: one that is no worse is rarely returned, a worse one is found."""

from __future__ import annotations

import math
import random
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordboard.cluster.canary_statistic import (
    ALPHA,
    LEVEL,
    LOOKS,
    WAIT_BOUNDS_MS,
    Outcomes,
    fisher_greater,
    is_due,
    judge,
    mann_whitney_greater,
    wait_bucket,
)

BEFORE = (0.05, 0.10, 1_200.0)
"""Shares of failed calls and early hang-ups, and the middle wait in ms."""


def arm(rng: random.Random, calls: int, failed: float, hung_up: float, wait: float) -> Outcomes:
    waits = [0] * (len(WAIT_BOUNDS_MS) + 1)
    for _ in range(calls):
        waits[wait_bucket(rng.lognormvariate(math.log(wait), 0.5))] += 1
    bad = [sum(rng.random() < share for _ in range(calls)) for share in (failed, hung_up)]
    return Outcomes(calls, *bad, tuple(waits))


def returned(rng: random.Random, after: tuple[float, float, float]) -> int:
    """Run one canary with half of the calls; return the look at which it was returned, 0: never."""
    old = new = Outcomes()
    for look, calls in enumerate(LOOKS):
        old += arm(rng, calls - old.calls, *BEFORE)
        new += arm(rng, calls - new.calls, *after)
        assert is_due(look, old, new)
        if judge(old, new).worse:
            return look + 1
    return 0


def test_a_canary_that_is_no_worse_is_returned_less_often_than_is_promised() -> None:
    rng, runs = random.Random(7), 200
    false = sum(returned(rng, BEFORE) > 0 for _ in range(runs))
    # Three standard deviations above the promise: the test is drawn, but always the same way.
    assert false / runs <= ALPHA + 3 * math.sqrt(ALPHA * (1 - ALPHA) / runs)


@pytest.mark.parametrize(
    ("after", "last"),
    [((1.0, 0.0, 1_200.0), 1), ((0.30, 0.10, 1_200.0), 5), ((0.05, 0.35, 1_200.0), 5),
     ((0.05, 0.10, 2_400.0), 3), ((0.05, 0.10, 1_700.0), 6)],
)  # fmt: skip
def test_one_that_is_worse_is_found(after: tuple[float, float, float], last: int) -> None:
    rng = random.Random(11)
    looks = [returned(rng, after) for _ in range(20)]
    assert sum(0 < look <= last for look in looks) >= 18


@given(st.integers(0, 30), st.integers(0, 30), st.integers(0, 30), st.integers(0, 30))
def test_fishers_test_is_the_exact_one(old_bad: int, old: int, new_bad: int, new: int) -> None:
    old, new = old + old_bad, new + new_bad
    bad, total = old_bad + new_bad, old + new
    most = min(bad, new)
    ways = sum(
        math.comb(bad, k) * math.comb(total - bad, new - k) for k in range(new_bad, most + 1)
    )
    expected = float(Fraction(ways, math.comb(total, new)))
    assert fisher_greater(old_bad, old, new_bad, new) == pytest.approx(expected, abs=1e-9)


@given(st.lists(st.integers(0, 20), min_size=2, max_size=25), st.data())
def test_waits_that_are_alike_are_no_worse_and_longer_ones_are(
    waits: list[int], data: st.DataObject
) -> None:
    p = mann_whitney_greater(waits, waits)
    assert p >= 0.5 or sum(waits) == 0
    at = data.draw(st.integers(0, len(waits) - 1))
    shifted = [*waits, 0]
    shifted[at], shifted[at + 1] = 0, shifted[at + 1] + shifted[at]
    assert mann_whitney_greater(waits, shifted) <= p + 1e-9


def test_the_level_of_a_test_and_the_buckets() -> None:
    assert math.isclose(LEVEL, ALPHA / 18)
    assert all(low < high for low, high in pairwise(WAIT_BOUNDS_MS))
    assert wait_bucket(0) == 0
    assert wait_bucket(10**9) == len(WAIT_BOUNDS_MS)


def test_it_is_looked_at_only_when_both_have_enough_calls() -> None:
    assert not is_due(0, Outcomes(100), Outcomes(9))
    assert not is_due(0, Outcomes(9), Outcomes(100))
    assert is_due(0, Outcomes(10), Outcomes(10))
    assert not is_due(1, Outcomes(100), Outcomes(19))
    assert not is_due(len(LOOKS), Outcomes(10_000), Outcomes(10_000))


def test_the_words_name_what_is_worse() -> None:
    verdict = judge(Outcomes(90, 2, 9), Outcomes(10, 9, 1))
    assert verdict.worse
    assert verdict.words.startswith("worse: failed calls 90.0 % (before 2.2 %) (p=")
    verdict = judge(Outcomes(90, 2, 9), Outcomes(10, 0, 1))
    assert verdict.words == (
        "no worse in 10 calls: failed calls 0.0 % (before 2.2 %), "
        "early hang-ups 10.0 % (before 10.0 %)"
    )
