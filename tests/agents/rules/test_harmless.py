"""Look-ups that do no harm begin at once: what one clearly named value is enough for, and when not.

`corpus/stories.jsonl` is written by hand, as pilots, dispatchers, relatives and travellers talk,
with sentences that name an aerodrome and ask for no weather (`other`). It was written in three
parts, and the rules were changed after each. When they were new, 10 of the first 66 questions were
looked up at once (that was before these rules), 57 of the next 60, 36 of the last 40; of the other
sentences 2 of 42, 8 of 40 and 2 of 20.
"""

from __future__ import annotations

import json
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from tests.agents.rules.conftest import TODAY, Talk

from cordboard.agent_api.dialogue import DialogueSession
from cordboard.agents.rules import RulesBrain, stories
from cordboard.agents.rules.keywords import is_harmless
from cordboard.agents.rules.words import tokenise
from cordboard.config.rules import Intent, Rules
from cordboard.config.schema import Config
from cordboard.tools.tool import Effects, JsonObject, Status, ToolReply, ToolSpec

ATIS = "mcp_aviation_atis_get_atis"
STORIES = [
    json.loads(line)
    for line in (Path(__file__).parent / "corpus/stories.jsonl").read_text().splitlines()
]


def _looked_up(talk: Talk) -> list[object]:
    return [arguments["icao"] for name, arguments in talk.asked if name == ATIS]


async def _outcomes(brain: RulesBrain, toolbox: tuple[ToolSpec, ...]) -> list[dict[str, Any]]:
    """The rows of `STORIES`, each as the first words of a call, that came out otherwise."""
    changed = []
    for row in STORIES:
        codes: list[object] = []

        async def run(
            name: str,
            arguments: JsonObject,
            *,
            confirmed: bool = False,
            codes: list[object] = codes,
        ) -> ToolReply:
            codes += [arguments["icao"]] if name == ATIS else []
            return ToolReply("1", name, Status.OK, "Reply.", {})

        dialogue = brain.open(DialogueSession("", toolbox, run))
        answer = " ".join([sentence async for sentence in dialogue.respond(row["heard"])])
        found = "take" if codes else "ask" if "Did you mean" in answer else "none"
        if found != row["outcome"] or codes not in ([], [row["wanted"]]):
            changed.append({**row, "found": found, "looked_up": codes})
    return changed


async def test_stories_are_understood_as_they_were(
    config: Config, toolbox: tuple[ToolSpec, ...]
) -> None:
    brain = RulesBrain(config.contexts["demo"].rules, today=lambda: TODAY)
    assert await _outcomes(brain, toolbox) == []


def test_questions_are_looked_up_at_once_and_nothing_else_is() -> None:
    questions = [row for row in STORIES if row["wanted"]]
    others = [row for row in STORIES if not row["wanted"]]
    assert len(questions) >= 160
    assert len(others) >= 100
    assert {row["who"] for row in questions} == {"pilot", "dispatcher", "relative", "traveller"}
    assert sum(row["outcome"] == "take" for row in questions) / len(questions) > 0.97
    assert not any(row["outcome"] == "take" for row in others)


@pytest.mark.parametrize(
    ("turns", "codes"),
    [
        (["My husband lands at Heathrow tonight.", "Is it windy there?"], ["EGLL", "EGLL"]),
        (["London Gatwick.", "Is it windy there?"], []),
        (["How much is a hotel in Bergen?", "And is it raining there?"], ["ENBR"]),
        (["How much is a hotel in Bergen?", "Is there any fog?"], []),
        (["How much is a hotel in Bergen?", "Hello there."], []),
        (["Is it colder in Oslo or in Bergen?", "Is it windy there?"], []),
        (["I'm not flying to Oslo.", "What is the weather there?"], []),
        (["How much is a hotel in Bergen?", "Help.", "Is it windy there?"], []),
        (["How much is a hotel in Bergen?", "Is it windy there, in Oslo?"], ["ENGM"]),
        (["My husband is stuck at Heathrow.", "Is it snowing in Gothenburg?"], ["EGLL"]),
        (["My husband is stuck at Heathrow.", "Is it windy there in gothenburg?"], ["EGLL"]),
        (["My husband is stuck at Heathrow.", "What is the weather?"], ["EGLL"]),
    ],
)
async def test_there_is_the_place_of_the_turn_before(
    demo: Talk, turns: list[str], codes: list[str]
) -> None:
    for text in turns:
        await demo.say(text)
    assert _looked_up(demo) == codes


@pytest.mark.parametrize("said", ["Is it still snowing?", "Can you read me the ATIS?"])
async def test_a_question_in_two_turns_is_about_the_place_named_in_the_first(
    demo: Talk, said: str
) -> None:
    """The recogniser took a pause for the end: the caller goes on while the answer begins."""
    async with aclosing(demo.dialogue.respond("I'm driving to Arlanda now.")) as sentences:  # type: ignore[type-var]
        await anext(sentences)
        demo.dialogue.interrupted("")
    await demo.say(said)
    assert _looked_up(demo) == ["ESSA", "ESSA"]
    await demo.say("Is it snowing in Gothenburg?")
    await demo.say("What is the weather?")
    assert _looked_up(demo) == ["ESSA", "ESSA"]


