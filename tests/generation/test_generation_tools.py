"""Tools of all kinds in one generation: `server.*`, `kind: mcp`, functions, workflows."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator

import pytest
from structlog.testing import capture_logs

from cordboard.config.schema import Config
from cordboard.generation.generation import Generation
from cordboard.mcp.supervision.server import ServerState
from cordboard_testkit.mcp_servers import FAULTY_SERVER


@pytest.fixture
def module() -> Iterator[types.ModuleType]:
    module = types.ModuleType("generations_tools")

    def convert(amount: float) -> str:
        """Convert an amount."""
        return f"{amount}"

    module.convert = convert  # type: ignore[attr-defined]
    sys.modules["generations_tools"] = module
    yield module
    del sys.modules["generations_tools"]


def config(**server: object) -> Config:
    command = [sys.executable, str(FAULTY_SERVER)]
    return Config.model_validate(
        {
            "contexts": {
                "all": {"tools": ["hangup_call", "s.*", "look"]},
                "own": {"tools": ["convert", "both", "look", "nowhere"]},
                "none": {"tools": ["gone.*"]},
            },
            "tools": {
                "look": {"kind": "mcp", "server": "s", "tool": "echo", "effects": "read_only"},
                "convert": {"kind": "python", "function": "generations_tools:convert"},
                "nowhere": {"kind": "python", "function": "generations_tools:nowhere"},
                "both": {
                    "kind": "workflow",
                    "description": "Both.",
                    "steps": [{"id": "a", "tool": "look"}],
                },
            },
            "mcp": {"servers": {"s": {"command": command, **server}}},
        }
    )


def names(generation: Generation, context: str) -> list[str]:
    return [spec.name for spec in generation.toolbox(context).specs]


async def test_all_kinds_in_one_catalogue(module: types.ModuleType) -> None:
    now = Generation(config())
    assert names(now, "all") == ["hangup_call"]
    assert now.toolbox("all").missing == ("s.*", "look")
    assert now.toolbox("own").missing == ("convert", "look", "nowhere")
    with capture_logs() as logs:
        await now.prepare()
    problem = (
        "tools.nowhere.function: the tool nowhere is not offered:"
        " the module generations_tools has no function nowhere"
    )
    assert [line["problem"] for line in logs if line["event"] == "tool_not_offered"] == [problem]
    assert names(now, "own") == ["convert", "both"]
    assert now.catalogue["both"].spec.effects == "destructive", "its step may do anything yet"
    now.start()
    try:
        assert await now.fleet.wait_settled(20)
        assert names(now, "own") == ["convert", "both", "look"]
        assert now.catalogue["both"].spec.effects == "read_only"
        assert now.catalogue["look"].spec.origin == "mcp:s:echo"
        seen = names(now, "all")
        assert seen[:1] == ["hangup_call"]
        assert "look" in seen
        assert "mcp_s_echo" not in seen, "it has one name"
        assert {name for name in seen if name.startswith("mcp_s_")}, "all others as well"
        assert len(seen) == len(set(seen))
        assert now.toolbox("none").missing == ("gone.*",)
        assert [str(problem) for problem in now.catalogue.problems] == [problem]
    finally:
        await now.close()


async def test_a_group_needs_its_lazy_server() -> None:
    now = Generation(config(start="lazy"))
    now.start()
    try:
        assert now.fleet.servers["s"].state is ServerState.IDLE
        assert names(now, "own") == ["both", "look"], "it is named, so it is expected"
        now.admit("none")
        assert now.fleet.servers["s"].state is ServerState.IDLE
        now.admit("all")
        assert now.fleet.servers["s"].state is not ServerState.IDLE
    finally:
        await now.close()


async def test_the_next_generation_keeps_what_was_imported(module: types.ModuleType) -> None:
    first = Generation(config(), number=1)
    await first.prepare()
    del module.convert
    second = Generation(config(), number=2, earlier=first)
    assert names(second, "own")[:1] == ["convert"], "also before it is prepared"
    await second.prepare()
    assert names(second, "own")[:1] == ["convert"]
    await first.close()
    await second.close()
