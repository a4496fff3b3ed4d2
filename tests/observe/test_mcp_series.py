"""The series of a real MCP server, from its start to its end."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from cordboard_testkit.fake_agent import FakeAgent

from .conftest import room
from .test_metrics import samples, value

SERVER = {
    "command": [sys.executable, str(Path(__file__).with_name("leaky_server.py"))],
    "env": {"CRM_PASSWORD": "pa55-word-of-the-crm"},
    "restart": {"backoff_ms": 10},
    "start_timeout_ms": 60_000,
    "defaults": {"timeout_ms": 60_000},
}


async def test_a_servers_series_come_and_go_with_it_and_nobody_makes_up_more(
    tmp_path: Path,
) -> None:
    async def script(agent: FakeAgent) -> None:
        await agent.ask("mcp_crm_works", {}, 1)
        await agent.ask("mcp_crm_invented", {}, 1)
        await agent.ask("mcp_other_works", {}, 1)
        await agent.ask("mcp_crm_fails", {}, 2)
        await agent.ask("mcp_crm_dies", {}, 3)

    tools = ["mcp_crm_works", "mcp_crm_fails", "mcp_crm_dies"]
    async with room(tmp_path, {"crm": SERVER}, tools) as place:
        assert value(place.metrics, "mcp_server_up", server="crm") == 1
        assert value(place.metrics, "mcp_server_restarts_total", server="crm") == 0
        await place.call(script)
        (server,) = place.generation.fleet.servers.values()
        async with asyncio.timeout(60):
            await place.metrics.restarted.wait()
        assert await server.wait_ready(60)
        counted = {
            labels: count
            for (name, labels), count in samples(place.metrics).items()
            if name == "ai_agent_mcp_tool_calls_total"
        }
        assert counted == {
            (("server", "crm"), ("status", "ok"), ("tool", "works")): 1,
            (("server", "crm"), ("status", "error"), ("tool", "fails")): 1,
            (("server", "crm"), ("status", "error"), ("tool", "dies")): 1,
        }
        latency = "mcp_tool_latency_seconds_count"
        assert value(place.metrics, latency, server="crm", tool="works") == 1
        assert value(place.metrics, "mcp_server_restarts_total", server="crm") == 1
        assert value(place.metrics, "mcp_server_up", server="crm") == 1
        assert value(place.metrics, "tool_calls_total", tool="unknown", status="refused") == 2
    assert b'server="crm"' not in place.metrics.render()
