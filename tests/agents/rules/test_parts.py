"""The small parts: numbers, days, spelled codes, words, sounds."""

from __future__ import annotations

import time
from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.agents.rules.conftest import TODAY

from cordboard.agents.rules import phones
from cordboard.agents.rules.dates import read_date, say_date
from cordboard.agents.rules.grammar import compile_grammar
from cordboard.agents.rules.letters import Spelled, Speller, sounds_like
from cordboard.agents.rules.numbers import (
    in_words,
    ordinal_in_words,
    read_digits,
    read_number,
    read_ordinal,
    spell_out,
)
from cordboard.agents.rules.sound import SoundIndex
from cordboard.agents.rules.words import plain, plain_sentence, tokenise
from cordboard.config.rules import Rules
from cordboard.speech.sentences import split_sentences


@given(st.integers(0, 999_999))
def test_numbers_in_words_are_read_back(number: int) -> None:
    assert read_number(in_words(number).split()) == number
    assert read_number([str(number)]) == number


@given(st.integers(1, 99))
def test_ordinals_are_read_back(number: int) -> None:
    assert read_ordinal(ordinal_in_words(number).split()) == number


@pytest.mark.parametrize("text", ["one two", "twenty thirty", "hundred", "and", "two twenty", ""])
def test_rows_of_figures_are_no_number(text: str) -> None:
    assert read_number(text.split()) is None


def test_digits_are_read_in_groups() -> None:
    assert read_digits("five double two oh niner 34".split()) == "5220934"
    assert read_digits("five apples".split()) is None
    assert spell_out("80s") == "eighties"
    assert spell_out("118.7") == "one hundred eighteen point seven"
    assert spell_out("5558675309").startswith("five five five")


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("today", "2026-11-21"), ("tomorrow", "2026-11-22"), ("saturday", "2026-11-28"),
        ("next friday", "2026-11-27"), ("on sunday", "2026-11-22"), ("in two weeks", "2026-12-05"),
        ("the third of may", "2027-05-03"), ("may 3rd", "2027-05-03"),
        ("december 24", "2026-12-24"),
        ("the third of may 2030", "2030-05-03"), ("the 20th", "2026-12-20"),
        ("in a week", "2026-11-28"),
        ("the day after tomorrow", "2026-11-23"), ("february twenty ninth", "2028-02-29"),
    ],
)  # fmt: skip
def test_days(text: str, day: str) -> None:
    assert read_date(text.split(), TODAY) == date.fromisoformat(day)


@pytest.mark.parametrize("text", ["three", "may", "the fortieth", "february 30", "monday friday"])
def test_no_days(text: str) -> None:
    assert read_date(text.split(), TODAY) is None


@given(st.dates(TODAY, TODAY + timedelta(days=350)))
def test_days_are_read_back(day: date) -> None:
    spoken = say_date(day).lower().split()
    assert read_date(spoken[1:], TODAY) == day


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("What's the ATIS for K.J.F.K.?", "what is the atis for kjfk"),
        ("E-N-G-M, X-ray", "engm x ray"),
        ("Værnes at 17:30", "vaernes at seventeen thirty"),
        ("I\u2019m at Oslo's", "i am at oslo"),
        ("...!?", ""),
    ],
)
def test_words_are_made_comparable(text: str, words: str) -> None:
    assert plain(text) == words


def test_templates_are_made_comparable_without_touching_their_marks() -> None:
    template = "(what's|What is) [the] {city:from} <weather> ATIS"
    assert plain_sentence(template) == "(what is|what is) [the] {city:from} <weather> atis"


@given(st.text(max_size=80))
def test_any_text_can_be_looked_at(text: str) -> None:
    for token in tokenise(text):
        assert phones.encode(phones.sounds(token.text)) is not None


def test_sounds_are_spelled_alike() -> None:
    for one, other in [("flesland", "flesland"), ("kilo", "kilo"), ("alfa", "alpha")]:
        assert phones.sounds(one) == phones.sounds(other)
    tables = (phones._WHOLE, phones._START, phones._END, phones._ANYWHERE, phones.LETTER_SOUNDS)
    for table in tables:
        assert not set("".join(table.values())) - set(phones.PHONES)


@pytest.mark.parametrize(
    ("said", "heard", "near"),
    [
        ("foxtrot", "fox trot", True), ("kilo", "key low", True), ("heathrow", "hit row", True),
        ("flesland", "flesh land", True), ("atis", "at is", True), ("bergen", "boston", False),
        ("arlanda", "trondheim", False), ("frankfurt", "francisco", False),
    ],
)  # fmt: skip
def test_words_are_found_by_sound_across_borders(said: str, heard: str, near: bool) -> None:
    hits = SoundIndex([said], [0.3]).find(tokenise(f"um {heard} please"))
    assert bool(hits) == near
    if near:
        assert (hits[0].start, hits[0].end) == (1, 1 + len(heard.split()))


def test_letters_that_were_written_stay_those_letters() -> None:
    (found,) = Speller({"EDDF"}).find(tokenise("it is E D D M"), (), 4)
    assert found.code == "EDDM"
    assert not sounds_like(found, "EDDF")


def test_code_that_may_have_been_misheard() -> None:
    named = Spelled(0, 1, "EMBR", 0.0, "EMBR")
    assert sounds_like(named, "ENBR")
    assert not sounds_like(named, "ENVA")
    spoken = Spelled(0, 4, "EMBR", 0.0, "")
    assert not sounds_like(spoken, "ENBR")
    assert sounds_like(Spelled(0, 1, "EHM", 0.0, "EHM"), "EHAM")


@pytest.mark.parametrize("text", ["you see why I am", "E N G M K", "K L M", "we are in a bank"])
def test_what_spells_nothing(text: str) -> None:
    assert Speller().find(tokenise(text), (), 4) == []


def test_answers_are_cut_into_sentences() -> None:
    text = "Oslo information B. QNH 30.02. Ask Dr. Who, or St. Olav. Done!"
    assert split_sentences(text) == (
        "Oslo information B.",
        "QNH 30.02.",
        "Ask Dr. Who, or St. Olav.",
        "Done!",
    )


def test_fifty_sentences_and_a_hundred_values_are_matched_without_trying_all_pairs() -> None:
    """The bound, of the processor's time, is far above what it takes (about 2 ms)."""
    names = [f"{a}{b} {c}" for a in ("Nor", "Sun", "Ket", "Bal", "Gri") for b in ("vik", "dal", "ham", "sund") for c in ("East", "West", "North", "Airport", "City")]  # fmt: skip  # noqa: E501
    verbs = ("open", "close", "book", "cancel", "move", "paint", "sell", "rent", "weigh", "clean")
    things = ("gate", "seat", "bag", "ticket", "meal")
    intents = {
        f"{verb}_{thing}": {"sentences": [f"[please] {verb} [the|my] {thing} (in|at) {{place}}"]}
        for verb in verbs
        for thing in things
    }
    rules = Rules.model_validate({"lists": {"place": {"values": names}}, "intents": intents})
    grammar = compile_grammar(rules, ())
    cheapest = 9.0
    for _ in range(5):
        began = time.thread_time()
        look = grammar.look("could you please cancel my ticket at Sunndal West", TODAY)
        reading = grammar.understand(look)
        cheapest = min(cheapest, time.thread_time() - began)
    assert reading is not None
    assert reading.intent == "cancel_ticket"
    assert reading.slots["place"].value is not None
    assert cheapest < 0.2
