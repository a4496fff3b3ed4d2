from __future__ import annotations

import socket
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordboard.errors import SchemaRefused
from cordboard.tools.schema.checker import ArgumentChecker

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def doubling(letter: str = "s") -> dict[str, Any]:
    """Return a schema whose references begin with `letter`, which may be percent-encoded."""
    definitions: dict[str, Any] = {"s0": {"type": "object"}}
    for level in range(1, 40):
        reference = {"$ref": f"#/$defs/{letter}{level - 1}"}
        definitions[f"s{level}"] = {"allOf": [reference, reference]}
    return {"type": "object", "$defs": definitions, "$ref": f"#/$defs/{letter}39"}


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"type": "object", "$ref": "https://example.com/s.json"}, "outside the schema"),
        ({"properties": {"a": {"$ref": "file:///etc/passwd"}}}, "outside the schema"),
        ({"properties": {"a": {"$ref": "#/$defs/nowhere"}}}, "not a usable"),
        ({"type": "array"}, "root"),
        ({"properties": {"a": {"type": "nonsense"}}}, "not a usable"),
        ({"properties": {"a": {"pattern": "("}}}, "not a usable"),
        (nested(100), "deeper"),
        ({"description": "x" * 300_000}, "bytes"),
        (doubling(), "multiplies"),
        (doubling("%73"), "multiplies"),
        ([], "expected an object"),
        ({"enum": [object()]}, "not JSON"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_hostile_schemas_are_refused(schema: Any, reason: str) -> None:
    with pytest.raises(SchemaRefused, match=reason):
        ArgumentChecker(schema)


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "object", "$ref": "#"},
        {"$defs": {"node": {"properties": {"next": {"$ref": "#/$defs/node"}}}}, "type": "object"},
        {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"},
        {"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object"},
        {"properties": {"a": {"pattern": "^(?=x)x$"}}},
    ],
)
def test_odd_but_harmless_schemas_are_accepted(schema: dict[str, Any]) -> None:
    assert ArgumentChecker(schema).problems({}) == []


def test_problems_say_where_and_what() -> None:
    checker = ArgumentChecker(
        {
            "type": "object",
            "properties": {"stops": {"type": "array", "items": {"enum": ["a", "b"]}}},
            "additionalProperties": False,
        }
    )
    assert checker.problems({"stops": ["a", "c"]}) == ['stops.1: "c" is not one of "a" or "b"']
    assert "'more' was unexpected" in checker.problems({"more": 1})[0]


def test_problems_are_few_and_short() -> None:
    checker = ArgumentChecker({"additionalProperties": {"type": "integer"}})
    problems = checker.problems({str(n): "x" * 10_000 for n in range(20)})
    assert len(problems) == 6
    assert all(len(problem) < 300 for problem in problems)


def test_catastrophic_patterns_do_not_hold_the_loop() -> None:
    for pattern in ("^(a+)+$", r"^(a+)+\1$", "^(?=(a+)+$)b"):
        checker = ArgumentChecker({"properties": {"a": {"pattern": pattern}}})
        assert checker.problems({"a": "a" * 20_000 + "b"})


def test_arguments_that_are_too_much_are_refused_unread() -> None:
    checker = ArgumentChecker({})
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"a": deep}
    assert "deeper" in checker.problems(deep)[0]
    assert "longer" in checker.problems({"a": "x" * 1_000_000})[0]
    assert "not JSON" in checker.problems({"a": 2**80})[0]
    assert "not JSON" in checker.problems({"a": b"bytes"})[0]


@given(st.dictionaries(st.text(), json_values, max_size=5))
def test_any_arguments_get_a_verdict(arguments: dict[str, Any]) -> None:
    checker = ArgumentChecker(
        {"properties": {"a": {"type": "string"}}, "additionalProperties": False}
    )
    fits = not arguments or (set(arguments) == {"a"} and isinstance(arguments["a"], str))
    assert (checker.problems(arguments) == []) == fits


def filter_language(alternatives: int) -> dict[str, Any]:
    again = {"$ref": "#/$defs/filter"}
    lists = [{"type": "array", "items": again, "maxItems": n} for n in range(2, alternatives + 2)]
    filters = {"filter": {"anyOf": [*lists, {"type": "string"}]}}
    return {"type": "object", "properties": {"where": again}, "$defs": filters}


def deep_list(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def test_a_schema_that_multiplies_with_depth_is_asked_about_shallow_values_only() -> None:
    checker = ArgumentChecker(filter_language(10))
    assert checker.problems({"where": ["a", ["b"]]}) == []
    assert checker.problems({"where": [1]}) != []
    began = time.thread_time()
    (problem,) = checker.problems({"where": deep_list(12)})
    assert "nested deeper than" in problem
    assert time.thread_time() - began < 10  # 10^12 checks otherwise


def test_a_plain_recursive_schema_takes_all_the_depth_there_is() -> None:
    tree = {"type": "object", "additionalProperties": {"$ref": "#"}}
    value: dict[str, Any] = {}
    for _ in range(15):
        value = {"a": value}
    assert ArgumentChecker(tree).problems(value) == []


def test_doubling_by_anchors_is_seen() -> None:
    steps: dict[str, Any] = {"s0": {"$anchor": "a0", "type": "object"}}
    for level in range(1, 40):
        reference = {"$ref": f"#a{level - 1}"}
        steps[f"s{level}"] = {"$anchor": f"a{level}", "allOf": [reference, reference]}
    with pytest.raises(SchemaRefused, match="multiplies"):
        ArgumentChecker({"type": "object", "$defs": steps, "$ref": "#a39"})


def long_chain(links: int) -> dict[str, Any]:
    definitions = {f"s{n}": {"$ref": f"#/$defs/s{n + 1}"} for n in range(links)}
    return {"$ref": "#/$defs/s0", "$defs": definitions}


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"properties": {"a": {"pattern": r"((\p{L}{50}){20}){20}"}}}, "not a usable"),
        ({"properties": {f"p{n}": {"pattern": f"^{n}$"} for n in range(33)}}, "33 patterns"),
        ({"patternProperties": {"x" * 1001: {}}}, "1001 characters"),
        ({"properties": {"a": {"$id": "http://x/y", "type": "string"}}}, "of its own"),
        (long_chain(999), "too long"),
        ({"$dynamicRef": "http://x/y"}, "outside the schema"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_schemas_that_are_costly_to_compile_are_refused(schema: Any, reason: str) -> None:
    began = time.thread_time()
    with pytest.raises(SchemaRefused, match=reason):
        ArgumentChecker(schema)
    assert time.thread_time() - began < 1.0


def test_no_reference_is_fetched() -> None:
    """Even by a spelling that our own look through the schema does not know."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.05)
        address = f"http://127.0.0.1:{listener.getsockname()[1]}/schema.json"
        for schema in (
            {"$ref": address},
            {"$schema": address, "type": "object"},
            {"$id": address, "properties": {"a": {"$ref": "#/$defs/none"}}},
            {"properties": {"a": {"items": [{"$ref": address}]}}},
        ):
            with pytest.raises(SchemaRefused):
                ArgumentChecker(schema)
        with pytest.raises(TimeoutError):
            listener.accept()


def test_many_values_under_a_costly_schema_are_not_checked_one_by_one() -> None:
    costly = {"additionalProperties": {"allOf": [{"maximum": n} for n in range(1_000)]}}
    checker = ArgumentChecker(costly)
    assert checker.problems({"a": 0}) == []
    assert "more than can be checked" in checker.problems({str(n): 0 for n in range(5_000)})[0]
