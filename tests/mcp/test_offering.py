from __future__ import annotations

from typing import Any

import mcp_types as types
import structlog
from pydantic import TypeAdapter

from cordboard.config.mcp import McpServer
from cordboard.config.tools.entry import ToolEntry, tools_of_servers
from cordboard.errors import ConfigProblem
from cordboard.mcp.definitions.definition import ListedTool, read_tool
from cordboard.mcp.definitions.lock import Lock
from cordboard.mcp.offering import MAX_PROBLEMS, Offering, OfferingLog, offer


def tool(name: str, description: str = "Does it.") -> ListedTool:
    return read_tool({"name": name, "description": description, "inputSchema": {"type": "object"}})


def server(*tools: dict[str, Any]) -> McpServer:
    return McpServer.model_validate({"command": ["sh"], "tools": tools})


ALL = server()


def names(offering: Offering) -> dict[str, str]:
    return {choice.listed.name: choice.name for choice in offering.choices}


def told(offering: Offering) -> list[str]:
    return [str(problem) for problem in offering.problems]


def test_empty_means_all() -> None:
    offering = offer("s", ALL, [tool("getAtis"), tool("b")])
    assert names(offering) == {"getAtis": "mcp_s_get_atis", "b": "mcp_s_b"}
    assert offering.problems == ()


def test_what_is_named_is_offered_in_that_order_under_the_names_given() -> None:
    config = server({"name": "c"}, {"name": "a", "expose_as": "lookup"}, {"name": "ghost"})
    offering = offer("s", config, [tool("a"), tool("b"), tool("c")])
    assert names(offering) == {"c": "mcp_s_c", "a": "lookup"}
    assert told(offering) == [
        "mcp.servers.s.tools.2.name: the server has no tool 'ghost'; it has: a, b, c"
    ]


def test_a_refused_tool_is_named_with_its_reason_and_costs_no_other() -> None:
    bad = read_tool({"name": "bad", "inputSchema": []})
    offering = offer("s", ALL, [bad, tool("good")])
    assert names(offering) == {"good": "mcp_s_good"}
    assert told(offering) == [
        "mcp.servers.s: the tool 'bad' is not offered: its inputSchema is a list,"
        " expected an object"
    ]
    assert told(offer("s", server({"name": "bad"}), [bad]))[0].startswith("mcp.servers.s.tools.0: ")
    assert told(offer("s", server({"name": "good"}), [bad, tool("good")])) == []


def test_names_that_meet_are_both_offered_and_both_explained() -> None:
    offering = offer("s", ALL, [tool("get.a"), tool("get-a")])
    one, other = names(offering).values()
    assert one != other
    assert told(offering) == [
        "mcp.servers.s: the tool name 'mcp_s_get_a' is claimed by mcp:s:get.a and mcp:s:get-a;"
        f" offered as {one} and {other}; to choose the names yourself, name the tools under"
        " `tools:` with `expose_as:`"
    ]


def test_without_a_lock_nothing_is_compared() -> None:
    lock = Lock().accepted("s", [tool("a")])
    offering = offer("s", ALL, [tool("a", "Other."), tool("b")], "off", lock)
    assert len(offering.choices) == 2
    assert offering.suspicions == ()


def test_warn_offers_what_is_new_or_changed_and_says_so() -> None:
    lock = Lock().accepted("s", [tool("a"), tool("c")])
    offering = offer("s", ALL, [tool("a", "Other."), tool("b"), tool("c")], "warn", lock)
    assert len(offering.choices) == 3
    assert offering.problems == ()
    standings = {s.listed.name: str(s.judgement.standing) for s in offering.suspicions}
    assert standings == {"a": "changed", "b": "new"}


def test_warn_says_nothing_of_a_server_of_which_nothing_was_accepted() -> None:
    assert offer("s", ALL, [tool("a")], "warn", Lock()).suspicions == ()
    assert offer("s", ALL, [tool("a")], "warn", None).suspicions == ()


def test_enforce_offers_only_what_was_accepted_and_says_how_to_accept() -> None:
    lock = Lock().accepted("s", [tool("a"), tool("c")])
    offering = offer("s", ALL, [tool("a", "Other."), tool("b"), tool("c")], "enforce", lock)
    assert names(offering) == {"c": "mcp_s_c"}
    assert offering.quarantined == ("a", "b")
    assert offering.withheld[0].diff == ('- description: "Does it."', '+ description: "Other."')
    how = "accept with `cordboard mcp accept s`, or do not use it"
    assert told(offering) == [
        "mcp.servers.s: the tool 'a' is not offered: its definition has changed since it was"
        f" accepted (description); {how}",
        "mcp.servers.s: the tool 'b' is not offered: it is new since the server's tools were"
        f" accepted; {how}",
    ]


