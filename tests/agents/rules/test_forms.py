"""Forms: side questions, several values, corrections, values by table."""

from __future__ import annotations

import pytest
from tests.agents.rules.conftest import Talk

from cordboard.config.rules import Rules
from cordboard.tools.builtin import HangupCall
from cordboard.tools.tool import Status, ToolSpec

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


GARAGE = Rules.model_validate(
    {
        "lists": {
            "job": {"values": ["brake check", "new tyres"]},
            "time": {"type": "time", "earliest": "08:00", "latest": "17:00"},
        },
        "intents": {
            "bring": {
                "title": "bringing a car",
                "sentences": [
                    "can i (bring|get) [my|a] (car|{job}) [in] [on] [{date}] [at] [{time}]"
                ],
                "slots": {
                    "job": {"ask": "Which job?"},
                    "date": {"ask": "Which day?"},
                    "time": {"ask": "What time?"},
                    "name": {"ask": "Your name?"},
                },
                "confirm": "{job}, {date.value}, {time.value}, {name}?",
                "tool": "bring",
                "say": "See you then.",
                "more": "Anything else?",
            },
            "drop": {
                "title": "a cancellation",
                "sentences": ["[i need to] cancel (my|the) car [on] [{date}]"],
                "slots": {"name": {"ask": "Your name?"}, "date": {"ask": "Which day?"}},
                "confirm": "Cancel {name}, {date.value}?",
                "tool": "drop",
                "say": "Cancelled.",
                "more": "Another one?",
            },
            "price": {
                "title": "a price",
                "sentences": ["how much is [a] {job}"],
                "slots": {"job": {"ask": "For which job?"}},
                "say": "{job}: fifty.",
            },
            "towing": {
                "title": "towing",
                "sentences": ["do you tow at any time"],
                "say": "We tow day and night.",
            },
        },
    }
)
BRAKES = ("can i get a brake check on friday at ten", "my name is Ann Lee")
DROP = ("i need to cancel my car on friday", "my name is Ann Lee")


async def _garage(*said: str) -> Talk:
    desk = {"properties": {"destination": {"enum": ["workshop"]}}}
    talk = Talk(GARAGE, (HangupCall().spec, ToolSpec("transfer", "builtin", "", desk)))
    for words in said:
        await talk.say(words)
    return talk


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        ("can I get a brake check on Friday at ten", "Your name?"),
        ("ok so can I get new tyres on Friday?", "What time?"),
        ("can I get my car in", "Which job?"),
        ("a brake check", "brake check: fifty."),
        ("for a brake check please", "brake check: fifty."),
    ],
)
async def test_a_sentence_goes_before_the_answer_to_a_question(words: str, answer: str) -> None:
    talk = await _garage()
    assert await talk.say("how much is it?") == "For which job?"
    assert await talk.say(words) == answer


@pytest.mark.parametrize(
    "words",
    [
        "I'm afraid I need to cancel my car on Friday",
        "i'm sorry, i need to cancel my car on friday",
        "I'm busy on Friday, I need to cancel my car",
        "I am under pressure and I need to cancel my car on Friday",
    ],
)
async def test_a_mood_is_no_name(words: str) -> None:
    assert await (await _garage()).say(words) == "Your name?"


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("I'm Ann Lee and I need to cancel my car on Friday", "Ann Lee"),
        ("my name's Ann, I need to cancel my car on Friday", "Ann"),
        ("I need to cancel my car on Friday, it's under Lee", "Lee"),
    ],
)
async def test_a_name_may_come_unasked(words: str, name: str) -> None:
    assert await (await _garage()).say(words) == f"Cancel {name}, 2026-11-27?"


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("under O'Brien", "O'Brien"),
        ("it's under O'Brien", "O'Brien"),
        ("Put it under Smith.", "Smith"),
        ("put me down under smith", "Smith"),
        ("i'm bob", "Bob"),
        ("My name's Maria.", "Maria"),
        ("Maria Delgado-Smith", "Maria Delgado-Smith"),
        ("søren delgado-smith", "Soren Delgado-Smith"),
    ],
)
async def test_a_name_is_taken_from_its_frame(words: str, name: str) -> None:
    talk = await _garage("i need to cancel my car on friday")
    assert await talk.say(words) == f"Cancel {name}, 2026-11-27?"


async def test_other_words_beside_the_question_for_a_name_are_no_name() -> None:
    talk = await _garage("i need to cancel my car on friday")
    assert await talk.say("put me through please") == "Shall I put you through to workshop?"
    talk = await _garage("i need to cancel my car on friday")
    assert "Afraid" not in await talk.say("I'm afraid I cannot tell")


