"""What is given up under load, in which order, on a clock of the test's own."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from cordboard.observe.degradation import (
    LONG_WAIT,
    LOWER_AFTER,
    LOWER_AFTER_MOST,
    MUCH_LAG,
    RAISE_AFTER,
    REFUSING_WAIT,
    SHORT_WAIT,
    Degradation,
    OverloadGuard,
)


class Stage:
    """A guard, and a clock that goes on while the load stays the same."""

    def __init__(self) -> None:
        self.now = 100.0
        self.degradation = Degradation()
        self.levels: list[int] = []
        self.guard = OverloadGuard(self.degradation, self.levels.append)

    def passes(self, seconds: float, lag: float = 0.0, wait: float = 0.0) -> None:
        for _ in range(round(seconds)):
            for tick in range(20):
                self.guard.note_lag(self.now + tick / 20, lag)
            self.guard.note_wait(wait)
            self.now += 1
            self.guard.judge(self.now)


def test_nothing_is_given_up_without_need() -> None:
    stage = Stage()
    stage.passes(60, lag=MUCH_LAG / 2, wait=LONG_WAIT / 2)
    assert stage.levels == []
    assert stage.degradation.allows_speculation
    assert stage.degradation.allows_turn_model
    assert stage.degradation.admits_calls


def test_a_late_loop_gives_up_one_thing_after_the_other() -> None:
    stage = Stage()
    allowed = []
    with capture_logs() as log:
        for _ in range(3):
            stage.passes(RAISE_AFTER + 1, lag=2 * MUCH_LAG)
            now = stage.degradation
            allowed.append((now.allows_speculation, now.allows_turn_model, now.admits_calls))
    assert allowed == [(False, True, True), (False, False, True), (False, False, False)]
    assert [entry["gives_up"] for entry in log] == [
        "speculative recognition",
        "the end-of-turn model",
        "new calls",
    ]
    stage.passes(60, lag=2 * MUCH_LAG)
    assert stage.levels == [1, 2, 3], "there is nothing more to give up"


def test_callers_who_wait_for_a_thread_are_overload_too() -> None:
    stage = Stage()
    stage.passes(RAISE_AFTER + 1, wait=2 * LONG_WAIT)
    assert stage.levels == [1]


def test_one_stutter_is_no_overload() -> None:
    stage = Stage()
    for _ in range(10):
        stage.passes(9)
        stage.guard.note_lag(stage.now, 20 * MUCH_LAG)
    assert stage.levels == []


def test_work_that_callers_still_wait_for_refuses_nobody() -> None:
    stage = Stage()
    stage.passes(60, wait=REFUSING_WAIT)
    assert stage.levels == [1, 2]
    stage.passes(RAISE_AFTER + 1, wait=REFUSING_WAIT + 0.1)
    assert stage.levels == [1, 2, 3]


def test_a_crowd_that_is_answered_is_not_refused_and_leaves_no_trace() -> None:
    """24 callers ask within 6 s: the wait rises to 3.5 s and falls again."""
    stage = Stage()
    for wait in (0.0, 0.6, 1.2, 1.8, 2.4, 3.0, 3.5, 2.5, 1.5, 0.5):
        stage.passes(1, wait=wait)
        assert stage.degradation.admits_calls
    stage.passes(2)
    assert stage.levels == [1, 0]


def test_calm_ends_all_of_it_but_half_a_calm_does_not() -> None:
    stage = Stage()
    stage.passes(2 * RAISE_AFTER + 1, lag=2 * MUCH_LAG)
    assert stage.degradation.level == 2
    stage.passes(3 * LOWER_AFTER_MOST, lag=MUCH_LAG * 0.8, wait=SHORT_WAIT / 2)
    stage.passes(60, wait=SHORT_WAIT * 2)
    assert stage.degradation.level == 2, "neither overload nor calm"
    with capture_logs() as log:
        stage.passes(LOWER_AFTER + 1)
    assert stage.levels == [1, 2, 0]
    assert [entry["takes_up"] for entry in log] == [
        ["speculative recognition", "the end-of-turn model"]
    ]


def test_overload_that_keeps_returning_takes_a_longer_calm_each_time() -> None:
    stage = Stage()
    for _ in range(40):
        stage.passes(RAISE_AFTER + 1, wait=2 * LONG_WAIT)
        stage.passes(6)
    assert len(stage.levels) < 12, "it does not alternate"
    stage.passes(2 * LOWER_AFTER_MOST)
    assert stage.degradation.level == 0
    stage.passes(RAISE_AFTER + 1, wait=2 * LONG_WAIT)
    stage.passes(2)
    assert stage.degradation.level == 0, "long after, the short calm is enough again"


SPELLS = st.tuples(st.integers(1, 12), st.floats(0, 0.2), st.floats(0, 8))
"""Seconds, with this lag and this wait."""


@given(loads=st.lists(SPELLS, min_size=1, max_size=20))
def test_any_load_ends_in_full_service(loads: list[tuple[int, float, float]]) -> None:
    stage = Stage()
    for seconds, lag, wait in loads:
        stage.passes(seconds, lag=lag, wait=wait)
    stage.passes(LOWER_AFTER_MOST + 2)
    assert stage.degradation.level == 0


@given(loads=st.lists(SPELLS, min_size=1, max_size=20))
def test_no_wait_that_callers_put_up_with_refuses_a_call(
    loads: list[tuple[int, float, float]],
) -> None:
    stage = Stage()
    for seconds, lag, wait in loads:
        stage.passes(seconds, lag=min(lag, MUCH_LAG), wait=min(wait, REFUSING_WAIT))
        assert stage.degradation.admits_calls
