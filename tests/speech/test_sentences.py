"""Tokens to sentences: where a voice may begin to speak."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordboard.speech.sentences import LONGEST, SentenceSplitter, split_sentences


def split(text: str, size: int = 1) -> list[str]:
    splitter = SentenceSplitter()
    said = []
    for start in range(0, len(text), size):
        said += splitter.feed(text[start : start + size])
    return said + splitter.flush()


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("Hello there. How are you?", ["Hello there.", "How are you?"]),
        ("It costs $3.50 today. Fine?", ["It costs $3.50 today.", "Fine?"]),
        ("Version 2.5.1 is out. Good.", ["Version 2.5.1 is out.", "Good."]),
        ("Ask Dr. Smith, e.g. at noon. Ok.", ["Ask Dr. Smith, e.g. at noon.", "Ok."]),
        ("J. R. Smith lives in the U.S. now.", ["J. R. Smith lives in the U.S. now."]),
        ("We open at 9 a.m. on Monday.", ["We open at 9 a.m. on Monday."]),
        ("We close at 5 p.m. Come early.", ["We close at 5 p.m.", "Come early."]),
        ("No. 5 is free. No. It is not.", ["No. 5 is free.", "No.", "It is not."]),
        ("So do I. You too!", ["So do I.", "You too!"]),
        ("See https://a.example/b.c?d=1. Ok", ["See https://a.example/b.c?d=1.", "Ok"]),
        ("Mail bob@a.example. Thanks.", ["Mail bob@a.example.", "Thanks."]),
        ("Wait... really?! Yes.", ["Wait...", "really?!", "Yes."]),
        ('He said "go." Then left.', ['He said "go."', "Then left."]),
        ("1. Eggs\n2. Milk\n- Bread\n", ["1. Eggs", "2. Milk", "Bread"]),
        (
            "**Bold. Really** [the menu. Here](http://x.example/a.b) now.",
            ["Bold.", "Really the menu. Here now."],
        ),
        ("```\nprint\n```\n# Title\n| a | b |\n|---|---|\n", ["print", "Title", "a, b"]),
        ("\U0001f600 \U0001f600. Hi.", ["Hi."]),
        ("\u4f60\u597d\u3002\u5417\uff1f", ["\u4f60\u597d\u3002", "\u5417\uff1f"]),
        ("", []),
        (" \n ...", []),
    ],
)
def test_sentences_end_where_they_end(text: str, sentences: list[str]) -> None:
    assert split(text) == sentences


def test_the_first_piece_may_end_with_a_comma_and_no_later_one() -> None:
    text = "Let me see what there is, because we have a lot. I have found it here for you, sir, ok."
    assert split(text) == [
        "Let me see what there is,",
        "because we have a lot.",
        "I have found it here for you, sir, ok.",
    ]


def test_a_sentence_is_given_as_soon_as_the_next_word_begins() -> None:
    splitter = SentenceSplitter()
    assert splitter.feed("Hello there.") == []
    assert splitter.feed(" ") == []
    assert splitter.feed("H") == ["Hello there."]


def test_a_long_sentence_is_spoken_in_parts() -> None:
    parts = split("well " * 400)
    assert max(map(len, parts)) <= LONGEST + 80
    assert " ".join(parts) == ("well " * 400).strip()


words = st.text(alphabet="abAB 1.,!?;:\n'\"()-$", max_size=200)


@given(words, st.integers(1, 9))
def test_the_pieces_that_tokens_come_in_change_nothing(text: str, size: int) -> None:
    assert split(text, size) == split(text, max(1, len(text)))


@given(words)
def test_no_word_is_lost_or_said_twice(text: str) -> None:
    def letters(whole: str) -> str:
        return re.sub(r"[^\w$]", "", whole)

    # A line's mark ("- ") and pieces without any word are not spoken.
    assert letters(" ".join(split(text))).replace("$", "") == letters(text).replace("$", "")


@given(st.text(max_size=300))
def test_any_text_has_sentences(text: str) -> None:
    for sentence in split(text, 3):
        assert sentence == sentence.strip()
        assert "\n" not in sentence


# --- a text that is whole -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("", ()),
        ("  One.  ", ("One.",)),
        ("One. Two! Three? four", ("One.", "Two!", "Three?", "four")),
        ("It costs 3.50 euros. Mr. J. Smith pays.", ("It costs 3.50 euros.", "Mr. J. Smith pays.")),
        (
            "At 3 p.m. tomorrow. At 3 p.m. Then home.",
            ("At 3 p.m. tomorrow.", "At 3 p.m.", "Then home."),
        ),
        ('He said "Stop." Then he left.', ('He said "Stop."', "Then he left.")),
        (
            "You have information B. Wind 240 degrees. Go to gate C. boarding is over.",
            ("You have information B.", "Wind 240 degrees.", "Go to gate C. boarding is over."),
        ),
        ("**Bold** stays. See [x](y. z).", ("**Bold** stays.", "See [x](y.", "z).")),
    ],
)
def test_a_whole_text_is_cut_and_keeps_its_words(text: str, sentences: tuple[str, ...]) -> None:
    assert split_sentences(text) == sentences


@given(st.text("aB1 .!?,\n\"')*", max_size=60))
def test_nothing_is_lost_between_sentences(text: str) -> None:
    assert " ".join(split_sentences(text)).split() == text.split()


def test_a_letter_that_is_a_name_ends_a_sentence_of_a_stream_too() -> None:
    splitter = SentenceSplitter()
    said = splitter.feed("Your flight leaves from gate B. Please hurry, J. Smith. ")
    assert said == ["Your flight leaves from gate B."]
    assert splitter.flush() == ["Please hurry, J. Smith."]
