"""Utterances that fit no sentence: what words and values are enough for, what is asked about."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.trades import load_trade
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from tests.agents.rules.conftest import Talk

from cordboard.agents.rules.grammar import is_harmless
from cordboard.agents.rules.words import denied_places, stem, tokenise
from cordboard.config.rules import Intent, Rules
from cordboard.config.schema import Config
from cordboard.tools.tool import Effects, ToolSpec

ATIS = "mcp_aviation_atis_get_atis"
TRADES = Path(__file__).parents[3] / "bench" / "trades"


def _looked_up(talk: Talk) -> list[object]:
    return [arguments["icao"] for name, arguments in talk.asked if name == ATIS]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("I'm picking somebody up at Arlanda, is it snowing there?", "ESSA"),
        ("Is it raining in Oslo?", "ENGM"),
        ("They cancelled my train, so now I fly to Arlanda. Any snow up there?", "ESSA"),
        ("How strong is the wind at Vaernes?", "ENVA"),
        ("Don't you have the weather for London?", "EGLL"),
        ("I don't want Oslo, I want the weather for Bergen.", "ENBR"),
        ("What's the weather at Oslo, sorry, I meant Bergen?", "ENBR"),
    ],
)
async def test_a_word_of_the_trade_and_a_value_are_enough(demo: Talk, text: str, code: str) -> None:
    await demo.say(text)
    assert _looked_up(demo) == [code]


@pytest.mark.parametrize(
    "text",
    [
        "My brother lives in Bergen now.",
        "I was in Paris yesterday.",
        "It isn't raining in Paris.",
        "We had terrible weather in Amsterdam yesterday.",
        "Goodbye, I hope it is not raining in London.",
        "I am in Oslo, is it raining in Gothenburg?",
        "My name is Boston.",
        "John Kennedy speaking.",
        "Forget Bergen.",
        "Not Bergen.",
        "I don't want the weather for London.",
        "Don't give me Boston.",
        "No more Amsterdam, thank you.",
        "How much is a hotel in Bergen?",
    ],
)
async def test_nothing_is_done_where_it_may_not_be_wanted(demo: Talk, text: str) -> None:
    await demo.say(text)
    assert demo.asked == []


@pytest.mark.parametrize("text", ["What is the weather?", "Sorry about your dog.", "Right so."])
async def test_without_rules_a_question_is_not_understood(text: str) -> None:
    assert await Talk(Rules(), (), greeting="Hi.").say(text) != "Hi."


async def test_a_value_alone_is_worth_a_question(demo: Talk) -> None:
    answer = await demo.say("My brother lives in Bergen now.")
    assert answer == "Did you mean the weather?"
    await demo.say("yes please")
    assert _looked_up(demo) == ["ENBR"]


@pytest.mark.parametrize(
    "text", ["Is it raining at London Gatwick?", "Is there fog in New York, La Guardia?"]
)
async def test_an_unknown_name_beside_the_value_makes_it_a_question(demo: Talk, text: str) -> None:
    assert (await demo.say(text)).startswith("Did you mean")
    assert _looked_up(demo) == []


async def test_of_two_values_the_caller_is_asked_which(demo: Talk) -> None:
    answer = await demo.say("Is it raining in Bergen or in Oslo?")
    assert answer == "Did you mean Bergen Flesland or Oslo Gardermoen?"
    await demo.say("the second one")
    assert _looked_up(demo) == ["ENGM"]


async def test_a_bare_place_between_two_intents_is_asked_about() -> None:
    rules = Rules.model_validate(
        {
            "lists": {"city": {"values": ["Oslo", "Bergen"]}},
            "intents": {
                "weather": {
                    "title": "the weather",
                    "sentences": ["weather {city}"],
                    "keywords": ["(rain|snow)"],
                    "say": "Weather of {city}.",
                },
                "time": {
                    "title": "the time",
                    "sentences": ["time in {city}"],
                    "say": "Time in {city}.",
                },
            },
        }
    )
    said = "My sister moves to Bergen tomorrow"
    answer = await Talk(rules, ()).say(f"{said}.")
    assert answer == "Did you mean the weather or the time?"
    assert await Talk(rules, ()).say(f"{said}, will it snow?") == "Weather of Bergen."


@pytest.mark.parametrize("harmless", [True, False])
async def test_what_may_do_harm_is_asked_about_first(harmless: bool) -> None:
    rules = Rules.model_validate(
        {
            "lists": {"door": {"values": ["garage", "gate"]}},
            "intents": {
                "open": {
                    "title": "opening a door",
                    "sentences": ["open the {door}"],
                    "keywords": ["unlock"],
                    "tool": "open_door",
                    "harmless": harmless,
                }
            },
        }
    )
    acts = ToolSpec("open_door", "mcp", "", {}, effects=Effects.DESTRUCTIVE)
    talk = Talk(rules, (acts,))
    answer = await talk.say("can somebody unlock that big old garage for my uncle")
    assert bool(talk.asked) == harmless
    if not harmless:
        assert answer == "Did you mean opening a door?"
        await talk.say("yes")
        assert talk.asked == [("open_door", {"door": "garage"})]


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


def test_keywords_have_no_lists() -> None:
    for key, words, told in (
        ("keywords", ["rain in {city}"], "keywords have no {lists}"),
        ("keywords", ["(rain"], "is never closed"),
    ):
        intents = {"weather": {"sentences": ["weather {city}"], key: words}}
        with pytest.raises(ValidationError) as caught:
            Rules.model_validate({"lists": {"city": {"values": ["Oslo"]}}, "intents": intents})
        assert told in str(caught.value)


@pytest.mark.parametrize(
    ("text", "denied"),
    [
        ("I do not want Oslo", True),
        ("not Oslo", True),
        ("not Oslo but Bergen", True),
        ("I'm not sure, the weather in Oslo", False),
        ("Isn't it raining in Oslo", False),
        ("Why not Oslo", False),
        ("Don't give me Oslo", True),
        ("Not Bergen, Oslo", False),
        ("not Bergen but Oslo", False),
    ],
)
def test_a_denial_reaches_the_end_of_its_clause(text: str, denied: bool) -> None:
    tokens = tokenise(text)
    place = next(number for number, token in enumerate(tokens) if token.text == "oslo")
    assert (place in denied_places(tokens)) is denied


def test_endings_do_not_matter() -> None:
    for words in ("close closes closed closing", "book books booked booking", "fog foggy fogged"):
        assert len({stem(word) for word in words.split()}) == 1


@pytest.mark.parametrize("said", ["B T nine two", "B for Bravo T as in Tango nine two", "bt92"])
async def test_a_code_has_letters_and_figures(said: str) -> None:
    trade = load_trade(TRADES / "salon.yaml")
    talk = Talk(trade.brain, trade.toolbox)
    assert await talk.say("I want to cancel my appointment.") == "Your booking code?"
    assert await talk.say(said) == "Shall I cancel B T 9 2?"
    await talk.say("yes")
    assert talk.asked == [("cancel", {"code": "BT92"})]


async def test_slots_are_filled_in_any_order_and_corrected() -> None:
    trade = load_trade(TRADES / "salon.yaml")
    talk = Talk(trade.brain, trade.toolbox)
    answer = await talk.say("at three on friday no saturday I need an appointment, a blow dry")
    assert answer.startswith("A blow dry on Saturday the twenty eighth of November at three")
    assert talk.asked == []


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


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("Can I get an appointment on Thursday?", "Which one?"),
        ("When can I have an appointment?", "Which one?"),
        ("I would like some more time for an appointment", "Which one?"),
        ("got", "Did you mean cut?"),
    ],
)
async def test_a_common_word_among_others_is_no_misheard_value(text: str, answer: str) -> None:
    booking = {
        "sentences": ["[make] an appointment [for] [a] [{service}]"],
        "slots": {"service": {"ask": "Which one?"}},
        "confirm": "A {service}?",
    }
    lists = {"service": {"values": ["cut", "van", "Sam"]}}
    talk = Talk(Rules.model_validate({"lists": lists, "intents": {"booking": booking}}), ())
    if " " not in text:
        await talk.say("an appointment")
    assert await talk.say(text) == answer


SALON = Rules.model_validate(
    {
        "lists": {"service": {"values": ["haircut", "blow dry"]}},
        "intents": {
            "book": {
                "title": "an appointment",
                "sentences": ["[i want] [make] an appointment [for] [a] [{service}]", "{service}"],
                "slots": {
                    "service": {"ask": "Which service?"},
                    "date": {"ask": "Which day?"},
                    "time": {"ask": "What time?"},
                    "name": {"ask": "Your name?"},
                },
                "confirm": "A {service} on {date} at {time} for {name}?",
                "tool": "book",
                "say": "Booked.",
            },
            "oil": {"title": "an oil change", "sentences": ["an oil change"], "say": "Oil."},
        },
    }
)
UNABLE = "I am sorry, I cannot do that."


@pytest.mark.parametrize(
    "text",
    [
        "Cancel my appointment.",
        "I need to cancel my haircut on Friday.",
        "Could you please delete the appointment?",
        "I want my appointment cancelled.",
        "I'd like to have my haircut moved to Monday.",
        "Please reschedule my appointment.",
        "Can I make a cancellation?",
    ],
)
async def test_a_request_to_undo_begins_no_booking(text: str) -> None:
    assert await Talk(SALON, ()).say(text) == UNABLE


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("They cancelled my train, I need an appointment.", "Which service?"),
        ("I need an oil change.", "Oil."),
        ("Cancel my appointment and make me a new appointment.", "Did you mean an appointment?"),
        ("Cancel.", "All right, never mind. Is there anything else I can do?"),
    ],
)
async def test_what_undoes_nothing_of_ours_is_understood(text: str, answer: str) -> None:
    assert await Talk(SALON, ()).say(text) == answer


async def test_cancel_ends_the_open_form_and_not_what_was_done() -> None:
    talk = Talk(SALON, ())
    await talk.say("A haircut, please.")
    assert (await talk.say("Cancel the appointment.")).startswith("All right, never mind.")
    for words in ("A haircut tomorrow at three pm.", "My name is Ann Lee.", "Yes."):
        answer = await talk.say(words)
    assert answer == "Booked."
    assert await talk.say("Cancel it.") == UNABLE


async def test_an_intent_that_undoes_is_begun_by_any_word_for_it() -> None:
    trade = load_trade(TRADES / "salon.yaml")
    talk = Talk(trade.brain, trade.toolbox)
    assert await talk.say("Please remove my appointment.") == "Did you mean a cancellation?"
    assert await talk.say("Yes.") == "Your booking code?"
    talk = Talk(trade.brain, trade.toolbox)
    assert await talk.say("I need to have my appointment cancelled.") == "Your booking code?"
    assert await talk.say("Please cancel it, B T nine two.") == "Shall I cancel B T 9 2?"


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("No, cancel the appointment.", "All right, never mind. Is there anything else I can do?"),
        ("Can you change the day?", "All right. What should I change?"),
        ("Change it to Monday.", "A haircut on Monday the twenty third of November at three"),
    ],
)
async def test_what_is_to_be_confirmed_may_be_cancelled_or_changed(text: str, answer: str) -> None:
    talk = Talk(SALON, ())
    await talk.say("A haircut on Friday at three pm.")
    await talk.say("My name is Ann Lee.")
    assert (await talk.say(text)).startswith(answer)
    assert talk.asked == []


async def test_a_form_is_not_filled_by_what_is_cancelled() -> None:
    talk = Talk(SALON, ())
    await talk.say("A haircut at three pm.")
    assert (await talk.say("Cancel my haircut on Monday.")).startswith("All right, never mind.")


@pytest.mark.parametrize(
    ("text", "confirmed"),
    [
        ("Actually, make it Saturday.", "A haircut on Saturday the twenty eighth of November at"),
        ("Could we change it to Monday?", "A haircut on Monday the twenty third of November at"),
        ("Make it a blow dry instead.", "A blow dry on Friday the twenty seventh of November at"),
        ("I meant Saturday.", "A haircut on Saturday the twenty eighth of November at three"),
        ("Make it four.", "A haircut on Friday the twenty seventh of November at four o clock"),
    ],
)
async def test_a_correction_is_taken_while_another_question_is_open(
    text: str, confirmed: str
) -> None:
    talk = Talk(SALON, ())
    await talk.say("A haircut on Friday at three pm.")
    assert await talk.say(text) == "Your name?"
    assert (await talk.say("John Smith")).startswith(confirmed)


async def test_a_choice_waits_while_another_slot_is_filled() -> None:
    talk = Talk(SALON, ())
    question = "Did you mean haircut or blow dry?"
    assert await talk.say("A haircut and a blow dry.") == question
    assert await talk.say("On Friday.") == question
    assert await talk.say("The first one.") == "What time?"
