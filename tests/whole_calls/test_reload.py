"""The file changes while people talk: the live call goes on, the next one gets what is new."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psutil
import pytest
from ruamel.yaml import YAML

from cordboard.calls.events import Bound, ToolAnswered
from cordboard_testkit.patience import until

from .conftest import Hotline, eventually

pytestmark = [
    pytest.mark.asterisk,
    pytest.mark.voices,
    pytest.mark.asyncio(loop_scope="session"),
]
WAITING = {"what": "mcp.servers.orders", "until": "no call is active"}


def by_hand(tree: dict[str, Any]) -> None:
    tree["reload"] = {"watch": False}


def rewrite(hotline: Hotline, change: Callable[[dict[str, Any]], None]) -> None:
    path = hotline.folder.parent / "ai-agent.yaml"
    tree = YAML(typ="safe").load(path)
    change(tree)
    with path.open("w") as file:
        YAML(typ="safe").dump(tree, file)


async def test_a_live_call_goes_on_the_next_one_is_greeted_anew_and_a_server_waits(open_hotline):
    def change(tree):
        tree["contexts"]["orders"] = {
            **tree["contexts"]["orders"],
            "greeting": "Welcome to the warehouse.",
        }
        orders = tree["mcp"]["servers"]["orders"]
        orders["env"] = {"VERSION": "2"}
        orders["tools"][2]["speech_template"] = "We are open on Mondays."

    async with open_hotline(by_hand) as hotline:
        first = await hotline.dial("ctx-orders")
        await first.greeted_to_the_end()
        old = hotline.server_pid("orders")
        rewrite(hotline, change)
        status, report = await hotline.post("/reload")
        assert (status, report["applied"], report["generation"]) == (200, True, 2)
        assert set(report["changed"]) == {
            "contexts.orders.greeting",
            "mcp.servers.orders.env.VERSION",
            "mcp.servers.orders.tools",
        }
        assert report["deferred"] == [WAITING]
        assert (await hotline.get("/health"))[1]["deferred"] == [WAITING]

        # The call that was talking goes on as it began, with its own tools.
        began = await first.ask("What are the opening times?")
        assert "runway" in (await first.heard(since=began)).replace(" ", "")
        assert (await first.event(ToolAnswered)).status == "ok"

        # The next one is greeted anew, by the new rules, served by the old process.
        second = await hotline.dial("ctx-orders")
        await second.greeted_to_the_end()
        assert "warehouse" in await second.heard()
        first.line.hangup()
        assert (await first.history()).outcome == "completed"
        began = await second.ask("What are the opening times?")
        assert "monday" in await second.heard(since=began)
        assert [(await call.event(Bound)).generation for call in (first, second)] == [1, 2]
        assert hotline.server_pid("orders") == old

        # When nobody calls any more, the server changes by itself.
        second.line.hangup()
        await until(lambda: hotline.server_pid("orders") != old)

        async def settled() -> bool:
            deferred = (await hotline.get("/health"))[1]["deferred"]
            up = await hotline.metric("ai_agent_mcp_server_up", server="orders")
            return (deferred, up) == ([], 1)

        await eventually(settled, "the new server is up, and nothing more is deferred")
        await until(lambda: old not in psutil.pids(), "the old process is gone")

        # A bad file changes nothing and says why.
        rewrite(hotline, lambda tree: tree["contexts"]["orders"].update(provider="nobody"))
        status, report = await hotline.post("/reload")
        assert (status, report["applied"], report["generation"]) == (422, False, 2)
        (problem,) = report["problems"]
        assert problem["key"] == "contexts.orders.provider"
        assert problem["file"].endswith("ai-agent.yaml")
        assert problem["line"] > 1
        assert "there is no provider nobody" in problem["message"]
        assert (await hotline.get("/ready"))[0] == 200
