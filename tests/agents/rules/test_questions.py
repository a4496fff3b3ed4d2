"""A denial or a past binds within its statement; a question beside it is about the place."""

from __future__ import annotations

import pytest
from tests.agents.rules.conftest import Talk

from cordboard.agents.rules.clauses import split_statements
from cordboard.agents.rules.words import tokenise

ATIS = "mcp_aviation_atis_get_atis"


def looked_up(talk: Talk) -> list[object]:
    return [arguments["icao"] for name, arguments in talk.asked if name == ATIS]


@pytest.mark.parametrize(
    ("heard", "code"),
    [
        ("I have never been to Bergen and I'm scared of flying. Is it stormy?", "ENBR"),
        ("We were stuck in Boston yesterday. Is it still snowing?", "KBOS"),
        ("My train to Arlanda was cancelled would snow be the reason", "ESSA"),
        ("My sister hasn't landed in Paris yet and I wonder, is it foggy?", "LFPG"),
        ("They told us there was fog in Frankfurt. Is that still the case?", "EDDF"),
        ("I flew out of Logan this morning. Has it cleared up there?", "KBOS"),
        ("I've never landed at Kennedy at night, so I'd like the weather.", "KJFK"),
        ("Is it true that the fog hasn't lifted in Copenhagen?", "EKCH"),
        ("We never got the report for Frankfurt.", "EDDF"),
        ("We drive up to Trondheim to Fetch Grandma. So what is it like at the airport?", "ENVA"),
        ("It rained in Bergen all week. Any rain now?", "ENBR"),
        ("It was awful in London this morning. Is it any better?", "EGLL"),
        ("I heard there was lightning at Arlanda.", "ESSA"),
        ("I hope it isn't foggy in San Francisco.", "KSFO"),
        ("I don't suppose you have the weather for Oslo?", "ENGM"),
        ("We haven't had an update for Vaernes in hours.", "ENVA"),
    ],
)
async def test_what_is_asked_now_is_looked_up(demo: Talk, heard: str, code: str) -> None:
    await demo.say(heard)
    assert looked_up(demo) == [code]


@pytest.mark.parametrize(
    "heard",
    [
        "I have never flown to New York before and I am nervous.",
        "I don't want Oslo. What is the weather?",
        "Not Bergen. Is it windy?",
        "Forget Paris. Is it raining?",
        "It rained in Trondheim yesterday, didn't it?",
        "We were in Oslo last week and it was cold.",
        "I was in Oslo yesterday. Is it snowing in Gothenburg?",
        "We flew out of Boston on Sunday and it was lovely.",
        "I was in Paris. I lost my bag there, who do I call?",
        "I'm not flying to Oslo. What is the weather like?",
        "They told us it was snowing in Oslo two days ago.",
        "I've just come back from Frankfurt, it was great.",
    ],
)
async def test_what_is_told_or_not_wanted_is_not(demo: Talk, heard: str) -> None:
    await demo.say(heard)
    assert looked_up(demo) == []


@pytest.mark.parametrize(
    ("story", "question", "codes"),
    [
        ("I have never flown to New York before and I am nervous.", "Is it stormy?", ["KJFK"]),
        (
            "It said on the news that Bergen had floods.",
            "What is it like at the airport?",
            ["ENBR"],
        ),
        ("I don't want Oslo.", "Is it stormy?", []),
        ("How much is a hotel in Bergen?", "Is it stormy?", []),
        ("I was in Paris yesterday.", "Is it raining in Gothenburg?", []),
    ],
)
async def test_the_question_may_come_after_a_pause(
    demo: Talk, story: str, question: str, codes: list[str]
) -> None:
    await demo.say(story)
    assert looked_up(demo) == []
    await demo.say(question)
    assert looked_up(demo) == codes


@pytest.mark.parametrize(
    ("text", "statements"),
    [
        ("never there and I am nervous", ["never there", "and i am nervous"]),
        ("his plane was cancelled would snow be the reason",
         ["his plane was cancelled", "would snow be the reason"]),
        ("the weather will soon be fine", ["the weather will soon be fine"]),
        ("I land in Oslo is it cold", ["i land in oslo", "is it cold"]),
        ("how cold is it in Oslo", ["how cold is it in oslo"]),
        ("Oslo and Bergen", ["oslo and bergen"]),
        ("I know, but what about Oslo", ["i know", "but what about oslo"]),
    ],
)  # fmt: skip
def test_statements_have_a_subject_and_a_verb_of_their_own(
    text: str, statements: list[str]
) -> None:
    tokens = tokenise(text)
    found = split_statements(tokens)
    assert [" ".join(t.text for t in tokens[a:b]) for a, b in found] == statements
