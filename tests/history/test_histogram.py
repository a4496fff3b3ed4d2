"""Histograms: percentiles within their error, and a sum that is that of all values."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordboard.history.histogram import (
    BUCKETS,
    MOST_MS,
    bucket_of,
    decode,
    dense,
    encode,
    histogram,
    middle_of,
    percentile,
    sums,
)

DURATIONS = st.lists(st.integers(0, MOST_MS), max_size=60)
SHARES = st.sampled_from([0.0, 0.5, 0.9, 0.95, 0.99, 1.0])


@given(st.one_of(st.integers(0, MOST_MS), st.floats(0, MOST_MS)))
def test_a_bucket_stands_for_its_durations_within_2_5_percent(ms: float) -> None:
    bucket = bucket_of(ms)
    assert 0 <= bucket < BUCKETS
    assert abs(middle_of(bucket) - ms) <= max(1.0 if ms < 1 else 0.0, 0.0251 * ms)


@given(DURATIONS.filter(bool), SHARES)
def test_a_percentile_is_that_of_the_sorted_durations_within_2_5_percent(
    durations: list[int], share: float
) -> None:
    exact = sorted(durations)[max(1, math.ceil(round(share * len(durations), 9))) - 1]
    found = percentile(dense(histogram(durations)), share)
    assert found is not None
    assert abs(found - exact) <= max(1.0 if exact < 1 else 0.0, 0.0251 * exact)


@given(st.lists(st.tuples(st.integers(0, 3), DURATIONS), max_size=12))
def test_the_sum_of_histograms_is_the_histogram_of_all_values(
    parts: list[tuple[int, list[int]]],
) -> None:
    found = sums([encode(histogram(each)) for _, each in parts], [group for group, _ in parts], 4)
    for group in range(4):
        together = [ms for at, each in parts if at == group for ms in each]
        assert found[group].tolist() == dense(histogram(together)).tolist()


@given(DURATIONS)
def test_what_is_encoded_is_decoded(durations: list[int]) -> None:
    assert decode(encode(histogram(durations))) == histogram(durations)


def test_a_count_of_zero_takes_no_space_and_nothing_has_no_percentile() -> None:
    assert encode(Counter({5: 0})) == b""
    assert percentile(dense({}), 0.5) is None


@pytest.mark.parametrize(("share", "rank"), [(0.95, 19), (0.5, 10), (0.99, 20), (1.0, 20)])
def test_a_percentile_is_the_nearest_rank(share: float, rank: int) -> None:
    durations = [100 * 2**number for number in range(20)]
    found = percentile(dense(histogram(durations)), share)
    assert found == pytest.approx(durations[rank - 1], rel=0.025)
