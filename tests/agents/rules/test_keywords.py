"""Utterances that fit no sentence: what a clear value beside a word of the trade is enough for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from tests.agents.rules.conftest import Talk

from cordboard.agents.rules import clauses
from cordboard.agents.rules.words import tokenise
from cordboard.config.rules import Rules
from cordboard.config.schema import Config
from cordboard.tools.tool import ToolSpec

ATIS = "mcp_aviation_atis_get_atis"
EVERYDAY = [
    json.loads(line)
    for line in (Path(__file__).parent / "corpus/everyday.jsonl").read_text().splitlines()
]


def _looked_up(talk: Talk) -> list[object]:
    return [arguments["icao"] for name, arguments in talk.asked if name == ATIS]


@pytest.mark.parametrize("row", EVERYDAY, ids=lambda row: row["heard"][:60])
async def test_everyday_sentences_as_the_recogniser_wrote_them(
    row: dict[str, Any], demo: Talk
) -> None:
    """`outcome`: looked up, asked about, or neither; an empty `wanted` must not be looked up."""
    answer = await demo.say(row["heard"])
    found = "take" if _looked_up(demo) else "ask" if "Did you mean" in answer else "none"
    assert found == row["outcome"]
    assert _looked_up(demo) in ([], [row["wanted"]])


async def test_nobody_is_asked_to_choose_between_a_thing_and_itself(demo: Talk) -> None:
    await demo.say("Bergen Flesland, Current Conditions.")
    assert _looked_up(demo) == ["ENBR"]


def test_most_everyday_questions_are_looked_up_at_once_and_no_other_sentence_is() -> None:
    questions = [row for row in EVERYDAY if row["wanted"]]
    others = [row for row in EVERYDAY if not row["wanted"]]
    assert sum(row["outcome"] == "take" for row in questions) / len(questions) > 0.9
    assert len(others) >= 70
    assert not any(row["outcome"] == "take" for row in others)


@pytest.mark.parametrize(
    "text",
    [
        "Is it snowing in Oslo or in Bergen?",
        "It isn't raining in Paris.",
        "Yesterday it rained in Trondheim, was there any fog?",
        "Goodbye, I hope it is not raining in London.",
        "It is snowing in Gothenburg, is it?",
    ],
)
async def test_what_speaks_against_a_look_up(demo: Talk, text: str) -> None:
    await demo.say(text)
    assert _looked_up(demo) == []


@pytest.mark.parametrize(
    "text", ["Is it raining at London Gatwick?", "Is there fog in New York, La Guardia?"]
)
async def test_an_unknown_name_beside_the_value_makes_it_a_question(demo: Talk, text: str) -> None:
    assert (await demo.say(text)).startswith("Did you mean")
    assert _looked_up(demo) == []


async def test_a_denied_value_is_not_taken_by_a_sentence_either(demo: Talk) -> None:
    for text in ("Not Bergen.", "I don't want the weather for London.", "Don't give me Boston."):
        await demo.say(text)
    assert _looked_up(demo) == []
    await demo.say("Don't you have the weather for London?")
    assert _looked_up(demo) == ["EGLL"]


async def test_without_keywords_no_loose_value_begins_an_intent(
    config: Config, toolbox: tuple[ToolSpec, ...]
) -> None:
    rules = config.contexts["demo"].rules
    assert rules is not None
    intents = {**rules.intents}
    intents["get_atis"] = intents["get_atis"].model_copy(update={"keywords": ()})
    talk = Talk(rules.model_copy(update={"intents": intents}), toolbox)
    assert await talk.say("I'm picking somebody up at Arlanda, is it snowing there?") == (
        "I did not get that."
    )


async def test_a_value_that_was_asked_for_is_worth_a_question_among_other_words(
    demo: Talk,
) -> None:
    await demo.say("What's the weather?")
    answer = await demo.say("Well, my sister's family moved to Bergen.")
    assert answer == "Did you mean Bergen Flesland?"
    await demo.say("yes")
    assert _looked_up(demo) == ["ENBR"]


def test_keywords_are_for_intents_with_one_list_and_have_none_themselves() -> None:
    cities = {"city": {"values": ["Oslo"]}}
    for sentences, keywords, told in (
        (["weather"], ["rain"], "one slot, filled from a list"),
        (["weather {city} {date}"], ["rain"], "one slot, filled from a list"),
        (["weather {city}"], ["rain in {city}"], "keywords have no {lists}"),
        (["weather {city}"], ["(rain"], "is never closed"),
    ):
        intents = {"weather": {"sentences": sentences, "keywords": keywords}}
        with pytest.raises(ValidationError, match="keywords") as caught:
            Rules.model_validate({"lists": cities, "intents": intents})
        assert told in str(caught.value)


@pytest.mark.parametrize(
    ("text", "denied"),
    [
        ("I do not want Oslo", True),
        ("not Oslo", True),
        ("I'm not sure, the weather in Oslo", False),
        ("Isn't it raining in Oslo", False),
        ("Why not Oslo", False),
        ("Don't give me Oslo", True),
    ],
)
def test_a_denial_reaches_the_end_of_its_clause(text: str, denied: bool) -> None:
    tokens = tokenise(text)
    place = next(number for number, token in enumerate(tokens) if token.text == "oslo")
    assert clauses.is_denied(tokens, place) is denied


def test_the_past_is_not_what_opens_a_polite_question() -> None:
    assert clauses.is_past(tokenise("I was in Stockholm"))
    assert clauses.is_past(tokenise("it rained there last year"))
    assert not clauses.is_past(tokenise("I was wondering how the weather is"))
    assert not clauses.is_past(tokenise("the last report"))
    assert not clauses.is_past(tokenise("I had better hear San Francisco"))


@given(st.text(max_size=80))
def test_words_know_where_they_stand(text: str) -> None:
    tokens = tokenise(text)
    spans = clauses.split_clauses(tokens)
    assert [place for first, last in spans for place in range(first, last)] == list(
        range(len(tokens))
    )
    for token in tokens:
        assert 0 <= token.begin <= token.end <= len(text)
        if token.end:
            assert text[token.begin : token.end].strip()


@settings(max_examples=60, deadline=None)
@given(words=st.lists(st.sampled_from("not Oslo Bergen rain is it in , . the my please".split())))
async def test_a_denied_or_second_value_is_never_looked_up(
    words: list[str], config: Config, toolbox: tuple[ToolSpec, ...]
) -> None:
    talk = Talk(config.contexts["demo"].rules, toolbox)
    await talk.say(" ".join(words))
    assert len(_looked_up(talk)) <= 1
    if words[-2:] == ["not", "Oslo"] and words.count("Oslo") == 1 and words[-3:-2] != ["is"]:
        assert "ENGM" not in _looked_up(talk)
