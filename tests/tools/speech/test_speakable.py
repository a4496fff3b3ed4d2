from __future__ import annotations

import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordboard.tools.speech import numbers, times
from cordboard.tools.speech.codes import email_address, link, phone_number, spelled
from cordboard.tools.speech.speakable import AND_MORE, MAX_SPOKEN, UNITS, _made_speakable, speakable
from cordboard.tools.speech.speech import FETCHED, summary

SAID = [
    # times and dates
    ("Open from 08:05 to 15:20.", "Open from 8:05 AM to 3:20 PM."),
    ("At 8:05, at 3:20 PM, at 13:00 or 00:00", "At 8:05, at 3:20 PM, at 1 PM or midnight"),
    ("9:00, 10:30 and 14:30", "9 AM, 10:30 AM and 2:30 PM"),
    ("9:00 and 10:30", "9:00 and 10:30"),
    ("25:10 and 1:2:3 stay", "25:10 and 1:2:3 stay"),
    ("On 2026-11-21.", "On November 21st, 2026."),
    ("at 2026-11-21T15:20:00Z", "at November 21st, 2026 at 3:20 PM UTC"),
    ("am 03.12.2026", "am December 3rd, 2026"),
    ("2026-02-30 is no day", "2026-02-30 is no day"),
    # numbers
    ("2500 and 1,990", "2500 and 1,990"),
    ("-5 or \u22127", "minus 5 or minus 7"),
    ("10-12", "10-12"),
    ("3.14159265358979", "3.142"),
    ("1e30", "about 1 nonillion"),
    ("about 2.4e15 stars", "about 2.4 quadrillion stars"),
    ("12345678901234", "1 2 3, 4 5 6 7, 8 9 0, 1 2 3 4"),
    ("9" * 35, "a very long number"),
    ("9" * 50, "a long code"),
    # money and units
    ("€5.20, 5,20 € or $1", "5 euros and 20 cents, 5 euros and 20 cents or 1 dollar"),
    ("£0.01 and -$5 and 5 million", "1 penny and minus 5 dollars and 5 million"),
    ("$1.5 million", "1.5 million dollars"),
    ("21 °C, -3°C, 1 km", "21 degrees Celsius, minus 3 degrees Celsius, 1 kilometre"),
    (
        "12 kt, 1013 hPa, 50%, 30 km/h",
        "12 knots, 1013 hectopascals, 50 percent, 30 kilometres per hour",
    ),
    ("5 m² in 5 minutes", "5 square metres in 5 minutes"),
    # codes and addresses
    ("Your code is QX-2026-91.", "Your code is Q X, 2 0 2 6, 9 1."),
    ("KTQ-4711 for MARK-12", "K T Q, 4 7 1 1 for MARK-12"),
    ("Room A12B4 is free.", "Room A, 1 2, B, 4 is free."),
    ("B747, 22L, KJFK, COVID-19", "B747, 22L, KJFK, COVID-19"),
    ("Call +49 30 1234567.", "Call plus 4 9, 3 0, 1 2 3, 4 5 6 7."),
    ("(555) 123-4567", "5 5 5, 1 2 3, 4 5 6 7"),
    ("Ask ann.lee@shop-one.com!", "Ask ann dot lee at shop dash one dot com!"),
    ("See https://www.example.com/a?b=c#d.", "See example dot com."),
    ("See http://10.0.0.1/secret", "See a link"),
    ("10.0.0.1", "10 dot 0 dot 0 dot 1"),
    ("550e8400-e29b-41d4-a716-446655440000", "a long code"),
    # signs and shapes
    ("wind < 5 & x >= 3", "wind less than 5 and x at least 3"),
    ("~5 and ±2", "about 5 and plus or minus 2"),
    ("Wait... what?!?! ok!!", "Wait. what? ok!"),
    ("# Title\n\nWe have\n- soup\n- fish\n", "Title. We have: soup. fish."),
    ("1. one\n2) two", "one. two."),
    ("| dish | price |\n|---|---|\n| soup | €3 |", "dish, price. soup, 3 euros."),
    ("**Bold** <b>and</b> `code` [here](https://x.org)", "Bold and code here"),
    ("```json\nplain\n```", "plain"),
    # what cannot be said
    ("Sunny ☀️🌞 today", "Sunny today"),
    ("a\u202eb\u200bc\x00d\ufeff\u200f", "abc d"),
    ("\U0001d407\U0001d41e\U0001d425\U0001d425\U0001d428 \uff11\uff12", "Hello 12"),
    ("Z\u0351\u0312\u0346\u0308\u0300algo", "Z\u0351algo"),
    ("{b} ${HOME}", "{b} ${HOME}"),
    ("", ""),
    ("🌞", ""),
]


@pytest.mark.parametrize(("text", "words"), SAID)
def test_what_is_written_for_the_eye_becomes_words(text: str, words: str) -> None:
    assert speakable(text) == words


@pytest.mark.parametrize("text", [text for text, _ in SAID])
def test_said_twice_is_said_once(text: str) -> None:
    once = speakable(text)
    assert speakable(once) == once


@pytest.mark.parametrize("unit", UNITS)
def test_every_unit_is_said(unit: str) -> None:
    one, many = UNITS[unit]
    assert speakable(f"It is 1 {unit}, then 2 {unit}.") == f"It is 1 {one}, then 2 {many}."


