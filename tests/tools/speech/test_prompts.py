"""`{placeholders}` in prompts and greetings."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cordboard.config.templates import Placeholder, prompt_names, prompt_problems, read_path
from cordboard.tools.speech.template import as_words, fill_prompt, words_of
from cordboard.tools.templates import look_up

VALUES = {"caller_name": "Ann", "caller_number": "100", "price": "1234.5", "empty": ""}
CUSTOMER: dict[str, Any] = {
    "name": "Bob",
    "since": 1998,
    "a.b": "odd",
    "orders": [{"id": "KA7-91"}, {"id": "KA7-92"}],
    "none": None,
}
SAVED = {"customer": CUSTOMER}
KNOWN = [*VALUES, *SAVED]


def words(name: str) -> Callable[[Placeholder], str]:
    def of(placeholder: Placeholder) -> str:
        path = placeholder.path[1:]
        if not path and placeholder.format is None:
            return "Bob, since 1998"
        return words_of(look_up(SAVED[name], path), placeholder.format) or ""

    return of


def filled(text: str) -> str:
    return fill_prompt(text, VALUES, {name: words(name) for name in SAVED})


def names(text: str) -> list[str]:
    return [".".join(path) for path in prompt_names(text, KNOWN)]


def test_values_are_put_in() -> None:
    assert filled("Hello {caller_name}, { caller_number }!") == "Hello Ann, 100!"
    assert filled("{customer}: {customer.orders.-1.id}") == "Bob, since 1998: KA7-92"
    assert filled("{nobody}{empty}<{empty|friend}>{nobody|}") == "<friend>"


def test_doubled_braces_are_braces() -> None:
    assert filled("{{caller_name}} {{") == "{caller_name} {"
    assert names("{{caller_name}}") == []


@pytest.mark.parametrize(
    "text",
    [
        'Answer as {"code": "ENGM", "list": [1, {}]} or {}.',
        '{yes|no|maybe} {[a]} {1} { } {name: text} {caller_name: digits} {caller_name: "Ann"}',
        '{"caller_name"} {shape:round}',
    ],
)
def test_other_braces_stay(text: str) -> None:
    assert names(text) == []
    assert filled(text) == text
    assert list(prompt_problems(text, KNOWN)) == []


def test_near_misses_are_seen_as_placeholders() -> None:
    assert names("{caller name} {a.b} {x-y} {caller name}") == ["caller name", "a.b", "x-y"]


def test_the_language_is_that_of_spoken_answers() -> None:
    assert filled("{customer.since:year}, {customer.orders:list(id)}") == (
        "1998, KA7-91 and KA7-92"
    )
    assert filled("{customer.since:number}") == "1,998"
    assert filled('{customer."a.b"} {customer.name|a|b} {customer.none|a|b}') == "odd Bob a|b"
    assert filled("{price:money(EUR)} {caller_name:money(EUR)|much} {caller_name:date}.") == (
        "1,234 euros and 50 cents much ."
    )


@pytest.mark.parametrize(
    ("text", "words", "is_fatal"),
    [
        ("To {customer.since:yeer}.", "at character 20: expected a format (.2f, choice", False),
        ("{caller_name:}x", "", False),
        ("{customer..name}", "at character 11: expected the name of a field", True),
        ("{customer.}", "at character 11: expected the name of a field", True),
        ('{customer."a}', 'expected a closing "', False),
    ],
)
def test_what_looks_meant_and_stays_is_named(text: str, words: str, is_fatal: bool) -> None:
    found = list(prompt_problems(text, KNOWN))
    if not words:
        assert found == []
    else:
        ((problem, fatal),) = found
        assert "stays as it is written" in problem
        assert words in problem
        assert fatal is is_fatal
    assert filled(text) == text


@given(st.text(max_size=50) | st.text("{}aller_nm$", max_size=50))
def test_values_are_never_looked_at_again(value: str) -> None:
    assert fill_prompt("{a}{b}", {"a": value, "b": "B", "caller_name": "no"}) == value + "B"


@given(st.text('{}ab -.:|"\n', max_size=40))
def test_names_are_found_exactly_where_values_are_put(text: str) -> None:
    found = [".".join(path) for path in prompt_names(text, ["a"])]
    marked = fill_prompt(text, dict.fromkeys([*found, "a"], "\x00"))
    assert ("\0" in marked) == bool(found)


# --- what these texts meant before there was one language -----------------------------------

_BEFORE = re.compile(
    r"(?P<escaped>\{\{|\}\})"
    r"|\{\s*(?P<name>[A-Za-z_][\w.-]*(?: +[\w.-]+)*)\s*(?:\|(?P<default>[^{}|]*))?\}"
)


def filled_before(text: str, values: Mapping[str, str]) -> str:
    def value(match: re.Match[str]) -> str:
        if match["escaped"]:
            return match["escaped"][0]
        head, _, path = match["name"].partition(".")
        if head not in SAVED:
            found = values.get(match["name"], "")
        elif not path:
            found = "Bob, since 1998"
        else:
            found = as_words(look_up(SAVED[head], read_path(path))) or ""
        return found or (match["default"] or "").strip()

    return _BEFORE.sub(value, text)


_new = re.compile(r"\{\s*(?:caller_name|customer)[^{}]*[:\"'|][^{}]*[:\"'|]?[^{}]*\}")
_pieces = st.sampled_from(
    ["{", "}", "caller_name", "customer", "nobody", ".name", ".orders.0.id", ".since", " ", "|x",
     "|", ":", ": ", '"', "{{", "}}", "{}", "{caller_name}", "{customer.name|x}", "\n", "word"]
)  # fmt: skip


@given(st.lists(_pieces, max_size=14).map("".join))
@settings(max_examples=500)
def test_what_meant_something_before_means_the_same(text: str) -> None:
    later = [match for match in _new.finditer(text) if _BEFORE.fullmatch(match[0]) is None]
    if any(":" in match[0] or '"' in match[0] or match[0].count("|") > 1 for match in later):
        return  # read as the language has it everywhere else, or named by `check`
    assert filled(text) == filled_before(text, VALUES)


@given(st.text("{}ab c.|:\"'1-\n", max_size=40))
@settings(max_examples=500)
def test_texts_without_known_names_mean_the_same(text: str) -> None:
    if any(is_fatal for _, is_fatal in prompt_problems(text, [])):
        return  # refused by `check`, as any unknown name was
    assert fill_prompt(text, {}) == filled_before(text, {})
