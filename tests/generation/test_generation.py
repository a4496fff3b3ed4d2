from __future__ import annotations

import asyncio
import sys

import pytest

from cordboard.config.schema import Config
from cordboard.generation.generation import Generation
from cordboard.mcp.supervision.server import ServerState
from cordboard_testkit.mcp_servers import FAULTY_SERVER

DESTINATION = {"type": "extension", "target": "6001", "context": "internal"}


def generation(**more: object) -> Generation:
    server = {"command": [sys.executable, str(FAULTY_SERVER)]}
    return Generation(
        Config.model_validate(
            {
                "contexts": {
                    "demo": {"tools": ["hangup_call", "transfer", "mcp_s_echo"]},
                    "other": {"tools": ["mcp_s_echo"]},
                    "bare": {},
                },
                "tools": {"transfer": {"destinations": {"sales": DESTINATION}}},
                "mcp": {"servers": {"s": server}},
                **more,
            }
        )
    )


def names(generation: Generation, context: str) -> list[str]:
    return [spec.name for spec in generation.toolbox(context).specs]


async def test_each_context_sees_its_own_tools_only() -> None:
    now = generation()
    assert names(now, "demo") == ["hangup_call", "transfer"]
    early = now.toolbox("other")
    assert early.missing == ("mcp_s_echo",)
    now.start()
    try:
        assert await now.fleet.wait_settled(20)
        assert names(now, "demo") == ["hangup_call", "transfer", "mcp_s_echo"]
        assert names(now, "other") == ["mcp_s_echo"]
        assert names(now, "bare") == []
        assert len(early) == 0, "a call keeps the toolbox it started with"
    finally:
        await now.close()


def test_without_destinations_there_is_no_transfer() -> None:
    now = generation(tools={}, mcp={"enabled": False})
    assert now.toolbox("demo").missing == ("transfer", "mcp_s_echo")


async def test_a_retired_generation_closes_with_its_last_call() -> None:
    now = generation()
    now.start()
    assert await now.fleet.wait_settled(20)
    now.acquire()
    now.acquire()
    retiring = asyncio.create_task(now.retire())
    now.release()
    await asyncio.sleep(0)
    assert now.fleet.servers["s"].state is ServerState.READY
    now.release()
    await asyncio.wait_for(retiring, 20)
    assert now.fleet.servers["s"].state is ServerState.STOPPED
    with pytest.raises(RuntimeError):
        now.release()
