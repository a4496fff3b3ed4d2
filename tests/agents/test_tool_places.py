"""Where a tool is offered, and the one sentence why not elsewhere."""

from __future__ import annotations

from typing import Any

import pytest

from cordboard.agents.tool_places import NOT_LISTED, tool_places, why_not
from cordboard.config.plugins import installed
from cordboard.config.schema import Config
from cordboard.errors import NotThere
from cordboard.generation.tool_listing import ToolListing, ToolRow
from cordboard.tools.tool import ToolSpec

CONFIG = Config.model_validate(
    {
        "providers": {
            "local": {"type": "pipeline"},
            "live": {"type": "openai_realtime"},
            "mixed": {"type": "pipeline", "brain": {"type": "openai_chat", "model": "m"}},
        },
        "contexts": {
            "demo": {"provider": "live", "fallback": ["mixed", "local"]},
            "sales": {"provider": "local"},
        },
    }
)
TOOL = ToolRow("find", "mcp", server="shop", offered=True)


def spec(name: str, **properties: Any) -> ToolSpec:
    schema = {"type": "object", "properties": properties, "required": [*properties]}
    return ToolSpec(name, "mcp", "Finds.", schema, server="shop")


def listing(context: str, *specs: ToolSpec, rows: tuple[ToolRow, ...] = ()) -> ToolListing:
    offered = tuple(ToolRow(each.name, "mcp", offered=True) for each in specs)
    return ToolListing(context, (*offered, *rows), specs)


def places(**listings: ToolListing) -> dict[tuple[str, str], str]:
    found = tool_places(TOOL, CONFIG, listings, installed())
    assert all(place.offered == (place.why_not == "") for place in found)
    return {(place.context, place.provider): place.why_not for place in found}


def test_every_provider_of_the_chain_is_a_place() -> None:
    assert places(demo=listing("demo", spec("find")), sales=listing("sales")) == {
        ("demo", "live"): "",
        ("demo", "mixed"): "",
        ("demo", "local"): "",
        ("sales", "local"): NOT_LISTED,
    }


def test_a_context_that_lists_it_says_what_its_server_lacks() -> None:
    down = ToolRow("find", "mcp", server="shop", why_not="its server is failed: no route")
    group = ToolRow("shop.*", "mcp", server="shop", why_not="its server is starting")
    found = places(demo=listing("demo", rows=(down,)), sales=listing("sales", rows=(group,)))
    assert found["demo", "live"] == "its server is failed: no route"
    assert found["sales", "local"] == "its server is starting"


def test_a_tool_beyond_the_limits_of_one_provider_is_offered_to_the_others() -> None:
    many = [spec(f"tool_{number}") for number in range(128)]
    found = places(demo=listing("demo", *many, spec("find")))
    assert "it accepts 128 tools" in found["demo", "live"]
    assert found["demo", "local"] == ""


def test_the_reason_of_one_place_is_the_same_sentence() -> None:
    whole = listing("sales")
    place = why_not(TOOL, "sales", None, CONFIG, whole, installed())
    assert (place.provider, place.why_not) == ("local", NOT_LISTED)
    with pytest.raises(NotThere, match="it uses local"):
        why_not(TOOL, "sales", "live", CONFIG, whole, installed())
