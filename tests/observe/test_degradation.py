"""What is given up under load, in which order, on a clock of the test's own."""

from __future__ import annotations

from structlog.testing import capture_logs

from cordboard.observe.degradation import (
    LONG_WAIT,
    LOWER_AFTER,
    MUCH_LAG,
    RAISE_AFTER,
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
            self.guard.note_wait(self.now + 0.9, wait)
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


def test_it_takes_calm_and_time_to_come_back_one_by_one() -> None:
    stage = Stage()
    stage.passes(2 * RAISE_AFTER + 1, lag=2 * MUCH_LAG)
    assert stage.degradation.level == 2
    stage.passes(3 * LOWER_AFTER, lag=MUCH_LAG * 0.8, wait=SHORT_WAIT / 2)
    assert stage.degradation.level == 2, "neither overload nor calm"
    stage.passes(LOWER_AFTER)
    assert stage.degradation.level == 2, "not yet: the window still holds the load"
    stage.passes(10)
    assert stage.degradation.level == 1
    stage.passes(LOWER_AFTER)
    assert stage.levels == [1, 2, 1, 0]


def test_load_that_returns_starts_the_wait_for_calm_anew() -> None:
    stage = Stage()
    stage.passes(RAISE_AFTER + 1, lag=2 * MUCH_LAG)
    for _ in range(4):
        stage.passes(LOWER_AFTER * 0.8)
        stage.passes(2, lag=2 * MUCH_LAG)
    assert stage.levels[0] == 1
    assert 0 not in stage.levels
