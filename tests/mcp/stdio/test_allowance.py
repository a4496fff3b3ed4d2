from __future__ import annotations

import pytest

from cordboard.mcp.stdio.transport import Allowance


def test_a_burst_of_one_seconds_worth_passes() -> None:
    assert Allowance(100).spend(100, now=5) == 0


def test_a_flood_is_slowed_down_to_the_rate() -> None:
    allowed = Allowance(100)
    now = 0.0
    for _ in range(50):
        now += allowed.spend(20, now)
    assert now == pytest.approx(9), "1,000 at 100 a second, the first 100 at once"


def test_rest_is_saved_up_but_not_beyond_a_second() -> None:
    allowed = Allowance(100)
    allowed.spend(100, now=0)
    assert allowed.spend(50, now=0.5) == 0
    assert allowed.spend(100, now=1_000) == 0
    assert allowed.spend(100, now=1_000) == pytest.approx(1)
