"""The schemas of tools as each provider takes them: the rules one by one, and real servers."""

from __future__ import annotations

import json
import socket
import time
from pathlib import Path
from typing import Any, cast

import pytest

from cordboard.config.schema import Config
from cordboard.mcp_servers.aviation_atis.server import build_server
from cordboard.mcp_servers.aviation_atis.service import AtisService
from cordboard.tools.builtin import builtin_tools
from cordboard.tools.provider_schema import ProviderTool, for_provider, for_provider_list
from cordboard.tools.schema.checker import compile_schema
from cordboard.tools.schema_profiles import SchemaProfile
from cordboard.tools.tool import JsonObject, ToolSpec
from cordboard.vendors.anthropic.limits import ANTHROPIC
from cordboard.vendors.deepgram.limits import DEEPGRAM
from cordboard.vendors.elevenlabs.limits import ELEVENLABS
from cordboard.vendors.gemini.limits import GEMINI
from cordboard.vendors.openai.limits import OPENAI_CHAT, OPENAI_REALTIME

from .provider_checkers import CHECKERS
from .vendor_limits import PROFILES

LISTED = json.loads((Path(__file__).parent / "listed_tools.json").read_text(encoding="utf-8"))
"""What six public servers listed; written by `tests/mcp_real/record_listings.py`."""
every_profile = pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)


def spec(parameters: JsonObject, name: str = "tool", description: str = "Does it") -> ToolSpec:
    return ToolSpec(name, "mcp", description, parameters, origin=f"mcp:server:{name}")


def written(profile: SchemaProfile, **properties: Any) -> dict[str, Any]:
    """The properties of a tool that has these."""
    tool = for_provider(spec({"type": "object", "properties": properties}), profile)
    assert tool.parameters is not None
    assert CHECKERS[profile.name](tool.parameters) == []
    result: dict[str, Any] = tool.parameters["properties"]
    return result


def whole(profile: SchemaProfile, **schema: Any) -> ProviderTool:
    tool = for_provider(spec({"type": "object", **schema}), profile)
    assert CHECKERS[profile.name](tool.parameters) == []
    return tool


@every_profile
@pytest.mark.parametrize("server", LISTED, ids=lambda server: server["server"])
def test_real_servers(profile: SchemaProfile, server: dict[str, Any]) -> None:
    specs = [
        spec(tool["inputSchema"], f"{tool['name'].replace('-', '_')}", tool.get("description", ""))
        for tool in server["tools"]
    ]
    tools, problems = for_provider_list(specs, profile)
    assert problems == ()
    assert len(tools) == len(specs)
    for tool, original in zip(tools, specs, strict=True):
        assert CHECKERS[profile.name](tool.parameters) == []
        assert list((tool.parameters or {"properties": {}})["properties"]) == list(
            original.parameters.get("properties", {})
        ), "no parameter of a real server is lost"
        assert (tool.parameters or {}).get("required", []) == original.parameters.get(
            "required", []
        )


@every_profile
async def test_our_own_tools(profile: SchemaProfile) -> None:
    destinations = {"sales": {"target": "6001"}}
    tools = builtin_tools(
        Config.model_validate(
            {"contexts": {"demo": {}}, "tools": {"transfer": {"destinations": destinations}}}
        )
    )
    specs = [tool.spec for tool in tools]
    server = build_server(cast(AtisService, None))
    specs += [spec(tool.input_schema, tool.name) for tool in await server.list_tools()]
    offered, problems = for_provider_list(specs, profile)
    assert problems == ()
    assert {"hangup_call", "transfer", "get_atis"} <= {tool.name for tool in offered}
    for tool in offered:
        assert CHECKERS[profile.name](tool.parameters) == []


def test_what_a_real_schema_becomes() -> None:
    [log] = [tool for server in LISTED for tool in server["tools"] if tool["name"] == "git_log"]
    start = log["inputSchema"]["properties"]["start_timestamp"]
    assert start["anyOf"] == [{"type": "string"}, {"type": "null"}]
    tool = for_provider(spec(log["inputSchema"]), GEMINI)
    assert tool.parameters is not None
    part = tool.parameters["properties"]["start_timestamp"]
    assert part == {
        "type": "string",
        "description": start["description"],
        "nullable": True,
    }


def test_what_the_profile_cannot_say_is_told_in_words() -> None:
    plain = {"type": "string", "pattern": "^[A-Z]{4}$", "description": "The airport"}
    assert written(ELEVENLABS, icao=plain)["icao"] == {
        "type": "string",
        "description": "The airport (matches ^[A-Z]{4}$)",
    }
    assert written(GEMINI, icao=plain)["icao"] == plain
    count = {"type": "integer", "minimum": 1, "multipleOf": 5, "default": 10}
    assert written(ELEVENLABS, n=count)["n"]["description"] == (
        "(at least 1; a multiple of 5; default 10)"
    )
    assert written(OPENAI_REALTIME, n=count)["n"] == count
    told = "`multipleOf` appears only in the description at n"
    assert told in whole(GEMINI, properties={"n": count}).notes


