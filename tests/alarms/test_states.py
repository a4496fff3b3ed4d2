"""The states of an alarm: it fires and ends only after its pauses, whatever the condition does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordboard.alarms.states import Stage, State, step

EVENTS = st.lists(st.tuples(st.integers(1, 100), st.sampled_from([True, False, None])), max_size=60)
PAUSES = st.sampled_from([0.0, 30.0, 120.0])


def test_an_alarm_rises_fires_falls_and_ends() -> None:
    state, found = State(), []
    course = [(0, False), (10, True), (50, True), (70, True), (80, False), (90, True), (100, False)]
    for now, holds in [*course, (159, False), (160, False)]:
        state = step(state, holds, now, after=60, clear=60)
        found.append(state.stage.value)
    assert found == [
        "quiet", "rising", "rising", "firing", "falling", "firing", "falling", "falling", "quiet",
    ]  # fmt: skip


def test_without_pauses_it_follows_at_once() -> None:
    state = step(State(), True, 5, after=0, clear=0)
    assert state == State(Stage.FIRING, 5)
    assert step(state, False, 6, after=0, clear=0) == State(Stage.QUIET, 6)


@pytest.mark.parametrize("stage", Stage)
def test_what_is_unknown_changes_no_alarm_and_begins_its_pause_anew(stage: Stage) -> None:
    state = step(State(stage, 0), None, 1_000, after=60, clear=60)
    assert state.stage is stage
    for holds in (True, False):
        later = step(state, holds, 1_030, after=60, clear=60)
        assert later.is_red == state.is_red


@given(EVENTS, PAUSES, PAUSES)
def test_it_turns_red_or_green_only_after_the_condition_was_so_for_the_whole_pause(
    events: list[tuple[int, bool | None]], after: float, clear: float
) -> None:
    state, now = State(), 0.0
    since = 0.0
    """Since then the condition has been as it is."""
    before: bool | None = False
    for pause, holds in events:
        now += pause
        if holds is not before:
            since, before = now, holds
        found = step(state, holds, now, after, clear)
        if found.is_red and not state.is_red:
            assert holds
            assert now - since >= after
        if state.is_red and not found.is_red:
            assert holds is False
            assert now - since >= clear
        state = found


@given(EVENTS, PAUSES, PAUSES)
def test_it_turns_as_soon_as_the_pause_is_over(
    events: list[tuple[int, bool | None]], after: float, clear: float
) -> None:
    state, now = State(), 0.0
    for pause, holds in events:
        now += pause
        state = step(state, holds, now, after, clear)
    for holds, pause in ((True, after), (False, clear)):
        now += 1
        state = step(state, holds, now, after, clear)
        state = step(state, holds, now + pause, after, clear)
        assert state.is_red is holds
        now += pause
