"""Times of day: as they are said, and which half of the day is meant."""

from __future__ import annotations

from datetime import date, time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordboard.agents.rules import RulesBrain
from cordboard.agents.rules.times import is_within, read_time, say_time
from cordboard.agents.rules.words import tokenise
from cordboard.config.rules import Rules, WordList

from .conftest import Talk

NOON, TEN = time(12), time(22)


def _read(said: str, earliest: time = time(0), latest: time = time(23, 59)) -> str | None:
    found = read_time([token.text for token in tokenise(said)], earliest, latest)
    return f"{found:%H:%M}" if found else None


@pytest.mark.parametrize(
    ("said", "moment"),
    [
        ("half past five", "05:30"), ("5 pm", "17:00"), ("17:30", "17:30"), ("noon", "12:00"),
        ("quarter to six in the evening", "17:45"), ("at five o'clock", "05:00"),
        ("nine oh five", "09:05"), ("12 am", "00:00"), ("12 p.m.", "12:00"),
        ("seven thirty p.m.", "19:30"), ("7.30 p.m.", "19:30"), ("7:30pm", "19:30"),
        ("half seven", "07:30"), ("half seven tonight", "19:30"), ("a quarter past eight", "08:15"),
        ("nineteen hundred", "19:00"), ("nineteen hundred hours", "19:00"), ("1930", "19:30"),
        ("nineteen thirty", "19:30"), ("730 this evening", "19:30"), ("midnight", "00:00"),
        ("twenty five minutes to nine in the morning", "08:35"), ("oh seven hundred", "07:00"),
        ("eight o'clock in the evening", "20:00"), ("ten past seven", "07:10"),
    ],
)  # fmt: skip
def test_times(said: str, moment: str) -> None:
    assert _read(said) == moment


@pytest.mark.parametrize(
    "said",
    ["", "friday", "a table", "half", "half an hour", "seven people", "twenty five", "7:75", "2575",
     "hundred", "sixty past seven", "past seven", "quarter to", "one two three"],
)  # fmt: skip
def test_no_times(said: str) -> None:
    assert _read(said) is None


@pytest.mark.parametrize(
    ("said", "moment"),
    [
        ("half past seven", "19:30"), ("eight", "20:00"), ("seven thirty", "19:30"),
        ("quarter to one", "12:45"), ("7:30", "19:30"), ("1", "13:00"), ("noon", "12:00"),
        ("seven in the morning", "07:00"), ("oh seven hundred", "07:00"), ("07:30", "07:30"),
        ("eleven", "11:00"),
    ],
)  # fmt: skip
def test_the_half_of_the_day_that_is_open_is_meant(said: str, moment: str) -> None:
    assert _read(said, NOON, TEN) == moment


@given(st.times())
def test_times_are_read_back(moment: time) -> None:
    moment = moment.replace(second=0, microsecond=0)
    assert read_time(say_time(moment).replace("o clock", "oclock").split()) == moment


@given(st.lists(st.sampled_from("half past to seven 7 730 oh hundred pm at thirty a".split())))
def test_no_row_of_words_breaks_it(words: list[str]) -> None:
    found = read_time(words, NOON, TEN)
    assert found is None or found.minute < 60


def test_hours_may_lie_around_midnight() -> None:
    assert is_within(time(1), time(18), time(2))
    assert not is_within(time(3), time(18), time(2))


def test_a_list_of_times_has_hours_and_other_lists_have_none() -> None:
    assert WordList(type="time", earliest="17:00").hours == (time(17), time(23, 59))
    with pytest.raises(ValueError, match="earliest and latest mean nothing for type 'number'"):
        WordList.model_validate({"type": "number", "latest": "22:00"})
    with pytest.raises(ValueError, match="latest"):
        WordList.model_validate({"type": "time", "latest": "24:00"})


async def test_a_time_outside_the_hours_is_answered_and_asked_again() -> None:
    rules = Rules.model_validate(
        {
            "lists": {"time": {"type": "time", "earliest": "12:00", "latest": "22:00"}},
            "intents": {
                "book": {
                    "sentences": ["[book] a table [at] [{time}]"],
                    "slots": {"time": {"ask": "When?", "unknown": "From noon to ten."}},
                    "say": "At {time}.",
                }
            },
        }
    )
    talk = Talk(RulesBrain(rules, today=lambda: date(2026, 11, 21)), ())
    assert await talk.say("Book a table at eleven.") == "From noon to ten. When?"
    assert await talk.say("Half past seven.") == "At seven thirty in the evening."
