from __future__ import annotations

import pytest

from cordboard.mcp.definitions.definition import ListedTool, read_tool
from cordboard.mcp.definitions.listing import ParameterHeaders, admitted


def tool(name: str, **properties: object) -> ListedTool:
    listed = read_tool(
        {"name": name, "inputSchema": {"type": "object", "properties": dict(properties)}}
    )
    assert not listed.refusal
    return listed


def marked(header: str, kind: str = "string") -> dict[str, str]:
    return {"type": kind, "x-mcp-header": header}


def test_marked_arguments_become_headers_and_no_others() -> None:
    lookup = tool("lookup", region=marked("Region"), deep={"type": "object"}, plain={})
    tools, headers = admitted([lookup, tool("other")])
    assert [listed.refusal for listed in tools] == ["", ""]
    call = {"name": "lookup", "arguments": {"region": "północ", "plain": "x"}}
    assert headers.of(call) == {"Mcp-Param-Region": "=?base64?cMOzxYJub2M=?="}
    assert headers.of({"name": "lookup", "arguments": {"plain": "x"}}) == {}
    assert headers.of({"name": "lookup"}) == {}
    assert headers.of({"name": "other", "arguments": {"region": "north"}}) == {}
    assert headers.of(None) == {}


@pytest.mark.parametrize(
    "properties",
    [
        {"region": marked("")},
        {"region": marked("a b")},
        {"region": marked("a\r\nX-Admin")},
        {"region": marked("Region", "object")},
        {"north": marked("Region"), "south": marked("region")},
    ],
)
def test_a_tool_that_asks_for_an_impossible_header_is_refused(
    properties: dict[str, object],
) -> None:
    good = tool("good", region=marked("Region"))
    tools, headers = admitted([tool("bad", **properties), good])
    assert [(listed.name, bool(listed.refusal)) for listed in tools] == [
        ("bad", True),
        ("good", False),
    ]
    assert "x-mcp-header" in tools[0].refusal
    arguments = dict.fromkeys(properties, "v")
    assert headers.of({"name": "bad", "arguments": arguments}) == {}


def test_what_was_refused_before_stays_refused_for_its_own_reason() -> None:
    tools, _ = admitted([ListedTool.refused("bad", "it is too long")])
    assert tools[0].refusal == "it is too long"


def test_without_a_listing_there_are_no_headers() -> None:
    assert ParameterHeaders().of({"name": "lookup", "arguments": {"region": "north"}}) == {}
