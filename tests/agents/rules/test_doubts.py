"""Which turns leave a name in doubt, and what other texts would mean then."""

from __future__ import annotations

import pytest
from tests.agents.rules.conftest import Talk

from cordboard.agent_api.dialogue import Doubt

ANYTHING = Doubt(names=("Oslo",))


@pytest.mark.parametrize(
    ("heard", "alike"),
    [
        ("How low are the clouds over variants at the moment?", "Vaernes"),
        ("Thanks for the main, please.", "Frankfurt am Main"),
        ("And what about Gifal?", "Schiphol"),
        ("We come from best in this morning, has it calmed down?", "Boston"),
    ],
)
async def test_words_that_make_no_sense_leave_a_name_in_doubt(
    demo: Talk, heard: str, alike: str
) -> None:
    doubt = demo.dialogue.doubt(heard)
    assert doubt is not None
    assert alike in doubt.alike
    assert {"Oslo Gardermoen", "Gardermoen", "Heathrow"} <= set(doubt.names)
    assert await demo.say(heard)
    assert demo.asked == []


@pytest.mark.parametrize(
    "heard",
    [
        "What is the weather in Oslo?",
        "Is it raining in Bergen?",
        "Yes.",
        "Goodbye.",
        "Say again?",
        "I was in Paris yesterday.",
        "I'm not interested in Bergen.",
        "Is it raining in Berlin?",
        "",
    ],
)
def test_what_was_clearly_said_is_in_no_doubt(demo: Talk, heard: str) -> None:
    assert demo.dialogue.doubt(heard) is None


@pytest.mark.parametrize(
    ("heard", "doubt"),
    [
        ("Is it raining in New York?", Doubt(("New York",), others=("Newark",))),
        ("Arlanda, please.", Doubt(("Arlanda",), others=("Orlando",))),
        ("Give me our land please.", None),
        ("What's the weather at JFK?", None),
        ("Boston.", None),
    ],
)
def test_a_name_may_be_almost_a_confusable_one(demo: Talk, heard: str, doubt: Doubt | None) -> None:
    found = demo.dialogue.doubt(heard)
    assert found == doubt if doubt else found is None or not found.others


def test_a_question_that_would_be_asked_names_its_guesses(demo: Talk) -> None:
    doubt = demo.dialogue.doubt("What's the temperature in Frankfurt, Maine?")
    assert doubt is not None
    assert doubt.guesses == {"aerodrome:EDDF"}
    assert demo.dialogue.meaning("What's the temperature in Frankfurt am Main?", doubt)
    assert demo.dialogue.meaning("What's the temperature in Boston?", doubt) == ""


async def test_a_context_without_names_never_doubts(reception: Talk) -> None:
    assert reception.dialogue.doubt("I would like some variance.") is None


def test_texts_mean_the_same_when_the_same_would_be_done(demo: Talk) -> None:
    meaning = demo.dialogue.meaning
    oslo = meaning("What is the weather in Oslo?", ANYTHING)
    assert oslo == meaning("the weather at Gardermoen", ANYTHING) != ""
    assert oslo != meaning("What is the weather in Bergen?", ANYTHING)


@pytest.mark.parametrize(
    "text",
    [
        "What is the weather?",
        "Is it raining in Berlin?",
        "Goodbye.",
        "Put me through to sales.",
        "London Gatwick.",
        "Colourless green ideas.",
    ],
)
def test_nothing_else_may_be_decided_by_another_hearing(demo: Talk, text: str) -> None:
    assert demo.dialogue.meaning(text, ANYTHING) == ""


async def test_an_answer_means_something_only_where_it_was_asked_for(demo: Talk) -> None:
    assert await demo.say("What is the weather?") == "Which aerodrome?"
    doubt = demo.dialogue.doubt("Flash lamb dunk.")
    assert doubt is not None
    assert (
        demo.dialogue.meaning("Flesland.", doubt) == demo.dialogue.meaning("Bergen.", doubt) != ""
    )