def test_enforce_offers_nothing_of_a_server_that_was_never_accepted() -> None:
    for lock in (Lock().accepted("other", [tool("a")]), None):
        offering = offer("s", ALL, [tool("a"), tool("b")], "enforce", lock)
        assert offering.choices == ()
        (problem,) = told(offering)
        assert "none of its 2 tools is offered: none has been accepted yet" in problem
        assert "`cordboard mcp accept s`" in problem


def test_enforce_offers_nothing_by_a_lockfile_that_cannot_be_read() -> None:
    damaged = Lock(problem=ConfigProblem("the MCP lockfile is not JSON", file="mcp.lock", line=3))
    offering = offer("s", ALL, [tool("a")], "enforce", damaged)
    assert offering.choices == ()
    assert told(offering) == [
        "mcp.servers.s: none of its tools is offered: mcp.lock:3: the MCP lockfile is not JSON"
    ]
    assert len(offer("s", ALL, [tool("a")], "warn", damaged).choices) == 1


def test_a_new_tool_in_quarantine_does_not_rename_an_accepted_one() -> None:
    lock = Lock().accepted("s", [tool("get-a")])
    offering = offer("s", ALL, [tool("get.a"), tool("get-a")], "enforce", lock)
    assert names(offering) == {"get-a": "mcp_s_get_a"}


def test_only_what_is_wanted_is_judged() -> None:
    lock = Lock().accepted("s", [tool("a")])
    offering = offer("s", server({"name": "a"}), [tool("a"), tool("b")], "enforce", lock)
    assert offering.withheld == ()


def test_a_server_that_was_not_asked_yet_has_the_definitions_that_were_accepted() -> None:
    lock = Lock().accepted("s", [tool("a", "As accepted.")])
    expected = [types.Tool(name=name, input_schema={"type": "object"}) for name in ("a", "b")]
    config = server({"name": "a"}, {"name": "b"})
    (choice,) = offer("s", config, expected, "enforce", lock).choices
    assert choice.listed.description == "As accepted."
    warned = offer("s", config, expected, "warn", Lock())
    assert len(warned.choices) == 2
    assert warned.suspicions == ()


def test_a_server_with_a_thousand_bad_tools_gives_few_problems() -> None:
    listing = [read_tool({"name": f"t{number}"}) for number in range(1_000)]
    offering = offer("s", ALL, listing)
    assert len(offering.problems) == MAX_PROBLEMS + 1
    assert "and 980 more" in str(offering.problems[-1])
    assert len(offering.withheld) == 1_000


def test_each_warning_is_logged_once() -> None:
    told = OfferingLog()
    lock = Lock().accepted("s", [tool("a")])
    bad = read_tool({"name": "bad"})
    with structlog.testing.capture_logs() as logged:
        for _ in range(3):
            told.tell("s", offer("s", ALL, [tool("a", "Other."), bad], "warn", lock))
        told.tell("s", offer("s", ALL, [tool("a", "Yet another.")], "warn", lock))
    assert [(line["event"], line["tool"]) for line in logged] == [
        ("mcp_tool_withheld", "mcp:s:bad"),
        ("mcp_tool_not_as_accepted", "mcp:s:a"),
        ("mcp_tool_not_as_accepted", "mcp:s:a"),
    ]
    assert logged[1]["diff"] == ('- description: "Does it."', '+ description: "Other."')


def test_a_server_that_changes_a_thousand_tools_gets_few_lines() -> None:
    listing = [tool(f"t{number}") for number in range(1_000)]
    lock = Lock().accepted("s", listing)
    changed = [tool(f"t{number}", "Other.") for number in range(1_000)]
    with structlog.testing.capture_logs() as logged:
        OfferingLog().tell("s", offer("s", ALL, changed, "enforce", lock))
    assert len(logged) == 21
    assert (logged[-1]["event"], logged[-1]["tools"]) == ("mcp_more_such_tools", 980)


def test_an_entry_elsewhere_counts_as_if_it_stood_here_and_shuts_no_other_out() -> None:
    entries = tools_of_servers(
        TypeAdapter(dict[str, ToolEntry]).validate_python(
            {
                "look": {"kind": "mcp", "server": "s", "tool": "a", "timeout_ms": 70},
                "lost": {"kind": "mcp", "server": "s", "tool": "ghost"},
            }
        )
    )["s"]
    listing = [tool("a"), tool("b"), tool("c")]
    offering = offer("s", ALL, listing, entries=entries)
    assert names(offering) == {"a": "look", "b": "mcp_s_b", "c": "mcp_s_c"}
    assert offering.choices[0].override == entries[0]
    assert told(offering) == ["tools.lost.tool: the server has no tool 'ghost'; it has: a, b, c"]
    offering = offer("s", server({"name": "c"}), listing, entries=entries)
    assert names(offering) == {"c": "mcp_s_c", "a": "look"}