_fragments = st.sampled_from([" ", "\n", "\n- ", "5 m"]) | st.sampled_from(
    "12 - € : 30 . 2026-11-21 @ a.b A °C +49 https:// | \u202e 🌞 1e9 {x} 5m AB12C , * & <".split(
        " "
    )
)


@given(st.text(max_size=300) | st.lists(_fragments, max_size=40).map("".join), st.integers(20, 90))
def test_whatever_comes_is_one_short_line_that_can_be_said(text: str, most: int) -> None:
    words = speakable(text, most)
    assert len(words) <= most
    assert words == " ".join(words.split())
    unsaid = {"Cc", "Cf", "Cs", "Co", "Cn"}
    assert not [one for one in words if unicodedata.category(one) in unsaid]
    assert not [one for one in words if unicodedata.category(one) == "So" and one != "°"]


@pytest.mark.parametrize(
    "hostile",
    "[ <a *_ \n 1 1. 1, 1: - a@ a. +1_ A1- €1 1e https:// (555)_ |_ \u0300 AB 2026- 5_m !? www. … "
    "-_x\n 1:2 1-2- 555-555- #1 {{ A1A1 €1.5_".split(" "),
)
def test_hostile_text_costs_no_more_than_other_text(hostile: str) -> None:
    began = time.thread_time()
    speakable(hostile.replace("_", " ") * 300_000)
    speakable(hostile * 300_000)
    assert time.thread_time() - began < 1.5  # 0.12 s measured


_words = st.text("aAbzZ'", min_size=1, max_size=22) | st.sampled_from(["A", "about", "www", "kg"])


@given(st.lists(_words | st.sampled_from(["a,", "b.", "C!", "d;", "A,"]), min_size=1, max_size=12))
def test_plain_words_are_what_the_long_way_would_make_of_them(words: list[str]) -> None:
    text = " ".join(words)
    assert speakable(text) == _made_speakable(text, MAX_SPOKEN)


def test_a_long_text_ends_with_a_sentence_and_says_so() -> None:
    words = speakable("This is a sentence. " * 200, 100)
    assert words == "This is a sentence. " * 4 + AND_MORE
    assert speakable(words, 100) == words


def test_numbers_have_words_where_digits_have_none() -> None:
    assert numbers.number(999_999_999_999_999) == "999,999,999,999,999"
    assert numbers.number(10**15) == "about 1 quadrillion"
    assert numbers.number(-2.46e20) == "about minus 246 quintillion"
    assert numbers.number(10**5000) == numbers.TOO_LARGE
    assert numbers.number(21.499999999999996) == "21.5"
    assert numbers.number(0.000012345) == "0.0000123"
    assert numbers.number(1e-300) == "almost 0"
    assert numbers.number("12,5") is None
    assert numbers.number(True) is None
    assert numbers.fixed(-0.001, 2) == "0.00"
    assert [numbers.ordinal(n) for n in (1, 12, 22, 103, 111)] == [
        "1st", "12th", "22nd", "103rd", "111th",
    ]  # fmt: skip
    assert numbers.year(1990) == "1990"
    assert numbers.year(990) is None


def test_money_is_said_in_its_parts() -> None:
    assert numbers.money(0.5, "EUR") == "50 cents"
    assert numbers.money(1.01, "GBP") == "1 pound and 1 penny"
    assert numbers.money(-1200, "USD") == "minus 1,200 dollars"
    assert numbers.money(0, "EUR") == "0 euros"
    assert numbers.money(300, "JPY") == "300 yen"
    assert numbers.money(5, "XOF") == "5 X O F"


def test_times_and_durations() -> None:
    assert times.time_words("15:20") == "3:20 PM"
    assert times.time_words("2026-11-21") is None
    assert times.date_words("2026-11-21 15:20") == "November 21st, 2026"
    assert times.date_time_words("2026-11-21") == "November 21st, 2026"
    assert times.time_words("2026-11-21T24:20:00") is None
    assert times.clock(12, 0) == "noon"
    assert times.duration_words(7500) == "2 hours and 5 minutes"
    assert times.duration_words("PT2H5M10S") == "2 hours and 5 minutes"
    assert times.duration_words("P1DT1H") == "1 day and 1 hour"
    assert times.duration_words(0) == "0 seconds"
    assert times.duration_words(-1) is None
    assert times.duration_words("P") is None


def test_codes_leave_time_to_write_them_down() -> None:
    assert spelled("kjfk") == "K J F K"
    assert spelled("AB1234567") == "A, B, 1 2 3, 4 5 6 7"
    assert spelled("--") is None
    assert spelled("x" * 41) == "a long code"
    assert phone_number("+4930123") == "plus 4 9 3, 0 1 2 3"
    assert email_address("no address") is None
    assert link("https://[broken") == "a link"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({}, FETCHED),
        ({"a": 1}, FETCHED),
        ({"result": 42}, "The result is 42."),
        ({"result": True}, "The result is yes."),
        ({"result": []}, "I found nothing."),
        ({"result": [1]}, "I found one entry."),
        ({"tables": [{}, {}, {}], "page": 1}, "I found 3 entries."),
        ({"name": "x", "runways": ["22L"]}, FETCHED),
        ({"a": [{}], "b": [{}]}, FETCHED),
        ({"result": float("nan")}, FETCHED),
    ],
)
def test_a_result_that_nobody_words_is_summed_up(data: object, words: str) -> None:
    assert summary(data) == words
