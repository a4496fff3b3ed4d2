"""Forms: side questions, several values, corrections, values by table."""

from __future__ import annotations

import pytest
from tests.agents.rules.conftest import Talk

from cordboard.config.rules import Rules
from cordboard.tools.builtin import HangupCall

SALON = Rules.model_validate(
    {
        "lists": {
            "service": {"values": {"haircut": ["haircut", "cut"], "blow dry": ["blow dry"]}},
            "time": {"type": "time", "earliest": "09:00", "latest": "18:00"},
        },
        "intents": {
            "book": {
                "title": "a booking",
                "sentences": [
                    "[would|like] [to] book [a] [{service}] [on|for] [{date:day}] [at] [{time}]"
                ],
                "slots": {
                    "service": {"ask": "Which service?"},
                    "day": {"ask": "Which day?"},
                    "time": {"ask": "What time?"},
                    "name": {"ask": "Your name?"},
                },
                "confirm": "{service}, {day.value}, {time.value}, {name}?",
                "tool": "book",
            },
            "price": {
                "title": "a price",
                "sentences": ["how much is [a|the] [{service}]"],
                "slots": {"service": {"ask": "Of which service?"}},
                "answers": {"service": {"haircut": "Thirty euros."}},
                "say": "Please ask at the desk.",
            },
            "hours": {
                "title": "opening hours",
                "sentences": ["are you open [on] [{date}]", "when are you open"],
                "slots": {"date": {"required": False}},
                "answers": {"date": {"sunday": "Closed.", "2026-11-24": "Ten to noon."}},
                "say": "Nine to six.",
            },
        },
    }
)


@pytest.mark.parametrize(
    "script",
    [
        {  # a side question leads back to the open question
            "I would like to book on Friday": "Which service?",
            "how much is a haircut?": "Thirty euros. Which service?",
            "ok a haircut then": "What time?",
            "are you open on Sundays?": "Closed. What time?",
            "at three": "Your name?",
            "Bob": "haircut, 2026-11-27, 15:00, Bob?",
        },
        {  # and takes over what is known
            "book a haircut": "Which day?",
            "how much is it": "Thirty euros. Which day?",
        },
        {  # of two values neither is dropped
            "book a haircut and a blow dry": "Did you mean haircut or blow dry?",
            "the second one": "Which day?",
        },
        {  # no value of another slot is taken unasked
            "book a haircut on friday at ten": "Your name?",
            "at eleven": (
                "Did you mean eleven o clock in the morning or ten o clock in the morning?"
            ),
            "the first one": "Your name?",
            "no, at twelve": "Your name?",
            "O'Brien": "haircut, 2026-11-27, 12:00, O'Brien?",
            "it's McDonald": "haircut, 2026-11-27, 12:00, McDonald?",
            "no, it's John O'Neill": "haircut, 2026-11-27, 12:00, John O'Neill?",
        },
        {
            "uh yeah hi um book a, a haircut for, let me see, Thursday, no wait Friday at three": (
                "Your name?"
            ),
            "it's o'brien": "haircut, 2026-11-27, 15:00, O'Brien?",
        },
    ],
)
async def test_a_form_is_filled(script: dict[str, str]) -> None:
    talk = Talk(SALON, ())
    for words, answer in script.items():
        assert await talk.say(words) == answer
    assert talk.asked == []


@pytest.mark.parametrize("words", ["a haircut and a blow dry", "a blow dry and a haircut"])
async def test_two_services_may_be_one_value(words: str) -> None:
    both = ("haircut and a blow dry", "blow dry and a haircut")
    lists = {"service": {"values": {"haircut": "haircut", "blow dry": "blow dry", "both": both}}}
    book = {"sentences": ["book [{service}]"], "confirm": "{service.value}?"}
    talk = Talk(Rules.model_validate({"lists": lists, "intents": {"book": book}}), ())
    assert await talk.say(f"please book {words}") == "both?"


async def test_the_tool_gets_a_name_as_it_was_written() -> None:
    talk = Talk(SALON, ())
    for words in ("book a haircut on friday at ten", "it is O'Brien", "yes"):
        await talk.say(words)
    assert [arguments["name"] for _, arguments in talk.asked] == ["O'Brien"]


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        ("how much is a haircut", "Thirty euros."),
        ("how much is a blow dry", "Please ask at the desk."),
        ("are you open on Sundays?", "Closed."),
        ("are you open next Sunday", "Closed."),
        ("are you open on Tuesday", "Ten to noon."),
        ("are you open on Friday", "Nine to six."),
        ("when are you open", "Nine to six."),
    ],
)
async def test_answers_stand_in_a_table(words: str, answer: str) -> None:
    assert await Talk(SALON, ()).say(words) == answer


@pytest.mark.parametrize(
    "script",
    [
        ["how much is it", "goodbye"],
        ["I would like to book on Friday", "Thank you, bye."],
        ["I would like to book on Friday", "how much is it", "booking open price", "goodbye"],
    ],
)
async def test_a_goodbye_answers_every_open_question(script: list[str]) -> None:
    talk = Talk(SALON, (HangupCall().spec,))
    answers = [await talk.say(words) for words in script]
    assert answers[-1] == "Goodbye."
    assert talk.asked == [("hangup_call", {"reason": "caller said goodbye"})]


async def test_slots_are_asked_for_in_the_order_in_which_they_are_written() -> None:
    booking = {
        "sentences": ["(book|make) (a booking|[a] {service}) [on] [{date}]"],
        "slots": {
            "service": {"ask": "Which service?"},
            "date": {"ask": "Which day?"},
        },
        "confirm": "A {service} on {date}?",
    }
    lists = {"service": {"values": ["haircut", "colour"]}}
    talk = Talk(Rules.model_validate({"lists": lists, "intents": {"booking": booking}}), ())
    assert await talk.say("make a booking") == "Which service?"
    assert await talk.say("haircut") == "Which day?"
