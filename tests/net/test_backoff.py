"""Pauses between tries."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cordboard.net.backoff import Backoff


def test_pauses_double_up_to_the_longest() -> None:
    backoff = Backoff(0.5, 3.0, chance=lambda: 0.0)
    assert [backoff.pause(failures) for failures in (-1, 0, 1, 2, 3, 100_000)] == [
        0.5, 0.5, 1.0, 2.0, 3.0, 3.0
    ]  # fmt: skip


def test_chance_takes_off_its_share_and_no_more() -> None:
    assert Backoff(1.0, 60.0, jitter=0.5, chance=lambda: 1.0).pause(2) == 2.0
    assert Backoff(1.0, 60.0, jitter=0.0, chance=lambda: 1.0).pause(2) == 4.0
    pauses = {Backoff(1.0, 60.0).pause(0) for _ in range(50)}
    assert len(pauses) > 1, "clients that fail together must not come back in step"


@given(st.floats(0.001, 100), st.floats(0.001, 1_000), st.floats(0, 1), st.integers(-5, 10**9))
def test_no_pause_is_negative_or_longer_than_the_longest(
    first: float, most: float, jitter: float, failures: int
) -> None:
    assert 0 <= Backoff(first, most, jitter).pause(failures) <= most
