from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cordboard.config.mcp import McpBreaker
from cordboard.mcp.supervision.breaker import Admission, Breaker, BreakerState

CALL, PROBE, REFUSED = Admission.CALL, Admission.PROBE, Admission.REFUSED


def breaker(failures: int = 2, open_ms: int = 10_000, probe_first: bool = False) -> Breaker:
    return Breaker(McpBreaker(failures=failures, open_ms=open_ms), probe_first=probe_first)


def opened() -> Breaker:
    """Open from 0 s to 10 s."""
    one = breaker()
    assert not one.unanswered(CALL, 0)
    assert one.unanswered(CALL, 0)
    return one


def test_it_opens_after_so_many_unanswered_calls_in_a_row() -> None:
    one = breaker(failures=3)
    for _ in range(2):
        assert not one.unanswered(one.admit(0), 0)
    assert not one.answered(one.admit(0))
    for _ in range(2):
        assert not one.unanswered(one.admit(0), 0)
    assert one.unanswered(one.admit(0), 0)
    assert one.state is BreakerState.OPEN
    assert one.admit(9.9) is REFUSED


def test_one_probe_decides_and_the_others_are_refused_meanwhile() -> None:
    one = opened()
    assert one.admit(10) is PROBE
    assert one.state is BreakerState.PROBING
    assert one.admit(10) is REFUSED
    assert one.answered(PROBE)
    assert one.admit(10) is CALL


def test_a_failed_probe_opens_it_again_for_as_long() -> None:
    one = opened()
    assert one.admit(10) is PROBE
    assert one.unanswered(PROBE, 12)
    assert one.admit(21.9) is REFUSED
    assert one.admit(22) is PROBE


def test_a_probe_that_its_caller_gave_up_makes_room_for_another() -> None:
    one = opened()
    assert one.admit(10) is PROBE
    one.abandoned(PROBE)
    assert one.admit(10) is PROBE


def test_a_late_answer_to_an_earlier_call_closes_it() -> None:
    one = opened()
    assert one.answered(CALL)
    assert one.admit(1) is CALL


def test_failures_of_earlier_calls_do_not_keep_it_open_for_longer() -> None:
    one = opened()
    assert not one.unanswered(CALL, 9)
    assert one.admit(10) is PROBE


def test_after_a_restart_for_hanging_the_first_call_is_a_probe() -> None:
    one = breaker(probe_first=True)
    assert [one.admit(0), one.admit(0)] == [PROBE, REFUSED]
    assert one.unanswered(PROBE, 0)


def test_zero_failures_never_open_it() -> None:
    one = breaker(failures=0)
    assert not any(one.unanswered(one.admit(0), 0) for _ in range(100))


@given(st.lists(st.sampled_from(["answered", "unanswered", "abandoned", "wait"]), max_size=60))
def test_whatever_happens_a_call_passes_again_after_the_pause(events: list[str]) -> None:
    one = breaker(failures=2, open_ms=1_000)
    now = 0.0
    for event in events:
        now += 0.4
        admission = one.admit(now)
        if event == "wait" or admission is REFUSED:
            one.abandoned(admission)
        elif event == "answered":
            one.answered(admission)
        elif event == "unanswered":
            one.unanswered(admission, now)
        else:
            one.abandoned(admission)
    assert one.admit(now + 1) is not REFUSED


def test_it_can_be_opened_by_other_evidence_unless_it_never_opens() -> None:
    one = breaker()
    assert one.trip(0)
    assert not one.trip(1)  # it is open
    assert one.admit(9.9) is REFUSED
    assert one.admit(10) is PROBE
    assert one.answered(PROBE)
    assert one.state is BreakerState.CLOSED
    assert not breaker(failures=0).trip(0)
