"""Which job is next."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cordboard.calls.post_call.schedule import UNKNOWN, JobSchedule


def schedule(*jobs: tuple[str, str, float], at_once: int = 4, per_tool: int = 2) -> JobSchedule:
    found = JobSchedule(at_once, per_tool)
    for name, tool, at in jobs:
        found.put(name, tool, at)
    return found


def test_what_is_due_is_begun_in_its_order() -> None:
    found = schedule(("b", "t", 2.0), ("a", "t", 1.0), ("c", "t", 9.0))
    assert found.next_at() == 1.0
    assert found.take(5.0) == ["a", "b"]
    assert found.take(99.0) == []
    found.forget("a")
    found.stopped("a")
    assert found.next_at() == 9.0
    assert len(found) == 2


def test_a_tool_that_is_stuck_holds_up_no_other() -> None:
    stuck = [(f"s{number}", "dead", 0.0) for number in range(100)]
    found = schedule(*stuck, ("x", "fine", 5.0))
    assert len(found.take(1.0)) == 2
    assert found.next_at() == 5.0
    assert found.take(5.0) == ["x"]
    assert found.next_at() is None


def test_there_are_never_too_many_at_once() -> None:
    found = schedule(*((f"{number}", f"tool{number}", 0.0) for number in range(9)))
    assert len(found.take(0.0)) == 4
    assert found.running == 4
    assert found.next_at() is None


def test_files_that_are_not_read_yet_are_only_bound_by_the_whole() -> None:
    found = schedule(*((f"{number}", UNKNOWN, 0.0) for number in range(9)))
    assert len(found.take(0.0)) == 4


def test_one_that_failed_comes_again_when_it_has_stopped() -> None:
    found = schedule(("a", UNKNOWN, 0.0))
    assert found.take(0.0) == ["a"]
    found.put("a", "t", 3.0)
    assert found.take(9.0) == []
    assert found.is_running("a")
    found.stopped("a")
    assert found.next_at() == 3.0
    assert found.take(3.0) == ["a"]


def test_what_was_said_last_holds() -> None:
    found = schedule(("a", "t", 1.0), ("a", "u", 7.0), ("b", "t", 2.0))
    found.forget("b")
    assert found.take(5.0) == []
    assert found.next_at() == 7.0
    assert "b" not in found
    assert list(found) == ["a"]


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["put", "take", "stopped", "forget"]),
        st.sampled_from("abcdef"),
        st.sampled_from(["", "t", "u"]),
        st.integers(0, 5),
    ),
    max_size=60,
)


@given(STEPS)
def test_no_job_is_lost_or_begun_twice(steps: list[tuple[str, str, str, int]]) -> None:
    found = JobSchedule(3, 2)
    known: dict[str, float] = {}
    running: set[str] = set()
    for what, name, tool, at in steps:
        if what == "put":
            found.put(name, tool, at)
            known[name] = at
        elif what == "forget":
            found.forget(name)
            known.pop(name, None)
        elif what == "stopped":
            found.stopped(name)
            running.discard(name)
        else:
            taken = set(found.take(at))
            assert len(taken) == len(set(taken))
            assert not taken & running
            assert all(known[one] <= at for one in taken)
            running |= taken
        assert found.running == len(running) <= 3
    for name in tuple(running):
        found.stopped(name)
    left: set[str] = set()
    while taken := set(found.take(9)):
        left |= taken
        for name in taken:
            found.forget(name)
            found.stopped(name)
    assert left == known.keys()
    assert found.next_at() is None
