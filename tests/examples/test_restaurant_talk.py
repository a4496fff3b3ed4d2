"""The dialogue of the restaurant's context, by text: what callers say, and what is asked of the
tools. The tools are recorded, not run; the clock stands at Saturday, 21 November 2026."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from cordboard.agent_api.dialogue import DialogueSession
from cordboard.agents.rules import RulesBrain
from cordboard.config.load import load
from cordboard.tools.tool import JsonObject, Status, ToolReply

from .conftest import EXAMPLE

TODAY = date(2026, 11, 21)
BOOKING = {"people": 4, "date": "2026-11-27", "time": "19:30", "name": "Mary Jones"}
BOOKED = "Your table is booked."


@pytest.fixture(scope="module")
def brain() -> RulesBrain:
    config = load(EXAMPLE / "ai-agent.yaml", {"RESTAURANT_CLIENT_SECRET": "x"}).config
    return RulesBrain(config.contexts["restaurant"].rules, today=lambda: TODAY)


class Talk:
    """One call's dialogue."""

    def __init__(self, brain: RulesBrain) -> None:
        self.asked: list[tuple[str, JsonObject]] = []
        self.confirmed: list[bool] = []
        """Whether the caller had said yes to it."""
        self.status = Status.OK
        self.message = BOOKED
        self._dialogue: Any = brain.open(DialogueSession("", (), self._run))

    async def _run(self, name: str, arguments: JsonObject, *, confirmed: bool = False) -> ToolReply:
        self.asked.append((name, arguments))
        self.confirmed.append(confirmed)
        return ToolReply("1", name, self.status, self.message, {})

    async def say(self, text: str) -> str:
        return " ".join([sentence async for sentence in self._dialogue.respond(text)])


@pytest.fixture
def talk(brain: RulesBrain) -> Talk:
    return Talk(brain)


async def test_a_booking_step_by_step(talk: Talk) -> None:
    assert await talk.say("I'd like to book a table, please.") == "For how many people?"
    assert await talk.say("Four.") == "On which day?"
    assert await talk.say("On Friday.") == "At what time?"
    assert await talk.say("Half past seven.") == "In which name, please?"
    assert await talk.say("Mary Jones.") == (
        "A table for 4, on Friday the twenty seventh of November, at seven thirty in the evening,"
        " for Mary Jones. Is that right?"
    )
    assert talk.asked == []
    assert await talk.say("Yes.") == f"{BOOKED} Can I do anything else for you?"
    assert talk.asked == [("book_table", BOOKING)]
    assert talk.confirmed == [True], "the desk need not ask again"


@pytest.mark.parametrize(
    "said",
    [
        "A table for four on Friday at half past seven.",
        "I would like a table for four on Friday at half past seven.",
        "Could I book a table for 4 people on Friday at 7:30 p.m., please?",
        "Hi, can we have a table on Friday at seven thirty for four people?",
        "I want to make a reservation for four people at 19:30 on Friday.",
        "Book a table at half past seven on Friday for four.",
        "We need a table for four guests this Friday at seven thirty in the evening.",
        "I'd like to reserve a table for 4 on Friday at 7.30.",
    ],
)
async def test_all_in_one_sentence(talk: Talk, said: str) -> None:
    assert await talk.say(said) == "In which name, please?"
    await talk.say("My name is Mary Jones.")
    await talk.say("Yes, that's right.")
    assert talk.asked == [("book_table", BOOKING)]


async def test_a_part_is_taken_and_the_rest_asked_for(talk: Talk) -> None:
    assert await talk.say("A table for two tonight, please.") == "At what time?"
    assert await talk.say("At eight.") == "In which name, please?"
    await talk.say("Smith")
    await talk.say("yes")
    [(_, arguments)] = talk.asked
    assert arguments == {"people": 2, "date": "2026-11-21", "time": "20:00", "name": "Smith"}


async def test_what_was_misheard_is_corrected_before_it_is_booked(talk: Talk) -> None:
    await talk.say("A table for four on Friday at half past seven.")
    await talk.say("Mary Jones")
    assert "on Saturday the twenty eighth" in await talk.say("No, on Saturday.")
    assert "at eight o clock in the evening" in await talk.say("No, at eight o'clock.")
    assert "for Mary Johnson" in await talk.say("No, Mary Johnson.")
    await talk.say("That is right.")
    [(_, arguments)] = talk.asked
    assert arguments == {**BOOKING, "date": "2026-11-28", "time": "20:00", "name": "Mary Johnson"}


async def test_too_many_people_and_a_time_when_nobody_cooks(talk: Talk) -> None:
    assert (await talk.say("A table for thirty people on Friday")).startswith("We can take one to")
    assert await talk.say("Ten.") == "At what time?"
    assert (await talk.say("Half past ten in the morning")).startswith("Our kitchen is open")
    assert await talk.say("Twenty hundred hours.") == "In which name, please?"


async def test_a_failure_is_said_and_the_call_goes_on(talk: Talk) -> None:
    talk.status, talk.message = Status.ERROR, "There is no table for 4."
    for said in ("A table for four on Friday at eight", "Mary Jones"):
        await talk.say(said)
    assert await talk.say("yes") == "There is no table for 4. Can I do anything else for you?"


@pytest.mark.parametrize(
    ("said", "tool", "arguments"),
    [
        ("When are you open?", "opening_hours", {"days": 7}),
        ("What are your opening hours?", "opening_hours", {"days": 7}),
        (
            "Are you open on Sunday?",
            "opening_hours",
            {"days": 1, "from_date": "2026-11-22"},
        ),
        (
            "What time do you close tomorrow?",
            "opening_hours",
            {"days": 1, "from_date": "2026-11-22"},
        ),
    ],
)
async def test_opening_hours(talk: Talk, said: str, tool: str, arguments: JsonObject) -> None:
    await talk.say(said)
    assert talk.asked == [(tool, arguments)]


async def test_a_booking_is_cancelled_by_its_code_after_a_question(talk: Talk) -> None:
    assert await talk.say("I want to cancel my booking.") == "What is your booking code?"
    assert await talk.say("four seven one") == (
        "A booking code has six digits. What is your booking code?"
    )
    assert await talk.say("471 103") == "Shall I cancel the booking 4 7 1 1 0 3?"
    assert talk.asked == []
    await talk.say("yes")
    assert talk.asked == [("cancel_booking", {"code": "471103"})]
    assert talk.confirmed == [True]


async def test_a_cancellation_is_not_done_without_a_yes(talk: Talk) -> None:
    await talk.say("Please cancel my reservation 471103")
    await talk.say("no")
    await talk.say("never mind")
    assert talk.asked == []


async def test_a_booking_is_looked_up(talk: Talk) -> None:
    assert await talk.say("I want to check my booking.") == "What is your booking code?"
    await talk.say("four seven double one oh three")
    assert talk.asked == [("find_booking", {"code": "471103"})]


async def test_feedback(talk: Talk) -> None:
    assert (await talk.say("I'd like to leave some feedback.")).startswith("From one, bad, to five")
    assert await talk.say("Four.") == "What would you like to tell us?"
    await talk.say("The soup was cold")
    [(tool, arguments)] = talk.asked
    assert (tool, arguments["rating"]) == ("give_feedback", 4)
    assert "soup was cold" in arguments["comment"].lower()