async def test_of_two_values_the_caller_is_asked_which(demo: Talk) -> None:
    answer = await demo.say("Is it colder in Bergen or in Oslo?")
    assert answer == "Did you mean Bergen Flesland or Oslo Gardermoen?"
    await demo.say("the second one")
    assert _looked_up(demo) == ["ENGM"]


async def test_a_correction_takes_back_what_was_said_before(demo: Talk) -> None:
    await demo.say("What's new at Oslo, sorry, I meant Bergen?")
    await demo.say("Paris, no, Frankfurt.")
    assert _looked_up(demo) == ["ENBR", "EDDF"]


@pytest.mark.parametrize("harmless", [True, False, None])
async def test_what_may_do_harm_is_asked_about_as_before(
    harmless: bool | None, config: Config, toolbox: tuple[ToolSpec, ...]
) -> None:
    rules = config.contexts["demo"].rules
    assert rules is not None
    intent = rules.intents["get_atis"].model_copy(update={"harmless": harmless})
    changed = rules.model_copy(update={"intents": {**rules.intents, "get_atis": intent}})
    talk = Talk(changed, toolbox)
    await talk.say("My husband is stuck in Bergen.")
    assert _looked_up(talk) == (["ENBR"] if harmless else [])


async def test_a_list_that_another_intent_takes_too_needs_a_keyword(
    toolbox: tuple[ToolSpec, ...],
) -> None:
    rules = Rules.model_validate(
        {
            "lists": {"city": {"values": ["Oslo", "Bergen"]}},
            "intents": {
                "weather": {
                    "sentences": ["weather {city}"],
                    "keywords": ["(rain|snow)"],
                    "unless": ["(train|trains)"],
                    "say": "Weather of {city}.",
                },
                "time": {"sentences": ["time in {city}"], "say": "Time in {city}."},
            },
        }
    )
    said = "My sister moves to Bergen tomorrow"
    assert "Weather" not in await Talk(rules, toolbox).say(f"{said}.")
    assert await Talk(rules, toolbox).say(f"{said}, will it snow?") == "Weather of Bergen."
    alone = rules.model_copy(update={"intents": {"weather": rules.intents["weather"]}})
    assert await Talk(alone, toolbox).say(f"{said}.") == "Weather of Bergen."
    assert "Weather" not in await Talk(alone, toolbox).say(f"{said} by the trains.")


def test_what_only_reads_is_harmless_unless_the_operator_says_otherwise() -> None:
    def tool(effects: Effects) -> ToolSpec:
        return ToolSpec("look", "mcp", "", {}, effects=effects)

    reads, acts = tool(Effects.READ_ONLY), tool(Effects.DESTRUCTIVE)
    intent = Intent(tool="look")
    assert is_harmless(intent, [reads])
    assert not is_harmless(intent, [acts])
    assert not is_harmless(intent, [])
    assert is_harmless(Intent(say="Eight to four."), [])
    assert is_harmless(Intent(tool="look", harmless=True), [acts])
    assert not is_harmless(Intent(tool="look", harmless=False), [reads])
    for kept in ({"confirm": "Sure?"}, {"hang_up": True}, {"transfer": "sales", "tool": None}):
        assert not is_harmless(Intent(**{"tool": "look", "harmless": True, **kept}), [reads])


def test_unless_has_no_lists_and_needs_keywords() -> None:
    cities = {"city": {"values": ["Oslo"]}}
    for intent, told in (
        ({"keywords": ["rain"], "unless": ["train to {city}"]}, "unless have no {lists}"),
        ({"unless": ["train"]}, "only beside keywords"),
    ):
        weather = {"sentences": ["weather {city}"], **intent}
        with pytest.raises(ValidationError, match="unless") as caught:
            Rules.model_validate({"lists": cities, "intents": {"weather": weather}})
        assert told in str(caught.value)


@pytest.mark.parametrize(
    ("text", "person"),
    [
        ("Mr. Oslo speaking", True),
        ("My name is Oslo", True),
        ("This is Oslo from dispatch", True),
        ("my son Oslo is here", True),
        ("Oslo here, good morning", True),
        ("My name is Anna and I am in Oslo", False),
        ("I'm calling about Oslo, my son lands there", False),
        ("This is about Oslo", False),
    ],
)
def test_a_person_is_no_place(text: str, person: bool) -> None:
    tokens = tokenise(text)
    place = next(number for number, token in enumerate(tokens) if token.text == "oslo")
    assert stories.is_person(tokens, place, place + 1) is person


@pytest.mark.parametrize(
    ("text", "rejected"),
    [
        ("not Oslo but Bergen", True),
        ("not Bergen but Oslo", False),
        ("anything but Oslo", True),
        ("cancel my flight to Oslo", True),
        ("that's all for Oslo", True),
        ("we haven't received Oslo yet", False),
        ("I don't have the report for Oslo", False),
        ("I don't want the report for Oslo", True),
        ("I'm not sure about Oslo", False),
        ("Bergen instead of Oslo", True),
    ],
)
def test_what_is_not_wanted(text: str, rejected: bool) -> None:
    tokens = tokenise(text)
    place = next(number for number, token in enumerate(tokens) if token.text == "oslo")
    assert stories.is_rejected(tokens, place) is rejected


def test_there_is_a_place_or_a_little_word() -> None:
    for text in ("is it windy there", "what is it like over there, please"):
        assert stories.points_there(tokenise(text))
    for text in ("is there any fog", "there is fog", "hello there", "are there clouds"):
        assert not stories.points_there(tokenise(text))
