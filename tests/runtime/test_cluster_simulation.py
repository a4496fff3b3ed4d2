"""Three engines in simulated processes, with a bus, an Asterisk and callers, while two or more
things go wrong at once: no caller is in silence for good, and nothing is left of the dead.

All in virtual time. A seed stands for one course of events, from the first caller to the last.
With `CORDBOARD_SIMULATED=1000+500` the tests take the 500 seeds from 1000 on. A failure shows all
that has happened.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.runtime.cluster_world.schedule import Act, drawn, finish, happen, stop_all
from tests.runtime.cluster_world.world import World, simulated

from cordboard.runtime.membership import Membership

FIRST_SEED, SEEDS = map(int, os.environ.get("CORDBOARD_SIMULATED", "0+24").split("+"))


def course(
    acts: list[Act],
    folder: Path,
    seed: int = 0,
    prepare: Callable[[World], None] = lambda world: None,
) -> dict[str, str]:
    """Have something happen, or what the seed says; then all callers hang up, and all engines stop.
    Return why the callers' channels had ended before that; empty: they had not."""
    with simulated(seed, folder) as (world, loop):
        prepare(world)
        loop.run_until_complete(happen(world, acts or drawn(world.chance)))
        no(world, world.problems())
        ended = {name: channel.ended for name, channel in world.asterisk.callers.items()}
        loop.run_until_complete(finish(world))
        no(world, world.problems())
        loop.run_until_complete(stop_all(world))
        no(world, world.left_behind())
    return ended


def no(world: World, problems: list[str]) -> None:
    if problems:
        pytest.fail(world.story(problems), pytrace=False)


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + SEEDS))
def test_whatever_goes_wrong_each_caller_is_with_one_engine_in_the_end(
    tmp_path: Path, seed: int
) -> None:
    course([], tmp_path, seed)


def test_an_engine_that_stops_without_its_asterisk_leaves_its_callers_to_the_others(
    tmp_path: Path,
) -> None:
    """It could not even hang up; its lease is left to expire, and so the others look."""
    acts = [
        Act(6, "call"),
        Act(9, "cut_asterisk", "a", 60),
        Act(9.5, "call"),  # rings there
        Act(10, "quit", "a"),
    ]
    assert course(acts, tmp_path) == {"caller-0": "", "caller-1": ""}


def test_a_caller_whom_the_dialplan_sends_back_to_a_full_engine_is_not_left_there(
    tmp_path: Path,
) -> None:
    """Their old call there had not ended yet when they came."""
    calls = [Act(6 + number / 10, "call") for number in range(14)]
    acts = [*calls, Act(9, "kill", "c"), Act(11.8, "kill", "b")]
    assert set(course(acts, tmp_path).values()) == {"", "no engine"}


def test_calls_without_sound_and_control_go_on_in_an_engine_that_has_both(tmp_path: Path) -> None:
    """The sound ends before the engine would leave its calls for the lack of control alone."""
    acts = [Act(6, "call"), Act(9, "cut_asterisk", "a", 120)]
    assert course(acts, tmp_path) == {"caller-0": ""}


def test_the_late_record_of_a_dead_engine_takes_no_caller_out_of_their_new_call(
    tmp_path: Path,
) -> None:
    """The caller was taken as one who still rings."""
    late = [Act(9, "late_record")] * 24  # each engine takes some
    assert course([Act(6, "call"), *late], tmp_path) == {"caller-0": ""}


def test_a_caller_who_has_come_without_an_answer_of_asterisk_is_served(tmp_path: Path) -> None:
    acts = [Act(6, "call"), Act(9, "kill", "a")]

    def answers_no_move(world: World) -> None:
        world.asterisk.unanswered.add("move")

    assert course(acts, tmp_path, prepare=answers_no_move) == {"caller-0": ""}


def test_a_caller_whose_call_cannot_be_adopted_by_a_mistake_of_ours_is_hung_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def adopt(*_: object, **__: object) -> None:
        raise ValueError("a mistake")

    monkeypatch.setattr(Membership, "adopt", adopt)
    with simulated(0, tmp_path) as (world, loop):
        loop.run_until_complete(happen(world, [Act(6, "call"), Act(9, "kill", "a")]))
        assert world.asterisk.callers["caller-0"].ended.startswith("by ")
        assert {where for _, where in world.internal_errors} == {"adoption"}
        world.internal_errors.clear()
        no(world, world.problems())


def test_an_engine_that_has_not_heard_that_its_caller_was_taken_over_hangs_nobody_up(
    tmp_path: Path,
) -> None:
    """Its sound ends before the event has come: the next engine removes it."""
    cut = Act(9.1, "cut_ari", "a", 3, after="asked")
    acts = [Act(6, "call"), Act(9, "hand_over", "a"), cut]
    assert course(acts, tmp_path) == {"caller-0": ""}
