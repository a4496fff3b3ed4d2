from __future__ import annotations

import mcp_types as types

from cordboard.config.schema import Config
from cordboard.generation.generation import Generation
from cordboard.mcp.fleet import MOST_CHARACTERS, MOST_TOLD, troubles
from cordboard.mcp.supervision.server import ServerState


def listed(name: str, root: str) -> types.Tool:
    return types.Tool.model_validate({"name": name, "inputSchema": {"type": root}})


def generation_of(listings: dict[str, list[types.Tool]], lock: str = "off") -> Generation:
    """With servers that are ready and have listed these tools."""
    servers = {name: {"command": ["sh"], "start": "lazy"} for name in listings}
    config = {"contexts": {"demo": {}}, "mcp": {"lock": lock, "servers": servers}}
    generation = Generation(Config.model_validate(config))
    generation.start()
    for name, server in generation.fleet.servers.items():
        server.discovered, server.listing = True, tuple(listings[name])
        server._set_state(ServerState.READY)
    return generation


async def told(listings: dict[str, list[types.Tool]], lock: str = "off") -> str:
    generation = generation_of(listings, lock)
    try:
        return troubles(generation.fleet, generation.catalogue)
    finally:
        await generation.close()


async def test_nothing_is_told_of_servers_and_tools_in_order() -> None:
    assert await told({"a": [listed("x", "object")], "b": []}) == ""


async def test_a_tool_that_is_refused_is_told_with_the_reason() -> None:
    words = await told({"a": [listed("good", "object"), listed("bad", "array")]})
    assert words.startswith("mcp.servers.a: the tool 'bad' is not offered: ")
    assert "good" not in words


async def test_quarantined_tools_are_told_with_what_to_do() -> None:
    words = await told({"a": [listed("x", "object"), listed("y", "object")]}, "enforce")
    assert "none of its 2 tools is offered" in words
    assert "cordboard mcp accept a" in words


async def test_two_servers_that_claim_one_name_are_told() -> None:
    words = await told({"a": [listed("b_c", "object")], "a_b": [listed("c", "object")]})
    assert "'mcp_a_b_c' is claimed by mcp:a:b_c and mcp:a_b:c" in words


async def test_however_much_is_wrong_the_answer_stays_short() -> None:
    names = [f"{number}{'n' * 100}" for number in range(50)]
    words = await told({s: [listed(name, "array") for name in names] for s in ("a", "b")})
    assert len(words) < MOST_TOLD * (MOST_CHARACTERS + 2) + 20
    assert words.endswith("; and 22 more")


async def test_servers_that_are_down_come_first_and_say_nothing_of_tools() -> None:
    generation = generation_of({"a": [listed("bad", "array")], "b": [listed("x", "object")]})
    down = generation.fleet.servers["b"]
    down.listing, down._last_error = (), "it exited with status 3"
    down._set_state(ServerState.FAILED)
    try:
        words = troubles(generation.fleet, generation.catalogue)
    finally:
        await generation.close()
    assert "b is failed: it exited with status 3; mcp.servers.a: the tool 'bad'" in words
