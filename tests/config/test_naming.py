"""Exposed names of MCP tools."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from cordboard.config.naming import exposed_name, exposed_names, exposed_prefix

SERVERS = st.from_regex(r"[a-z][a-z0-9_]{0,40}", fullmatch=True)


def test_the_seed_example() -> None:
    assert exposed_name("aviation_atis", "get_atis") == "mcp_aviation_atis_get_atis"


def test_names_become_snake_case() -> None:
    assert exposed_name("crm", "Customers.Find-byName") == "mcp_crm_customers_find_by_name"


def test_long_names_stay_readable_and_apart() -> None:
    one, other = (exposed_name("crm", "find_the_customer_" * 5 + end) for end in ("a", "b"))
    assert one.startswith("mcp_crm_find_the_customer_find_the_customer")
    assert re.fullmatch(r".+_[0-9a-f]{8}", one)
    assert len(one) <= 64
    assert one != other


def test_a_name_of_just_64_characters_is_left_alone() -> None:
    tool = "x" * (64 - len("mcp_crm_"))
    assert exposed_name("crm", tool) == f"mcp_crm_{tool}"


@given(SERVERS, st.text(max_size=130))
def test_every_name_is_safe_for_every_provider(server: str, tool: str) -> None:
    name = exposed_name(server, tool)
    assert re.fullmatch(r"[a-z_][a-z0-9_]{0,63}", name)
    assert name.startswith(exposed_prefix(server)[:54])
    assert name == exposed_name(server, tool)


def test_names_that_meet_all_end_in_a_hash_whatever_their_order() -> None:
    names = exposed_names("s", ["get.a", "other", "get-a"])
    assert names["other"] == "mcp_s_other"
    assert re.fullmatch(r"mcp_s_get_a_[0-9a-f]{8}", names["get.a"])
    assert re.fullmatch(r"mcp_s_get_a_[0-9a-f]{8}", names["get-a"])
    assert names == exposed_names("s", ["get-a", "other", "get.a"])
    assert names["get.a"] != names["get-a"]


def test_a_tool_cannot_take_the_name_that_another_would_escape_to() -> None:
    escape = exposed_names("s", ["get.a", "get-a"])["get.a"]
    impostor = escape.removeprefix("mcp_s_")
    names = exposed_names("s", ["get.a", "get-a", impostor])
    assert len(set(names.values())) == 3
    assert names["get.a"] != escape
    assert names[impostor] != escape


AWKWARD = st.text("aA_-. é\ud800\U0001f600\u200b", max_size=12) | st.text(max_size=200)


@given(SERVERS, st.sets(AWKWARD, max_size=12))
def test_no_two_tools_of_a_server_share_a_name(server: str, tools: set[str]) -> None:
    names = exposed_names(server, tools)
    assert set(names) == tools
    assert len(set(names.values())) == len(tools)
    assert all(re.fullmatch(r"mcp_[a-z0-9_]{1,60}", name) for name in names.values())
