"""What a step after a call may say, and when it is tried again."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordboard.calls.history import CallHistory
from cordboard.calls.post_call.job import (
    FinishedCall,
    PostCallJob,
    decode,
    facts_of,
    is_hopeless,
    jobs_of,
    retry_pause,
)
from cordboard.config.call_phases import POST_CALL_VARIABLES, PostCallRetries, PostCallStep

LINES: list[dict[str, Any]] = [
    {"type": "call.offered", "at_ms": 0, "call_id": "c", "started_at": "", "source": "test",
     "caller_number": "1", "called_number": "2"},
    {"type": "agent.text", "at_ms": 1, "turn": 0, "text": "Hello."},
    {"type": "caller.stopped", "at_ms": 2, "turn": 1, "last_speech_ms": 1},
    {"type": "caller.text", "at_ms": 2, "turn": 1, "text": "A table, please.", "confidence": 1},
    {"type": "tool.asked", "at_ms": 3, "turn": 1, "ask_id": "1", "name": "book", "arguments": {}},
    {"type": "tool.answered", "at_ms": 4, "ask_id": "1", "status": "ok", "message": "Done."},
    {"type": "agent.text", "at_ms": 5, "turn": 1, "text": "You have \"a table\"."},
    {"type": "call.ended", "at_ms": 9, "outcome": "completed", "reason": "caller_hangup"},
]  # fmt: skip


def call(**more: Any) -> FinishedCall:
    facts = facts_of(CallHistory.from_lines(LINES), "2026-11-21T14:00:00", "2026-11-21T14:01:00")
    values: dict[str, Any] = {
        "call_id": "c/1",
        "context": "demo",
        "provider": "local",
        "variables": {"caller_number": "1", "customer": "Ann."},
        "facts": facts,
        "results": {"customer": {"id": 7, "tags": ["a"]}},
        "ended_at": 1_795_284_000.123,
    }
    return FinishedCall(**(values | more))


def arguments(**given: Any) -> dict[str, Any]:
    (job,) = jobs_of(call(), [PostCallStep(tool="tell", arguments=given)])
    return job.arguments


def test_the_facts_of_a_call() -> None:
    found = arguments(
        who="{call.caller_number}",
        how="{call.outcome}: {call.reason}",
        long="{call.duration_ms}",
        said="{call.transcript}",
        text="{call.transcript_text}",
        tools="{call.tools}",
        turns="{call.summary.caller_turns}",
        summary="{call.summary}",
    )
    assert found == {
        "who": "1",
        "how": "completed: caller_hangup",
        "long": 9,
        "said": [
            {"who": "agent", "text": "Hello."},
            {"who": "caller", "text": "A table, please."},
            {"who": "agent", "text": 'You have "a table".'},
        ],
        "text": 'agent: Hello.\ncaller: A table, please.\nagent: You have "a table".',
        "tools": [{"name": "book", "status": "ok", "message": "Done."}],
        "turns": 1,
        "summary": {
            "caller_turns": 1,
            "interruptions": 0,
            "tools": 1,
            "failed_tools": 0,
            "transferred_to": None,
            "troubles": [],
        },
    }


def test_every_fact_that_is_documented_is_there() -> None:
    assert call().facts.keys() == POST_CALL_VARIABLES.keys()


def test_what_was_found_before_the_call() -> None:
    found = arguments(id="{results.customer.id}", all="{results.customer}", name="{call.customer}")
    assert found == {"id": 7, "all": {"id": 7, "tags": ["a"]}, "name": "Ann."}
    assert arguments(id="{results.customer.phone}", x="{results.other|none}") == {"x": "none"}


def test_a_call_that_nobody_wrote_down_still_has_its_facts() -> None:
    facts = facts_of(CallHistory(), "", "")
    (job,) = jobs_of(call(facts=facts), [PostCallStep(tool="t", arguments={"x": "{call.tools}"})])
    assert job.arguments == {"x": []}


def test_names_and_keys_are_one_for_each_step_and_call() -> None:
    steps = [PostCallStep(tool="a"), PostCallStep(tool="a")]
    jobs = [*jobs_of(call(), steps), *jobs_of(call(ended_at=1_795_284_001.0), steps)]
    assert len({job.name for job in jobs}) == len({job.ask_id for job in jobs}) == 4
    assert all("/" not in job.name for job in jobs)
    assert jobs_of(call(), steps)[0].ask_id == jobs[0].ask_id


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@given(st.dictionaries(TEXT, TEXT | st.integers(-(2**60), 2**60) | st.none()), st.integers(0, 90))
def test_a_job_is_the_same_when_it_is_read_again(values: dict[str, Any], attempts: int) -> None:
    (job,) = jobs_of(call(), [PostCallStep(tool="a")])
    job = replace(job, arguments=values, attempts=attempts, last_error="x")
    assert decode(job.encode(), now=0) == job


def test_one_that_was_given_up_and_put_back_begins_anew() -> None:
    (job,) = jobs_of(call(), [PostCallStep(tool="a")])
    again = decode(replace(job, attempts=40, given_up=True).encode(), now=5.0)
    assert (again.attempts, again.next_at, again.given_up) == (0, 5.0, False)


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"{}", b'{"name": 1}', b"\xff", b"null"],
)
def test_what_is_no_job_is_told(content: bytes) -> None:
    with pytest.raises(ValueError, match="not a job"):
        decode(content, now=0)


def test_a_job_of_another_version_is_told() -> None:
    (job,) = jobs_of(call(), [PostCallStep(tool="a")])
    for change in ({"format": 2}, {"arguments": []}, {"attempts": "many"}, {"new": 1}):
        with pytest.raises(ValueError, match="not a job"):
            decode(json.dumps(json.loads(job.encode()) | change).encode(), now=0)


def test_pauses_double_up_to_the_longest() -> None:
    retries = PostCallRetries(first_retry_ms=1_000, max_retry_ms=5_000)
    attempts = (1, 2, 3, 4, 5, 10_000)
    assert [retry_pause(n, retries, lambda: 0.0) for n in attempts] == [1, 2, 4, 5, 5, 5]
    assert all(0.8 * 4 <= retry_pause(3, retries) <= 4 for _ in range(20))


def test_when_a_job_is_given_up() -> None:
    retries = PostCallRetries(max_attempts=3, give_up_ms=60_000)
    job = PostCallJob("n", "c", "demo", "local", 1, "a", 100.0, 100.0)
    assert not is_hopeless(replace(job, attempts=2), retries, 159.9)
    assert is_hopeless(replace(job, attempts=3), retries, 101.0)
    assert is_hopeless(replace(job, attempts=1), retries, 160.0)
