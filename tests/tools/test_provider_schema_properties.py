"""What holds for every schema: generated ones, through every profile."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from cordboard.errors import SchemaRefused
from cordboard.tools.provider_schema import for_provider
from cordboard.tools.schema.checker import compile_schema
from cordboard.tools.schema_profiles import SchemaProfile
from cordboard.tools.tool import JsonObject, ToolSpec

from .provider_checkers import CHECKERS
from .vendor_limits import PROFILES

SCHEMA_KEEPING = ("openai_realtime", "openai_chat", "anthropic")
names = st.sampled_from(["a", "b", "c", "x-y", "$top", ""])
scalars = (
    st.none() | st.booleans() | st.integers(-3, 5) | st.sampled_from(["", "a", "AB", 1.5, 2.0])
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=6,
)
arguments = st.dictionaries(names, values, max_size=4)
types = st.sampled_from(["string", "number", "integer", "boolean", "object", "array", "null"])
counts = st.integers(0, 3)
references = st.sampled_from(["#/$defs/one", "#/$defs/two", "#", "#/$defs/none", "#named"])


def keywords(inner: st.SearchStrategy[Any]) -> dict[str, st.SearchStrategy[Any]]:
    several = st.lists(inner, min_size=1, max_size=3)
    named = st.dictionaries(names, inner, max_size=3)
    return {
        "type": types | st.lists(types, min_size=1, max_size=3, unique=True),
        "enum": st.lists(values, min_size=1, max_size=3),
        "const": values,
        "minimum": counts,
        "exclusiveMinimum": st.sampled_from([0, 1, 0.5]),
        "exclusiveMaximum": st.sampled_from([3, 4.5]),
        "multipleOf": st.sampled_from([1, 2, 0.5]),
        "minLength": counts,
        "maxLength": counts,
        "pattern": st.sampled_from(["^a", "^[A-Z]{2}$", "(?=A)A"]),
        "format": st.sampled_from(["date", "date-time", "int32", "color"]),
        "items": inner,
        "prefixItems": several,
        "minItems": counts,
        "maxItems": counts,
        "uniqueItems": st.booleans(),
        "contains": inner,
        "properties": named,
        "patternProperties": st.dictionaries(st.sampled_from(["^a", "b|c"]), inner, max_size=2),
        "additionalProperties": inner,
        "propertyNames": inner,
        "required": st.lists(names, max_size=2, unique=True),
        "minProperties": counts,
        "maxProperties": counts,
        "allOf": several,
        "anyOf": several,
        "oneOf": several,
        "not": inner,
        "if": inner,
        "then": inner,
        "else": inner,
        "default": values,
        "nullable": st.booleans(),
        "description": st.sampled_from(["", "What it is", "x" * 1100]),
        "title": st.just("A title"),
        "$ref": references,
    }


@st.composite
def drawn(draw: st.DrawFn, inner: st.SearchStrategy[Any], inside: bool = True) -> JsonObject:
    """A sub-schema of few keywords: of many together hardly any value is valid."""
    possible = keywords(inner)
    chosen = draw(st.lists(st.sampled_from(sorted(possible)), max_size=3, unique=True))
    stated = {"type": draw(possible["type"])} if inside and draw(st.booleans()) else {}
    return stated | {keyword: draw(possible[keyword]) for keyword in chosen}


leaves = st.booleans() | st.builds(dict) | drawn(st.builds(dict))
schemas = leaves | drawn(leaves) | drawn(drawn(leaves))


@st.composite
def tools(draw: st.DrawFn) -> JsonObject:
    root = draw(drawn(schemas, inside=False))
    root["type"] = "object"
    root["properties"] = draw(st.dictionaries(names, schemas, max_size=3)) | root.get(
        "properties", {}
    )
    root["$defs"] = {"one": draw(schemas), "two": draw(schemas)}
    if isinstance(root["$defs"]["two"], dict):
        root["$defs"]["two"]["$anchor"] = "named"
    if draw(st.booleans()):
        root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    return dict(root)


def spec(parameters: JsonObject, description: str = "Does it") -> ToolSpec:
    return ToolSpec("tool", "python", description, parameters)


@pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(schema=tools())
def test_what_comes_out_is_taken_by_the_service(profile: SchemaProfile, schema: JsonObject) -> None:
    before = copy.deepcopy(schema)
    tool = for_provider(spec(schema), profile)
    assert CHECKERS[profile.name](tool.parameters) == []
    assert schema == before, "the input is not modified"
    again = for_provider(spec(tool.parameters or {}), profile)
    assert again.parameters == tool.parameters, "its own result when put in again"


@pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)
def test_types_keep_their_order_when_parts_are_joined(profile: SchemaProfile) -> None:
    parts = [{"type": ["number", "array"]}, {"type": ["integer", "array"]}]
    schema = {"type": "object", "properties": {"a": {"allOf": parts}}}
    once = for_provider(spec(schema), profile).parameters
    assert once is not None
    assert for_provider(spec(once), profile).parameters == once


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(schema=tools(), tried=st.lists(arguments, min_size=12, max_size=12))
def test_nothing_valid_becomes_invalid(schema: JsonObject, tried: list[JsonObject]) -> None:
    try:
        original = compile_schema(schema)
    except SchemaRefused:
        assume(False)
    valid = [value for value in tried if not original.too_much(value) and original.is_valid(value)]
    assume(valid)
    for name in SCHEMA_KEEPING:
        tool = for_provider(spec(schema), PROFILES[name])
        if tool.cannot_give:
            continue
        assert tool.parameters is not None
        written = compile_schema(tool.parameters)
        assert [value for value in valid if not written.is_valid(value)] == [], tool.parameters


@pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    junk=st.dictionaries(
        st.sampled_from(
            [
                "type",
                "properties",
                "required",
                "items",
                "enum",
                "anyOf",
                "allOf",
                "$ref",
                "minimum",
                "minLength",
                "nullable",
                "prefixItems",
                "$schema",
                "description",
            ]
        ),
        values,
    )
)
def test_no_shape_of_schema_breaks_it(profile: SchemaProfile, junk: JsonObject) -> None:
    tool = for_provider(spec({"type": "object", "properties": {"a": junk}, **junk}), profile)
    assert CHECKERS[profile.name](tool.parameters) == []
