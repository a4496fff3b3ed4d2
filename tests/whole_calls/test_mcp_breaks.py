"""MCP servers that die, vanish or were never there: the caller hears so, and calls go on."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time

import pytest

from cordboard.calls.events import ToolAnswered, ToolCalled
from cordboard_testkit.patience import PATIENCE

pytestmark = [
    pytest.mark.asterisk,
    pytest.mark.voices,
    pytest.mark.asyncio(loop_scope="session"),
]


GATED = """
import pathlib, runpy, sys, time
started, gate = map(pathlib.Path, sys.argv[1:])
while started.exists() and not gate.exists():
    time.sleep(0.05)
started.touch()
sys.argv[1:] = ["good"]
runpy.run_module("cordboard_testkit.mcp_servers.faulty", run_name="__main__")
"""


async def test_a_server_killed_at_work_is_said_comes_back_and_is_used_again(open_hotline, tmp_path):
    first_start, gate = tmp_path / "started", tmp_path / "gate"

    def waits_when_started_again(tree):
        """It is not back before the gate is open."""
        server = tree["mcp"]["servers"]["orders"]
        server["command"] = [sys.executable, "-c", GATED, str(first_start), str(gate)]
        server["restart"] = {"backoff_ms": 2_000}

    async with open_hotline(waits_when_started_again) as hotline:
        other = await hotline.dial("ctx-reception")
        caller = await hotline.dial("ctx-orders")
        await caller.greeted_to_the_end()
        await caller.say("Please check my order.")
        await caller.event(ToolCalled)
        killed_at = time.monotonic()
        os.kill(hotline.server_pid("orders"), signal.SIGKILL)
        first = await caller.event(ToolAnswered)
        assert first.status == "error"

        # While it is down, the operator sees what is wrong; asked again, it is answered at once.
        async with asyncio.timeout(
            PATIENCE
        ):  # its end is noticed first, and then how it came to it
            detail = ""
            while "orders is restarting: it was killed by SIGKILL" not in detail:
                status, ready = await hotline.get("/ready")
                assert status == 200, "one server of several is no reason to take no calls"
                detail = ready["components"]["mcp"]["detail"]
        assert await hotline.metric("ai_agent_mcp_server_up", server="orders") == 0
        assert await hotline.metric("ai_agent_mcp_server_up", server="aviation_atis") == 1

        async def asked_again():
            await caller.told_after(ToolAnswered)
            began = await caller.ask("What are the opening times?")
            assert (await caller.event(ToolAnswered, count=2)).status == "error"
            assert "not available" in await caller.heard(since=killed_at)
            assert "not available" in await caller.heard(since=began)

        async def not_noticed():
            """A caller of another context."""
            await other.listen()
            began = await other.ask("What are your opening hours?")
            assert "monday" in await other.heard(since=began)
            other.line.hangup()
            assert (await other.history()).troubles == []

        await asyncio.gather(asked_again(), not_noticed())

        # It comes back, and the same call uses it.
        gate.touch()
        await hotline.mcp_settled("orders")
        began = await caller.ask("What are the opening times?")
        assert (await caller.event(ToolAnswered, count=3)).status == "ok"
        assert "runway" in (await caller.heard(since=began)).replace(" ", "")
        assert await hotline.metric("ai_agent_mcp_server_restarts_total", server="orders") == 1
        caller.line.hangup()
        assert (await caller.history()).outcome == "completed"


async def test_servers_that_never_come_up_leave_the_rest_of_the_engine_working(open_hotline):
    faulty = [sys.executable, "-m", "cordboard_testkit.mcp_servers.faulty"]

    def break_servers(tree):
        servers = tree["mcp"]["servers"]
        servers["aviation_atis"]["command"] = ["/nonexistent/atis-server"]
        servers["orders"]["command"] = [*faulty, "exits"]
        servers["orders"]["restart"] = {"enabled": False}
        servers["mute"] = {"command": [*faulty, "mute"], "stop_grace_ms": 200}

    async with open_hotline(break_servers, settled=False) as hotline:
        await hotline.mcp_settled("orders", "failed")
        status, ready = await hotline.get("/ready")
        assert status == 200, "a server that never answers keeps nobody waiting"
        detail = ready["components"]["mcp"]["detail"]
        assert not ready["components"]["mcp"]["ready"]
        assert "aviation_atis is failed" in detail
        assert "/nonexistent/atis-server" in detail
        assert "orders is failed" in detail
        assert "cannot open the database" in detail, "the server's last words"
        assert "mute is starting" in detail
        assert (await hotline.get("/live"))[0] == 200

        caller = await hotline.dial("ctx-weather")
        await caller.greeted_to_the_end()
        began = await caller.ask("What is the weather in Bergen?")
        heard = await caller.heard(since=began)
        assert "not available" in heard, heard
        caller.line.hangup()
        history = await caller.history()
        assert [use.status for use in history.tools] == ["error"]
        assert history.outcome == "completed"
