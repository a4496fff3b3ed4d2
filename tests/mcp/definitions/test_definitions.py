from __future__ import annotations

import time
from typing import Any

import mcp_types as types
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordboard.mcp.definitions.definition import clean_description, fingerprint_of, read_tool
from cordboard.mcp.definitions.listing import MAX_PAGES, MAX_TOOLS, Pages

OBJECT = {"type": "object"}


def listed(name: Any = "get_atis", **more: Any) -> dict[str, Any]:
    return {"name": name, "inputSchema": OBJECT, **more}


def with_schema(**schema: Any) -> dict[str, Any]:
    return listed(inputSchema={"type": "object", **schema})


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ([], "it is a list, expected an object"),
        (None, "it is missing, expected an object"),
        (listed(name=7), "its name is a number, expected a text"),
        (listed(name=""), "its name is empty"),
        ({"inputSchema": OBJECT}, "its name is missing"),
        (listed(name="t" * 129), "its name has 129 characters"),
        (listed(name="get\u202eatis"), r"its name hides characters: 'get\u202eatis'"),
        (listed(name="get\natis"), "its name hides characters"),
        (listed(name="get\U000e0041"), "its name hides characters"),
        ({"name": "x"}, "it has no inputSchema"),
        (listed(inputSchema=[]), "its inputSchema is a list, expected an object"),
        (listed(inputSchema=True), "its inputSchema is a truth value"),
        (listed(inputSchema={"type": "array"}), "root is of type 'array'"),
        (listed(description={"a": 1}), "its description is an object"),
        (with_schema(**{"$ref": "http://127.0.0.1:9/x"}), "outside the schema"),
        (with_schema(properties={"a": {"pattern": "("}}), "not a usable JSON Schema"),
        (with_schema(enum=["\ud800"]), "is not JSON"),
        (with_schema(properties={"a": {"enum": ["x\U000e0069y"]}}), "hides characters"),
        (with_schema(properties={"card\u200b": {}}), "hides characters"),
        (with_schema(properties={"a": {"default": "\u202ex"}}), "hides characters"),
        (with_schema(properties={"a": {"const": "\u200d" * 3}}), "hides characters"),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_a_definition_that_cannot_be_offered_says_why(raw: Any, reason: str) -> None:
    tool = read_tool(raw)
    assert reason in tool.refusal
    assert tool.arguments is None


@pytest.mark.parametrize(
    "name", ["get.atis", "wetter/heute", "t" * 128, "✈️", "get atis", "получить", "a\u200db"]
)
def test_odd_names_are_taken(name: str) -> None:
    assert read_tool(listed(name=name)).refusal == ""
    assert read_tool(listed(name=name)).name == name


def test_nothing_hidden_is_left_in_what_an_agent_reads() -> None:
    hidden = "\u202e\u200b\U000e0041\ufe0f\u2066\u00ad\u3164\u115f\x07\U000e01ef"
    raw = listed(
        description=f"The {hidden}weather.",
        inputSchema={
            "type": "object",
            "title": f"A{hidden}",
            "$comment": f"B{hidden}",
            "properties": {"default": {"description": f"C{hidden}"}, "title": {"type": "string"}},
            "anyOf": [{"title": f"D{hidden}"}],
            "$defs": {"enum": {"description": f"E{hidden}"}},
        },
    )
    tool = read_tool(raw)
    assert tool.description == "The weather."
    assert tool.input_schema == {
        "type": "object",
        "title": "A",
        "$comment": "B",
        "properties": {"default": {"description": "C"}, "title": {"type": "string"}},
        "anyOf": [{"title": "D"}],
        "$defs": {"enum": {"description": "E"}},
    }


def test_values_that_the_server_compares_are_left_alone() -> None:
    words = ["a  b", "\u0645\u06cc\u200c\u062e\u0648", "\t", "👩\u200d🚀"]
    values = {"enum": words, "default": {"title": "x\ty"}}
    tool = read_tool(with_schema(properties={"a": values}))
    assert tool.refusal == ""
    assert tool.input_schema["properties"]["a"] == values


def test_descriptions_are_capped_everywhere() -> None:
    tool = read_tool(
        listed(
            description="x" * 5_000,
            inputSchema={"type": "object", "properties": {"a": {"description": "y" * 5_000}}},
        )
    )
    assert len(tool.description or "") == 1024
    assert len(tool.input_schema["properties"]["a"]["description"]) == 1024