def test_constants_and_alternatives() -> None:
    unit = {"oneOf": [{"const": "kt"}, {"const": "mps"}]}
    assert written(ANTHROPIC, unit=unit)["unit"] == {"anyOf": [{"enum": ["kt"]}, {"enum": ["mps"]}]}
    assert written(GEMINI, unit=unit)["unit"] == {
        "anyOf": [{"type": "string", "enum": ["kt"]}, {"type": "string", "enum": ["mps"]}]
    }
    assert written(ELEVENLABS, unit=unit)["unit"] == {
        "type": "string",
        "enum": ["kt", "mps"],
        "description": "unit",
    }


def test_joined_parts() -> None:
    parts = {
        "allOf": [
            {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
            {"properties": {"a": {"minLength": 2}, "b": {"type": "integer"}}, "required": ["b"]},
        ],
        "description": "Both",
    }
    assert written(OPENAI_CHAT, x=parts)["x"] == {
        "type": "object",
        "description": "Both",
        "properties": {"a": {"type": "string", "minLength": 2}, "b": {"type": "integer"}},
        "required": ["a", "b"],
    }


def test_types_with_null() -> None:
    age = {"type": ["integer", "null"], "exclusiveMinimum": 0, "description": "Age"}
    assert written(OPENAI_CHAT, age=age)["age"] == age
    assert written(GEMINI, age=age)["age"] == {
        "type": "integer",
        "minimum": 1,
        "description": "Age",
        "nullable": True,
    }
    assert written(DEEPGRAM, age=age)["age"] == {
        "anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}],
        "description": "Age",
    }


def test_gemini_takes_strings_as_values_only() -> None:
    part = written(
        GEMINI, size={"enum": [1, 2]}, kind={"enum": ["a", None]}, when={"format": "uri"}
    )
    assert part["size"] == {"type": "integer", "description": "(one of 1, 2)"}
    assert part["kind"] == {"type": "string", "enum": ["a"], "nullable": True}
    assert part["when"] == {"type": "string", "description": "(format uri)"}


def test_lists_say_what_is_in_them() -> None:
    assert written(OPENAI_REALTIME, a={"type": "array"})["a"] == {"type": "array", "items": {}}
    pair = {"type": "array", "prefixItems": [{"type": "number"}, {"type": "string"}]}
    listed = written(DEEPGRAM, a={**pair, "items": False})["a"]
    assert listed["items"] == {"anyOf": [{"type": "number"}, {"type": "string"}]}
    assert (listed["maxItems"], listed["description"]) == (2, "(a fixed order of 2 items)")


def test_a_tool_without_parameters() -> None:
    empty = {"type": "object", "properties": {"never": False}}
    assert for_provider(spec(empty), GEMINI).parameters is None
    assert for_provider(spec({}), DEEPGRAM).parameters == {"type": "object", "properties": {}}


def test_alternatives_at_the_root_become_one_object() -> None:
    tool = whole(
        OPENAI_REALTIME,
        properties={"id": {"type": "string"}, "name": {"type": "string"}},
        anyOf=[{"required": ["id"]}, {"required": ["name"]}],
    )
    assert tool.parameters == {
        "type": "object",
        "properties": {"id": {"type": "string"}, "name": {"type": "string"}},
        "description": "(needs id, or name)",
    }


def test_names_that_a_provider_has_no_room_for() -> None:
    schema = {
        "type": "object",
        "properties": {"x-y": {}, "filter[id]": {}, "fine": {"type": "string"}},
        "additionalProperties": False,
        "required": ["fine"],
    }
    assert list((for_provider(spec(schema), ANTHROPIC).parameters or {})["properties"]) == [
        "x-y",
        "fine",
    ]
    tool = for_provider(spec(schema), GEMINI)
    assert list((tool.parameters or {})["properties"]) == ["fine"]
    assert "not accepted as names: filter[id], x-y" in tool.notes
    tools, (problem,) = for_provider_list([spec({**schema, "required": ["x-y"]})], GEMINI)
    assert tools == ()
    assert "it requires 'x-y'" in str(problem)


@every_profile
def test_references_are_put_in_place_and_never_fetched(
    profile: SchemaProfile, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a schema was fetched")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    schema = {
        "type": "object",
        "properties": {
            "near": {"$ref": "#/$defs/place"},
            "far": {"$ref": "https://example.com/schema.json", "description": "Far"},
            "file": {"$ref": "file:///etc/passwd"},
        },
        "$defs": {
            "place": {
                "type": "object",
                "properties": {"name": {"type": "string"}, "next": {"$ref": "#/$defs/place"}},
            }
        },
    }
    tool = for_provider(spec(schema), profile)
    assert CHECKERS[profile.name](tool.parameters) == []
    near = (tool.parameters or {})["properties"]["near"]
    assert near["properties"]["name"]["type"] == "string"
    assert near["properties"]["next"]["type"] == "object"
    assert "properties" not in near["properties"]["next"], "cut where it begins again"
    assert any("leads nowhere here" in note for note in tool.notes)


@every_profile
def test_deep_wide_and_multiplying_schemas_end(profile: SchemaProfile) -> None:
    deep: JsonObject = {"type": "string"}
    joined: JsonObject = {"type": "string"}
    for _ in range(200):
        deep = {"type": "object", "properties": {"a": deep}}
        joined = {"allOf": [{"anyOf": [joined, {"type": "integer"}]}]}
    laughs = {
        f"d{n}": {
            "type": "object",
            "properties": {"a": {"$ref": f"#/$defs/d{n + 1}"}, "b": {"$ref": f"#/$defs/d{n + 1}"}},
        }
        for n in range(30)
    }
    chain = {f"c{n}": {"$ref": f"#/$defs/c{n + 1}"} for n in range(1_000)}
    properties = {
        "deep": deep,
        "joined": joined,
        "laughs": {"$ref": "#/$defs/d0"},
        "chain": {"$ref": "#/$defs/c0"},
    }
    for name, part in properties.items():
        schema = {"type": "object", "properties": {name: part}, "$defs": laughs | chain}
        began = time.thread_time()
        tool = for_provider(spec(schema), profile)
        assert time.thread_time() - began < 20  # 2^30 parts otherwise
        assert CHECKERS[profile.name](tool.parameters) == []


@every_profile
def test_what_is_beyond_all_bounds_is_told_by_its_type(
    profile: SchemaProfile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cordboard.tools.schema.rewriting.MAX_REWRITTEN", 10)
    kinds = [{}, {"type": "array", "items": {"type": "object"}}, {"type": ["null", "integer"]}]
    parts = {f"p{n}": kinds[n % 3] for n in range(60)}
    tool = whole(profile, properties=parts)
    assert list((tool.parameters or {})["properties"]) == list(parts)
    assert "too large: the rest has only types" in tool.notes


@every_profile
def test_the_costs_of_many_properties_do_not_multiply(profile: SchemaProfile) -> None:
    kinds = ({"type": "string", "minLength": 1}, {"anyOf": [{"type": "integer"}, {"type": "null"}]})
    schema = {"type": "object", "properties": {f"p{n}": kinds[n % 2] for n in range(10_000)}}
    began = time.thread_time()
    tool = for_provider(spec(schema), profile)
    assert time.thread_time() - began < 5  # 0.2 s measured
    assert len((tool.parameters or {})["properties"]) == 10_000
    assert len(tool.notes) < 25


def test_descriptions_are_cut_and_what_is_told_stays() -> None:
    text = {"type": "string", "description": "x" * 3_000, "minLength": 3}
    told = written(ELEVENLABS, a=text)["a"]["description"]
    assert len(told) == 1024
    assert told.endswith("… (at least 3 characters)")
    tool = for_provider(spec({"type": "object"}, description="y" * 3_000), OPENAI_CHAT)
    assert len(tool.description) == 1024
    assert any("description was cut" in note for note in tool.notes)


def test_no_tool_is_lost_silently() -> None:
    specs = [spec({"type": "object"}, f"tool_{n}") for n in range(140)]
    tools, (problem,) = for_provider_list(specs, OPENAI_REALTIME)
    assert [tool.name for tool in tools] == [f"tool_{n}" for n in range(128)]
    assert str(problem) == (
        "not offered to openai_realtime, it accepts 128 tools: "
        + ", ".join(f"tool_{n}" for n in range(128, 138))
        + " and 2 more"
    )
    assert not problem.fatal
    assert len(for_provider_list(specs, GEMINI)[0]) == 140
    large = {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(5_000)}}
    tools, problems = for_provider_list(
        [spec({}, "first"), spec(large, "large"), spec({}, "last"), spec({}, "last")], GEMINI
    )
    assert [tool.name for tool in tools] == ["first", "last"]
    assert "longer than 65536 bytes: large" in str(problems[1])
    assert "'last' appears twice" in str(problems[0])


def test_what_is_written_can_be_checked_again() -> None:
    for server in LISTED:
        for tool in server["tools"]:
            parameters = for_provider(spec(tool["inputSchema"]), OPENAI_CHAT).parameters
            assert parameters is not None
            compile_schema(parameters)
