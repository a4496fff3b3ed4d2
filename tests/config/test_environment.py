"""`${VAR}`: what becomes of a text, and what never does."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from cordboard.config import environment as expansion
from cordboard.config.environment import Expansion
from cordboard.config.files import SecretFiles

NOWHERE = SecretFiles(Path("/nowhere"))
NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True)
PLAIN = st.text(st.characters(exclude_characters="$"), max_size=20)
ANY = st.text(max_size=40) | st.text("${}:-AB", max_size=20)


def expand(text: str, environ: dict[str, str]) -> Expansion:
    return expansion.expand(text, environ, NOWHERE)


def test_a_variable_becomes_its_value() -> None:
    result = expand("Bearer ${TOKEN}!", {"TOKEN": "abc"})
    assert result.text == "Bearer abc!"
    assert result.values == (("TOKEN", "abc"),)


def test_a_default_is_for_unset_and_empty_variables() -> None:
    assert expand("${A:-x}", {}).text == "x"
    assert expand("${A:-x}", {"A": ""}).text == "x"
    assert expand("${A:-x}", {"A": "y"}).text == "y"
    assert expand("${A:-}", {}).text == ""
    assert expand("${A:-}", {}).missing == ()


def test_an_empty_variable_is_set() -> None:
    result = expand("[${A}]", {"A": ""})
    assert (result.text, result.missing) == ("[]", ())


def test_a_missing_variable_is_named() -> None:
    assert expand("${A}${B}", {"B": "b"}).missing == ("A",)


def test_two_dollars_are_one() -> None:
    assert expand("US$$ 5, $${A}", {"A": "no"}).text == "US$ 5, ${A}"


def test_other_dollars_and_braces_stay() -> None:
    text = '$5 $HOME {caller_name} {"a": {}} $(date) 100$'
    assert expand(text, {"HOME": "/home"}).text == text


def test_what_begins_like_a_reference_and_is_none() -> None:
    for text in (
        "${",
        "${A",
        "${}",
        "${1}",
        "${A-b}",
        "${ A }",
        "${A:b}",
        "${file:}",
        "${file:${A}}",
    ):
        assert expand(text, {"A": "a", "1": "b"}).problems, text


@given(NAMES, ANY)
def test_a_value_is_never_expanded_again(name: str, value: str) -> None:
    assert expand(f"${{{name}}}", {"A": "other", "B": "other", name: value}).text == value


@given(NAMES, st.text("${}AB:-", max_size=10).filter(lambda text: "}" not in text))
def test_a_default_is_never_expanded_again(name: str, default: str) -> None:
    assert expand(f"${{{name}:-{default}}}", {"A": "other"} if name != "A" else {}).text == default


@given(ANY)
def test_escaped_text_comes_out_as_it_was(text: str) -> None:
    result = expand(text.replace("$", "$$"), {"A": "other", "B": "other"})
    assert (result.text, result.values, result.problems) == (text, (), ())


@given(st.lists(st.tuples(PLAIN, NAMES)), st.dictionaries(NAMES, ANY))
def test_a_text_is_the_sum_of_its_parts(
    parts: list[tuple[str, str]], environ: dict[str, str]
) -> None:
    result = expand("".join(f"{plain}${{{name}}}" for plain, name in parts), environ)
    assert result.text == "".join(plain + environ.get(name, "") for plain, name in parts)
    assert result.missing == tuple(name for _, name in parts if name not in environ)


@given(ANY, st.dictionaries(NAMES, ANY))
def test_no_text_breaks_it(text: str, environ: dict[str, str]) -> None:
    expand(text, environ)