@pytest.mark.parametrize(
    "words",
    ["Perfect, thank you.", "great thanks", "ok thank you", "Sounds lovely.", "spot on",
     "lovely, thank you", "wonderful"],
)  # fmt: skip
async def test_thanks_beside_a_yes_is_a_yes(words: str) -> None:
    talk = await _garage(*BRAKES)
    assert await talk.say(words) == "See you then. Anything else?"
    assert talk.confirmed == [True]


@pytest.mark.parametrize("words", ["thanks", "Thank you very much.", "hello", "thanks but no"])
async def test_thanks_alone_is_no_yes(words: str) -> None:
    talk = await _garage(*BRAKES)
    await talk.say(words)
    assert talk.asked == []


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        ("no, I'll call back another time. take care", "Goodbye."),
        ("I'll ring another time, bye bye", "Goodbye."),
        ("no, I'll call back another time", "Did you mean towing?"),
        ("no, how much is a brake check?", "brake check: fifty."),
        ("no, do you tow at any time?", "We tow day and night."),
        ("how much is a brake check? thanks, bye", "brake check: fifty."),
    ],
)
async def test_one_word_beside_a_no_or_a_farewell_starts_no_answer(words: str, answer: str) -> None:
    talk = await _garage(*DROP, "yes")
    assert await talk.say(words) == answer


@pytest.mark.parametrize("words", ["ok, at eleven then", "eleven", "could I do eleven instead?"])
async def test_a_form_stays_open_after_its_tool_refuses(words: str) -> None:
    talk = await _garage(*BRAKES)
    talk.replies["bring"] = (Status.ERROR, "That time is taken.", {})
    assert await talk.say("yes") == "That time is taken. Anything else?"
    answer = await talk.say("do you tow at any time?")
    assert answer == "We tow day and night. That time is taken. Anything else?"
    assert await talk.say("yes please") == "All right. What should I change?"
    assert await talk.say(words) == "brake check, 2026-11-27, 11:00, Ann Lee?"
    talk.replies.clear()
    assert await talk.say("yes") == "See you then. Anything else?"
    asked = [(a["time"], a["job"]) for _, a in talk.asked]
    assert asked == [("10:00", "brake check"), ("11:00", "brake check")]
    assert talk.confirmed == [True, True]


@pytest.mark.parametrize(
    ("more", "words", "answer"),
    [
        ("Anything else?", "no thanks", "Goodbye."),
        ("Anything else?", "never mind", "All right, never mind."),
        ("", "no", "All right, never mind."),
    ],
)
async def test_a_refused_form_may_be_given_up(more: str, words: str, answer: str) -> None:
    bring = GARAGE.intents["bring"].model_copy(update={"more": more or None})
    rules = GARAGE.model_copy(update={"intents": {**GARAGE.intents, "bring": bring}})
    talk = Talk(rules, ())
    talk.replies["bring"] = (Status.ERROR, "That time is taken.", {})
    for said in (*BRAKES, "yes"):
        await talk.say(said)
    assert (await talk.say(words)).startswith(answer)
    await talk.say("yes")
    assert len(talk.asked) == 1


@pytest.mark.parametrize("status", [Status.TIMEOUT, Status.CANCELLED])
async def test_a_tool_that_may_have_acted_leaves_no_open_form(status: Status) -> None:
    talk = await _garage(*BRAKES)
    talk.replies["bring"] = (status, "That took too long.", {})
    assert await talk.say("yes") == "That took too long. Anything else?"
    assert await talk.say("at eleven") != "brake check, 2026-11-27, 11:00, Ann Lee?"


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        ("move my car from friday to monday", "2026-11-27 to 2026-11-23?"),
        ("I need to move my car to Monday, from Friday", "2026-11-27 to 2026-11-23?"),
        ("move my car to monday", "Old day?"),
        ("move my car from friday", "New day?"),
    ],
)
async def test_the_word_before_a_value_tells_two_slots_of_a_list_apart(
    words: str, answer: str
) -> None:
    move = {
        "sentences": ["move my car [from] [{date:day}] [to] [{date:new_day}]"],
        "slots": {"day": {"ask": "Old day?"}, "new_day": {"list": "date", "ask": "New day?"}},
        "confirm": "{day.value} to {new_day.value}?",
    }
    rules = Rules.model_validate({"intents": {"move": move}})
    assert await Talk(rules, ()).say(words) == answer