def test_a_description_of_megabytes_is_not_read_to_its_end() -> None:
    began = time.thread_time()
    assert len(clean_description("é" * 40_000_000)) == 1024
    assert time.thread_time() - began < 1.0  # 0.03 s measured; three seconds of it, before


def test_hints_in_a_wrong_shape_are_no_hints() -> None:
    assert read_tool(listed(annotations=["readOnlyHint"])).annotations is None
    hints = {"readOnlyHint": "yes", "idempotentHint": True, "title": 7}
    annotations = read_tool(listed(annotations=hints)).annotations
    assert annotations is not None
    assert (annotations.read_only_hint, annotations.idempotent_hint) == (None, True)


@pytest.mark.parametrize("output", [7, [], {"$ref": "http://127.0.0.1:9/x"}, {"pattern": "("}])
def test_an_unusable_output_schema_does_not_cost_the_tool(output: Any) -> None:
    tool = read_tool(listed(outputSchema=output))
    assert tool.refusal == ""
    assert tool.output is None
    assert tool.output_refusal


def test_a_missing_type_at_the_root_is_filled_in() -> None:
    assert read_tool(listed(inputSchema={})).input_schema == {"type": "object"}


def test_equal_definitions_are_equal_whenever_they_were_read() -> None:
    one = read_tool(listed(description="a"))
    assert one == read_tool({"description": "a", **listed(), "icons": 7, "_meta": {"x": 1}})
    assert one != read_tool(listed(description="b"))
    assert one.fingerprint == fingerprint_of(one.definition)
    assert len(one.fingerprint) == 64


def test_the_sdks_own_tools_are_read_too() -> None:
    tool = types.Tool(name="x", description="a\u200bb", input_schema=OBJECT)
    assert read_tool(tool).description == "ab"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(), max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["name", "inputSchema", "type", "$ref", "anyOf", "properties", "pattern"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=15,
)


@given(json_values | st.builds(listed, inputSchema=json_values, outputSchema=json_values))
def test_whatever_is_listed_gives_a_tool_or_a_reason(raw: Any) -> None:
    tool = read_tool(raw)
    assert (tool.arguments is None) == bool(tool.refusal)
    assert "\n" not in tool.refusal


async def test_pages_are_read_to_the_end_and_bad_entries_cost_themselves_only() -> None:
    pages = Pages()
    assert await pages.add([listed("a"), 7, listed("b", inputSchema=[])], "more") == "more"
    assert await pages.add([listed("c"), listed("a", description="again")], None) is None
    assert [tool.name for tool in pages.tools if not tool.refusal] == ["a", "c"]
    reasons = [tool.refusal for tool in pages.tools if tool.refusal]
    assert "it is a number" in reasons[0]
    assert "its inputSchema is a list" in reasons[1]
    assert "it is listed twice" in reasons[2]


async def test_a_refused_name_does_not_take_the_place_of_a_good_one() -> None:
    pages = Pages()
    await pages.add([listed("get\u200b"), listed("get")], None)
    assert [(tool.name, bool(tool.refusal)) for tool in pages.tools] == [
        ("get", True),
        ("get", False),
    ]


async def test_a_cursor_that_comes_again_ends_the_listing() -> None:
    pages = Pages()
    assert await pages.add([listed("a")], "1") == "1"
    assert await pages.add([listed("b")], "2") == "2"
    assert await pages.add([listed("c")], "1") is None
    assert len(pages.tools) == 3


async def test_a_listing_without_end_is_cut() -> None:
    pages = Pages()
    asked = 0
    while await pages.add([], str(asked)) is not None:
        asked += 1
    assert asked == MAX_PAGES - 1
    many = Pages()
    assert await many.add([listed(f"t{number}") for number in range(MAX_TOOLS + 9)], "2") is None
    assert len(many.tools) == MAX_TOOLS


async def test_a_listing_of_megabytes_is_cut() -> None:
    pages = Pages()
    heavy = {"type": "object", "default": {"x": "y" * 200_000}}
    assert await pages.add([listed(f"t{n}", inputSchema=heavy) for n in range(40)], "2") is None
    assert 4_000_000 / 200_000 <= len(pages.tools) < 25
