from __future__ import annotations

import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordboard.tools.speech import speech
from cordboard.tools.speech.speakable import cut_at_sentence, plain
from cordboard.tools.speech.template import as_words
from cordboard.tools.tool import Speech

DATA = {
    "icao": "KJFK",
    "atis_text": "Information Alpha.",
    "wind": {"speed": 12, "gust": None, "calm": False},
    "clouds": [{"base": 2500}, {"base": 4000}],
    "runways": ["22L", "22R", "31L"],
}


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("atis_text", "Information Alpha."),
        ("wind.speed", "12"),
        ("wind.calm", "no"),
        ("clouds.1.base", "4000"),
        ("clouds.-1.base", "4000"),
        ("runways", "22L, 22R and 31L"),
    ],
)
def test_a_field_is_spoken(path: str, words: str) -> None:
    assert speech.sentence(DATA, Speech(field=path)) == words


@pytest.mark.parametrize(
    "path", ["nope", "wind.gust", "wind", "clouds.7.base", "clouds.x", "icao.0", "clouds", ""]
)
def test_a_missing_field_is_the_fallback(path: str) -> None:
    assert speech.sentence(DATA, Speech(field=path), "Done.") == "Done."


def test_a_template_is_filled() -> None:
    template = "At {icao}: {atis_text} Wind {wind.speed}, first base {clouds.0.base}."
    assert speech.sentence(DATA, Speech(template=template)) == (
        "At KJFK: Information Alpha. Wind 12, first base 2500."
    )


def test_a_template_with_a_missing_field_is_the_field_else_the_fallback() -> None:
    assert speech.sentence(DATA, Speech(template="Gust {wind.gust}.")) == speech.FETCHED
    both = Speech(field="atis_text", template="Gust {wind.gust}.")
    assert speech.sentence(DATA, both) == "Information Alpha."


def test_values_are_data_not_templates() -> None:
    data = {"a": "{b} ${HOME}", "b": "secret"}
    assert speech.sentence(data, Speech(template="Say {a}")) == "Say {b} ${HOME}"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("<b>Hello</b> <script>x</script>there", "Hello x there"),
        ("# Title\n\n- one\n- two", "Title. one two"),
        ("**Bold** and `code` and [a link](https://x.y/z)", "Bold and code and a link"),
        ("wind < 5 and > 3", "wind < 5 and > 3"),
        ("a\u202eb\u200bc\x00d\ufeff", "abc d"),
        ("Sunny ☀️🌞 today, 21 °C", "Sunny today, 21 °C"),
        ("snake_case stays", "snake_case stays"),
        ("two\n\nparagraphs.\n\nthree", "two. paragraphs. three"),
    ],
)
def test_only_plain_text_is_spoken(text: str, words: str) -> None:
    assert plain(text) == words


@given(st.text(max_size=400), st.integers(20, 80))
def test_whatever_comes_is_one_short_clean_line(text: str, most: int) -> None:
    words = plain(text, most)
    assert len(words) <= most
    assert words == " ".join(words.split())
    assert not {unicodedata.category(c) for c in words} & {"Cc", "Cf", "Cs", "Co", "Cn"}


def test_a_long_text_ends_with_a_sentence() -> None:
    text = "One sentence. Another one! " * 10
    assert cut_at_sentence(text, 50) == "One sentence. Another one! One sentence."
    assert cut_at_sentence("word " * 100, 23) == "word word word word."


@pytest.mark.parametrize(
    "text",
    ["", "{'a': 1}", "KeyError: 'x'", "see http://x", "a\nb", "x" * 500, "field_name is bad"],
)
def test_technical_errors_are_not_spoken(text: str) -> None:
    assert speech.spoken_error(text) == speech.FAILED


def test_plain_errors_are_spoken() -> None:
    assert speech.spoken_error("There is no such aerodrome.") == "There is no such aerodrome."


def test_a_tools_own_error_is_said_as_any_other_text() -> None:
    assert speech.spoken_error("Tuesday at 14:00 is taken.") == "Tuesday at 2 PM is taken."


@pytest.mark.parametrize("hostile", ["[", "![", "[a](", "<a", "*_", "a\n\t", " \n"])
def test_hostile_text_costs_no_more_than_other_text(hostile: str) -> None:
    began = time.thread_time()
    plain(hostile * 300_000)
    assert time.thread_time() - began < 1.5  # 0.01 s measured; seconds of it, before


def test_a_list_is_read_out_only_as_far_as_it_can_be_spoken() -> None:
    words = as_words(list(range(1_000_000)))
    assert words is not None
    assert len(words) < 10_000
