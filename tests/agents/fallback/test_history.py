"""What a conversation so far holds, after all that may happen in one."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from cordboard.agent_api.agent import (
    AgentAudio,
    AgentAudioDone,
    AgentEvent,
    AgentText,
    AgentWords,
    CallerStarted,
    CallerStopped,
    CallerText,
    Interrupted,
    Said,
)
from cordboard.agent_api.speech import Speech
from cordboard.agents.fallback.history import MOST_ENTRIES, SharedHistory


def after(*events: AgentEvent) -> SharedHistory:
    so_far = SharedHistory()
    for event in events:
        so_far.take(event)
    return so_far


def turn(number: int, text: str) -> tuple[AgentEvent, ...]:
    return CallerStarted(0.0), CallerStopped(number, 0.0, 0.0), CallerText(number, text, 0.0)


def answer(number: int, *sentences: str) -> tuple[AgentEvent, ...]:
    spoken = [(AgentText(number, text, 0.0), AgentAudio(number, b"..")) for text in sentences]
    return (*[event for pair in spoken for event in pair], AgentAudioDone(number))


def test_both_sides_in_order_sentences_joined() -> None:
    so_far = after(*answer(0, "Hi.", "I am Ada."), *turn(1, "Hello."), *answer(1, "Yes?"))
    assert so_far.history() == (
        Said("agent", "Hi. I am Ada."),
        Said("caller", "Hello."),
        Said("agent", "Yes?"),
    )
    assert not so_far.owes_answer


def test_words_beside_the_sound() -> None:
    so_far = after(AgentText(0, "", 0.0), AgentWords(0, "Good"), AgentWords(0, " day."))
    assert so_far.history() == (Said("agent", "Good day."),)


def test_what_was_understood_counts_not_what_was_written() -> None:
    so_far = after(CallerStopped(1, 0, 0), CallerText(1, "burden", 0.0, understood="Bergen"))
    assert so_far.history() == (Said("caller", "Bergen"),)


def test_words_of_the_caller_that_come_after_the_answer_began() -> None:
    so_far = after(
        CallerStopped(1, 0, 0),
        AgentText(1, "Sunny.", 0.0),
        CallerText(1, "Weather?", 0.0),
        AgentAudioDone(1),
    )
    assert so_far.history() == (Said("caller", "Weather?"), Said("agent", "Sunny."))


def test_of_an_answer_that_was_cut_what_was_heard() -> None:
    so_far = after(*turn(1, "Tell."), *answer(1, "Once upon a time.", "There was a king."))
    so_far.interrupted("Once upon", 1)
    assert so_far.history() == (Said("caller", "Tell."), Said("agent", "Once upon"))
    so_far = after(*turn(1, "Tell."), *answer(1, "Once."))
    so_far.interrupted("", 1)
    assert so_far.history() == (Said("caller", "Tell."),)


def test_a_cut_takes_nothing_back_that_was_said_before() -> None:
    so_far = SharedHistory((Said("agent", "Earlier."),))
    for event in (*answer(0, "Hi."), *turn(1, "A."), *answer(1, "B.")):
        so_far.take(event)
    so_far.interrupted("", 0)
    assert so_far.history() == (Said("agent", "Earlier."), Said("caller", "A."))


def test_what_had_no_sound_when_the_caller_cut_in_was_not_heard() -> None:
    so_far = after(*turn(1, "Tell."), AgentText(1, "Once.", 0.0), Interrupted(0.0))
    assert so_far.history() == (Said("caller", "Tell."),)


def test_fillers_are_no_part_of_it_and_answer_nothing() -> None:
    so_far = after(*turn(1, "Weather?"))
    _, *rest = answer(1, "One moment.")
    filler = Speech("One moment.", "filler")
    for event in (AgentText(1, filler.text, 0.0, filler), *rest):
        so_far.take(event)
    assert so_far.history() == (Said("caller", "Weather?"),)
    assert so_far.owes_answer
    for event in answer(1, "One moment."):  # said once more, now by the agent itself
        so_far.take(event)
    assert so_far.history()[-1] == Said("agent", "One moment.")
    assert not so_far.owes_answer


def test_to_answer_the_caller_has_the_last_word() -> None:
    so_far = after(*turn(1, "A?"), *answer(1, "B."), *turn(2, "C?"), AgentText(2, "D", 0.0))
    assert so_far.history()[-1] == Said("agent", "D")
    assert so_far.history(to_answer=True)[-1] == Said("caller", "C?")
    assert not so_far.lacks_words
    assert so_far.open_turn == 2


def test_a_turn_without_words() -> None:
    assert after(CallerStarted(0.0)).caller_speaks
    stopped = after(CallerStarted(0.0), CallerStopped(1, 0, 0))
    assert not stopped.caller_speaks
    assert stopped.lacks_words
    not_understood = after(*turn(1, ""))
    assert not not_understood.lacks_words
    assert not_understood.history() == ()


EVENTS = st.one_of(
    st.builds(CallerStarted, st.just(0.0)),
    st.builds(CallerStopped, st.integers(0, 5), st.just(0.0), st.just(0.0)),
    st.builds(CallerText, st.integers(0, 5), st.sampled_from(["", "a", "b"]), st.just(0.0)),
    st.builds(AgentText, st.integers(0, 5), st.sampled_from(["", "x", "y"]), st.just(0.0)),
    st.builds(AgentWords, st.integers(0, 5), st.sampled_from([" z", "w"])),
    st.builds(AgentAudio, st.integers(0, 5), st.just(b"..")),
    st.builds(AgentAudioDone, st.integers(0, 5)),
    st.builds(Interrupted, st.just(0.0)),
    st.tuples(st.sampled_from(["", "x"]), st.integers(0, 5)),
)


@given(st.lists(EVENTS, max_size=40))
def test_in_whatever_order_events_come(events: list[AgentEvent | tuple[str, int]]) -> None:
    so_far = SharedHistory()
    for event in events:
        if isinstance(event, tuple):
            so_far.interrupted(*event)
        else:
            so_far.take(event)
        history = so_far.history()
        assert all(said.text for said in history)
        assert all(a.who != b.who for a, b in pairwise(history))
        so_far.history(to_answer=True)


def test_a_long_conversation_is_forgotten_from_its_beginning() -> None:
    so_far = SharedHistory()
    for number in range(1, MOST_ENTRIES):
        for event in (*turn(number, f"Q{number}"), *answer(number, f"A{number}")):
            so_far.take(event)
    history = so_far.history()
    assert len(history) == MOST_ENTRIES
    assert history[-1] == Said("agent", f"A{MOST_ENTRIES - 1}")
