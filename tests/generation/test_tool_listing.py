"""The table of all tools, and why one is not offered."""

from __future__ import annotations

from typing import Any

import pytest

from cordboard.config.schema import Config
from cordboard.errors import NotThere
from cordboard.generation.generation import Generation
from cordboard.generation.tool_listing import ToolRow, list_tools


def rows(context: str | None = None, **tools: dict[str, Any]) -> dict[str, ToolRow]:
    config = Config.model_validate(
        {
            "contexts": {"demo": {"tools": ["bad", "transfer", "nobody", "gone.*", "sleeps.*"]}},
            "tools": tools,
            "mcp": {"servers": {"sleeps": {"command": ["x"], "tools": [{"name": "turn-over"}]}}},
        }
    )
    now = Generation(config)
    listing = list_tools(config, now.fleet, now.catalogue, context)
    return {row.name: row for row in listing.rows}


def http(**more: Any) -> dict[str, Any]:
    return {"kind": "http", "url": "https://example.com/", "description": "D.", **more}


async def test_a_schema_that_is_refused_is_the_reason() -> None:
    pattern = {"type": "string", "pattern": "x" * 2_000}
    bad = rows(bad=http(parameters={"a": pattern}), bade=http())["bad"]
    assert (bad.offered, bad.kind, bad.origin, bad.description) == (False, "http", "http:bad", "D.")
    assert bad.why_not.startswith("http:bad is not offered: a pattern has 2000 characters")


async def test_what_is_not_imported_is_not_offered() -> None:
    (row,) = [
        row
        for row in rows(bad={"kind": "python", "function": "m:f"}).values()
        if "m:f" in row.origin
    ]
    assert (row.origin, row.why_not) == ("python:m:f", "no source offers it at this moment")


async def test_a_context_shows_all_that_it_lists() -> None:
    found = rows("demo", bad=http())
    assert {name: row.why_not for name, row in found.items()} == {
        "bad": "",
        "transfer": "there is nowhere to transfer to",
        "nobody": "no source offers it at this moment",
        "gone.*": "there is no MCP server gone",
        "sleeps.*": "its server is not started yet",
    }
    with pytest.raises(NotThere):
        rows("demmo")


async def test_tools_that_servers_are_expected_to_have() -> None:
    entry = {"kind": "mcp", "server": "sleeps", "tool": "snore", "description": "Loudly."}
    found = rows(snore=entry)
    assert found["snore"].why_not == "its server is not started yet"
    assert (found["snore"].description, found["snore"].origin) == ("Loudly.", "mcp:sleeps:snore")
    assert found["mcp_sleeps_turn_over"].why_not == "its server is not started yet"
    assert found["hangup_call"].offered


async def test_of_two_tools_under_one_name_both_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = {
        "exposed": "fetch", "origin": "mcp:shop:fetch", "server": "shop", "description": "D.",
        "parameters": {}, "offered": False, "why_not": "'fetch' is claimed by two",
    }  # fmt: skip
    monkeypatch.setattr("cordboard.generation.tool_listing.listed_tools", lambda *_: [listed])
    now = Generation(Config.model_validate({"contexts": {"demo": {}}, "tools": {"fetch": http()}}))
    found = list_tools(now.config, now.fleet, now.catalogue).rows
    assert [(row.origin, row.why_not) for row in found if row.name == "fetch"] == [
        ("http:fetch", ""),
        ("mcp:shop:fetch", "'fetch' is claimed by two"),
    ]
