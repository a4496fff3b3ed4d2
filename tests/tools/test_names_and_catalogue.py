from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cordboard.config.naming import EXPOSED_NAME, exposed_name
from cordboard.tools.catalogue import Catalogue, ToolEntry

from .conftest import Probe

servers = st.from_regex(r"[a-z][a-z0-9_]{0,40}", fullmatch=True)


@given(servers, st.text(max_size=200))
def test_every_provider_accepts_every_name(server: str, tool: str) -> None:
    name = exposed_name(server, tool)
    assert EXPOSED_NAME.match(name)
    assert name == name.lower()
    assert name.startswith("mcp_")
    assert exposed_name(server, tool) == name


@given(servers, st.text("ab_", min_size=70, max_size=128), st.text("ab_", min_size=70))
def test_long_names_stay_different(server: str, one: str, other: str) -> None:
    assert (exposed_name(server, one) == exposed_name(server, other)) == (one == other)


def test_names_are_readable() -> None:
    assert exposed_name("aviation_atis", "get_atis") == "mcp_aviation_atis_get_atis"
    assert exposed_name("s", "getHTTPStatus.v2") == "mcp_s_get_http_status_v2"
    long = exposed_name("library", "search_all_the_books_" * 6)
    assert long.startswith("mcp_library_search_all_the_books_search_all")
    assert len(long) == 64


def test_a_toolbox_holds_what_is_listed_and_names_what_is_missing() -> None:
    catalogue = Catalogue([ToolEntry(Probe("a")), ToolEntry(Probe("b"))])
    box = catalogue.toolbox(["b", "ghost", "b"])
    assert [spec.name for spec in box.specs] == ["b"]
    assert box.missing == ("ghost",)
    assert box.find("a") is None
    assert "a" not in box


def test_a_name_that_the_operator_chose_goes_before_a_derived_one() -> None:
    chosen = Probe("name", origin="mcp:one:x")
    derived = Probe("name", origin="mcp:two:y")
    catalogue = Catalogue([ToolEntry(derived, chosen=False), ToolEntry(chosen)])
    assert catalogue["name"] is chosen
    (problem,) = catalogue.problems
    assert "mcp:two:y and mcp:one:x" in problem.message
    assert "expose_as" in problem.message


def test_equals_both_lose_a_name() -> None:
    entries = [ToolEntry(Probe("name", origin=f"mcp:{n}:x"), chosen=False) for n in "ab"]
    catalogue = Catalogue(entries)
    assert "name" not in catalogue
    assert "mcp:a:x and mcp:b:x" in str(catalogue.problems[0])


def test_a_tool_with_an_unusable_schema_is_not_offered() -> None:
    bad = Probe("bad", parameters={"type": "object", "properties": {"a": {"$ref": "http://x/y"}}})
    catalogue = Catalogue([ToolEntry(bad), ToolEntry(Probe("good"))])
    assert list(catalogue) == ["good"]
    assert "python:bad" in str(catalogue.problems[0])


def test_unchanged_tools_are_not_compiled_again() -> None:
    tool = Probe("a")
    first = Catalogue([ToolEntry(tool)])
    second = Catalogue([ToolEntry(tool), ToolEntry(Probe("b"))], reuse=first)
    assert second.offered("a") is first.offered("a")
