"""The figures of `bench turns` are only as good as its judge."""

from __future__ import annotations

import numpy as np
from bench.turns import corpus
from bench.turns.cases import TALK, TURNS, Case
from bench.turns.judge import judge_overlap, judge_turn, stages
from bench.turns.play import Played

from cordboard_testkit.timeline import Segment

SENTENCE = np.arange(1, 4000).astype(np.int16)


def played(group: str, agent: list[tuple[float, float]], **case: object) -> Played:
    """Somebody speaks from 10.0 to 12.0 s."""
    made = Case(group, "a kind", "a name", np.ones(16_000, np.int16), **case)  # type: ignore[arg-type]
    return Played(
        made, "id", said_at=10.0, said_until=12.0, agent=[Segment(*times) for times in agent]
    )


def test_the_wait_is_from_the_last_sample_to_the_next_of_the_agent() -> None:
    turn = judge_turn(played(TURNS, [(5.0, 8.0), (12.6, 14.0)]))
    assert not turn.cut_off
    assert turn.latency is not None
    assert round(turn.latency, 3) == 0.6


def test_an_agent_that_begins_in_a_pause_cuts_the_caller_off() -> None:
    pauses = ((0.5, 1.0), (1.4, 1.6))
    turn = judge_turn(played(TURNS, [(5.0, 8.0), (10.9, 11.2), (12.5, 13.0)], pauses=pauses))
    assert [cut for _, cut in turn.pauses] == [True, False]
    assert turn.cut_off
    assert turn.latency is None


def test_no_answer_is_neither_a_wait_nor_a_cut() -> None:
    turn = judge_turn(played(TURNS, [(5.0, 8.0)]))
    assert (turn.cut_off, turn.latency) == (False, None)


def test_an_interruption_is_obeyed_when_the_agent_stops_and_stays_silent() -> None:
    gave_up = [{"type": "agent.interrupted", "at_ms": 3, "reaction_ms": 90, "decision_ms": 300}]
    obeyed = judge_overlap(played(TALK, [(8.0, 10.2), (12.5, 13.0)]), SENTENCE, gave_up, True)
    assert obeyed.obeyed
    assert obeyed.yielded is not None
    assert round(obeyed.yielded, 3) == 0.2
    went_on = judge_overlap(played(TALK, [(8.0, 10.2), (10.8, 11.5)]), SENTENCE, gave_up, True)
    too_late = judge_overlap(played(TALK, [(8.0, 11.4)]), SENTENCE, gave_up, True)
    silent_before = judge_overlap(played(TALK, [(8.0, 9.5)]), SENTENCE, gave_up, True)
    passed = judge_overlap(played(TALK, [(8.0, 10.2), (12.5, 13.0)]), SENTENCE, [], True)
    assert not any(one.obeyed for one in (went_on, too_late, silent_before, passed))
    assert silent_before.cut_before


def test_a_sentence_is_whole_only_to_the_sample() -> None:
    one = played(TALK, [(8.0, 15.0)])
    ledger = [
        {"type": "agent.held", "at_ms": 1, "onset_ms": 0},
        {"type": "agent.resumed", "at_ms": 2, "why": "backchannel", "held_ms": 320},
        {"type": "agent.interrupted", "at_ms": 3, "reaction_ms": 90, "decision_ms": 730},
    ]
    one.heard = np.concatenate((SENTENCE, SENTENCE[:10]))  # it says something else afterwards
    whole = judge_overlap(one, SENTENCE, ledger, False)
    assert (whole.whole, whole.held, whole.dismissed) == (True, 1, ["backchannel"])
    assert whole.cut
    assert not judge_overlap(one, SENTENCE, ledger[:2], False).cut
    assert whole.decided == [0.32, 0.64], "without the time until the agent was silent"
    one.heard = np.delete(SENTENCE, 700)
    assert not judge_overlap(one, SENTENCE, ledger, False).whole


def test_the_stages_of_a_ledger_are_seconds() -> None:
    line = {"type": "turn.latency", "at_ms": 9, "turn": 1, "endpoint_ms": 480, "total_ms": 510}
    assert stages([{"type": "caller.text"}, line]) == {"endpoint": 0.48, "total": 0.51}


def test_no_prompt_is_in_both_halves_and_neither_half_is_poor() -> None:
    halves = {half: [n for n in corpus.FINISHED if corpus.half_of(n) == half] for half in
              ("tune", "held-out")}  # fmt: skip
    assert min(map(len, halves.values())) >= 25
    assert {name for name, _ in corpus.CUTS} <= set(corpus.FINISHED)
    cuts = [corpus.half_of(name) for name, _ in corpus.CUTS]
    assert min(cuts.count("tune"), cuts.count("held-out")) >= 15
    for pool in (corpus.JOINED, corpus.DICTATED, corpus.SHORT):
        tune, held_out = corpus.of_half(pool, "tune"), corpus.of_half(pool, "held-out")
        assert not set(tune) & set(held_out)
