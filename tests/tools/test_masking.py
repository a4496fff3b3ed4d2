from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordboard.tools.masking import CUT, MASK, MAX_RECORDED, Hidden, look_through, with_keys
from cordboard.tools.secret_names import NO_NAMES, SecretNames, secret_names
from cordboard.tools.tool import JsonObject, ToolSpec

anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.binary()
    | st.sampled_from(["keys-1", "\ud800", 2**80, "hush hush"]),
    lambda inner: (
        st.lists(inner, max_size=6)
        | st.dictionaries(st.text() | st.sampled_from(["pin", "token"]), inner, max_size=6)
    ),
    max_leaves=40,
)
KEYS = {"keys-1": "471188"}


def texts_in(value: Any) -> list[str]:
    """All texts that are values."""
    if isinstance(value, dict):
        return [text for item in value.values() for text in texts_in(item)]
    if isinstance(value, list):
        return [text for item in value for text in texts_in(item)]
    return [value] if isinstance(value, str) else []


@given(anything)
def test_whatever_comes_is_recorded_as_json_without_secrets(arguments: Any) -> None:
    found = look_through({"pin": arguments, "a": [arguments]}, NO_NAMES, KEYS.get)
    assert orjson.loads(orjson.dumps(found.recorded)) == found.recorded
    assert "keys-1" not in texts_in(found.recorded)
    assert found.recorded["pin"] in (MASK, None, True, False)


@given(anything, st.sampled_from(["471188", "12", "a.b*c", "x" * 80]))
def test_nothing_hidden_is_left(data: Any, value: str) -> None:
    hidden = Hidden([value])
    whole = {"data": data, "more": [value, f"<{value}>", {value: 1}]}
    assert value not in str(hidden.data(whole)["more"])
    assert str(hidden.data(hidden.data(whole))) == str(hidden.data(whole))
    assert Hidden([]).data(data) is data


@pytest.mark.parametrize("text", ["4711", "4 7 1 1", "4, 7, 1, 1", "47-11", "pin4711x", "4.7.1.1"])
def test_however_it_is_written(text: str) -> None:
    assert MASK in Hidden(["4711"]).text(f"It is {text}!")
    assert Hidden(["4711"]).text("4712, 471") == "4712, 471"


def test_the_longest_is_masked_first() -> None:
    assert Hidden(["4711", "471188"]).text("471188 4711") == f"{MASK} {MASK}"


def test_a_megabyte_of_arguments_is_not_recorded() -> None:
    found = look_through({"text": "x" * 1_000_000}, NO_NAMES, KEYS.get)
    assert found.recorded["text"].endswith(f"{CUT} (1000000 characters)")
    assert len(orjson.dumps(found.recorded)) < 2_100
    many = look_through({f"n{n}": [n] * 10 for n in range(100_000)}, NO_NAMES, KEYS.get)
    assert len(orjson.dumps(many.recorded)) < 20 * MAX_RECORDED
    assert many.recorded[CUT].endswith(" more")
    deep: Any = 1
    for _ in range(10_000):
        deep = [deep]
    assert CUT in str(look_through({"deep": deep}, NO_NAMES, KEYS.get).recorded)
    assert with_keys({"deep": deep}, KEYS)["deep"]


def test_too_much_to_be_searched_is_not_passed_on() -> None:
    rows = {"rows": [{"n": number} for number in range(60_000)]}
    assert Hidden(["4711"]).data(rows) == {"result": MASK}
    assert Hidden(["4711"]).data({1: 2}) == {"result": MASK}


@pytest.mark.parametrize("arguments", [None, 5, "keys-1", ["keys-1"], object()])
def test_arguments_that_are_no_object_are_recorded_too(arguments: Any) -> None:
    found = look_through(arguments, NO_NAMES, KEYS.get)
    assert list(found.recorded) == ["arguments"]
    assert "keys-1" not in str(found.recorded)


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({}, NO_NAMES),
        ({"properties": {"a": {"secret": False}, "b": {"secret": "yes"}}}, NO_NAMES),
        ({"properties": {"a": {"secret": True}}}, SecretNames(frozenset("a"))),
        (
            {"properties": {"a": {"items": {"oneOf": [{"secret": True}]}}}},
            SecretNames(frozenset("a")),
        ),
        (
            {
                "$defs": {"x/y": {"allOf": [{"properties": {"b": {"secret": True}}}]}},
                "properties": {"a": {"$ref": "#/$defs/x~1y"}},
            },
            SecretNames(frozenset("b")),
        ),
        (
            {"$defs": {"n": {"properties": {"n": {"$ref": "#/$defs/n"}}}}, "$ref": "#/$defs/n"},
            NO_NAMES,
        ),
        (
            {"$defs": {"s": {"secret": True}}, "properties": {"a": {"$ref": "#/$defs/s"}}},
            SecretNames(frozenset("a")),
        ),
        (
            {"$defs": {"s t": {"secret": True}}, "properties": {"a": {"$ref": "#/$defs/s%20t"}}},
            SecretNames(frozenset("a")),
        ),
        ({"secret": True}, SecretNames(everything=True)),
        ({"additionalProperties": {"secret": True}}, SecretNames(everything=True)),
        ({"patternProperties": {"^x": {"secret": True}}}, SecretNames(everything=True)),
        ({"properties": {"a": {"enum": [{"secret": True}]}}}, NO_NAMES),
        ({"properties": {"secret": {"type": "boolean"}}}, NO_NAMES),
        ({"properties": {"properties": {"secret": True}}}, SecretNames(frozenset({"properties"}))),
    ],
)
def test_what_a_schema_says_is_secret(schema: JsonObject, expected: SecretNames) -> None:
    assert secret_names(ToolSpec("t", "http", "", schema)) == expected
