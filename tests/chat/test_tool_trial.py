"""A tool that an operator tries: what it answers, what is refused, what is left on record."""

from __future__ import annotations

from typing import Any

import pytest

from cordboard.chat.tool_trial import TrialReport, payload_limits
from cordboard.errors import ChatRefused, TrialRefused
from cordboard.tools.desk.replies import LEFT_OUT
from cordboard.tools.tool import Effects

from .conftest import Parlour, server

CONTEXTS = {"demo": {"tools": ["mcp_s_rows", "mcp_s_echo", "book"]}, "other": {"tools": ["plain"]}}
TOOLS = [
    {"name": "rows", "effects": "read_only", "speech_template": "The first is {rows.0.name}."},
    {"name": "echo", "secret_arguments": ["text"]},
    {"name": "slow", "expose_as": "book", "effects": "destructive"},
    {"name": "plain", "expose_as": "plain", "effects": "read_only"},
]


@pytest.fixture
async def shop(parlour: Parlour) -> Parlour:
    await parlour.open(contexts=CONTEXTS, mcp={"servers": {"s": server(tools=TOOLS)}})
    return parlour


async def tried(
    shop: Parlour, name: str, *, approve: bool = False, provider: str | None = None, **given: Any
) -> TrialReport:
    context = given.pop("context", "demo")
    return await shop.trials.run(
        name, context, given, limits=payload_limits(provider), approve=approve
    )


async def test_what_is_spoken_the_data_and_what_each_agent_would_get(shop: Parlour) -> None:
    report = await tried(shop, "mcp_s_rows", count=300)
    assert report.outcome == "run"
    assert report.reply.message == "The first is row 0."
    assert len(report.reply.data["rows"]) == 300
    assert report.reply.cut == ()
    assert {"gemini_live", "openai_realtime", "pipeline"} <= report.payloads.keys()
    for kind, given in report.payloads.items():
        payload = given["payload"]
        assert (payload["status"], payload["message"]) == ("ok", "The first is row 0."), kind
        assert given["bytes"] <= 40_000
        assert given["cut"] != []
    live = report.payloads.pop("gemini_live")
    assert (live["cut"], "data" in live["payload"]) == ([LEFT_OUT], False)
    rows = {kind: len(each["payload"]["data"]["rows"]) for kind, each in report.payloads.items()}
    assert rows["elevenlabs_agent"] < rows["openai_realtime"] < rows["openai_chat"]
    assert len(report.payloads["pipeline"]["payload"]["data"]["rows"]) < 300
    (only,) = (await tried(shop, "mcp_s_rows", provider="anthropic", count=3)).payloads
    assert only == "anthropic"


async def test_a_try_is_on_record_with_secrets_masked(shop: Parlour) -> None:
    assert shop.succession is not None
    shop.succession.generation.version = "c7f3a9"
    report = await tried(shop, "mcp_s_echo", text="hunter2-hunter2")
    lines = shop.ledger(report.call_id)
    assert [line["type"] for line in lines] == [
        "call.offered", "call.bound", "tool.asked", "tool.answered", "call.ended"
    ]  # fmt: skip
    assert (lines[0]["source"], lines[0]["config"]) == ("try", "c7f3a9")
    assert "hunter2" not in str(lines[2])
    figures = shop.metrics.usage.day(shop.metrics.usage.today)["demo", "mcp_s_echo"].figures()
    assert figures["calls"] == 1


async def test_a_secret_that_a_server_tells_is_shown_and_recorded_nowhere(parlour: Parlour) -> None:
    tool = {"name": "environment", "expose_as": "tell", "effects": "read_only"}
    tells = server(tools=[tool], env={"SHOP_KEY": "SECRETENV77", "SHOP_MODE": "plain-words"})
    await parlour.open(contexts={"demo": {"tools": ["tell"]}}, mcp={"servers": {"s": tells}})
    report = await tried(parlour, "tell")
    told = f"{report}{parlour.ledger(report.call_id)}{parlour.logged('tool_call')}"
    assert report.outcome == "run"
    assert "plain-words" in told
    assert "SECRETENV77" not in told


@pytest.mark.parametrize(("name", "outcome"), [("plain", "not_in_toolbox"), ("x", "no_such_tool")])
async def test_a_tool_of_another_context_is_not_run(shop: Parlour, name: str, outcome: str) -> None:
    report = await tried(shop, name)
    assert (report.outcome, report.reply.status) == (outcome, "refused")
    assert "plain" not in report.reply.message.partition("Available: ")[2]
    assert not any("tools/call" in line for line in shop.told()), "the server was asked"
    (refused,) = shop.logged("tool_refused")
    assert (refused["context_name"], refused["exposed_name"]) == ("demo", name)
    figures = shop.metrics.usage.day(shop.metrics.usage.today)["demo", "unknown"].figures()
    assert (figures["calls"], figures["refused"]) == (1, 1)
    (asked,) = [e for e in shop.ledger(report.call_id) if e["type"] == "tool.asked"]
    assert (asked["name"], asked["tool"]) == (name, "")


async def test_a_tool_whose_server_is_down_is_counted_by_its_name(parlour: Parlour) -> None:
    await parlour.open(
        contexts={"demo": {"tools": ["mcp_s_echo"]}}, mcp={"servers": {"s": server("exits")}}
    )
    report = await tried(parlour, "mcp_s_echo", text="x")
    assert (report.outcome, report.reply.status) == ("not_there_now", "error")
    figures = parlour.metrics.usage.day(parlour.metrics.usage.today)["demo", "mcp_s_echo"].figures()
    assert (figures["calls"], figures["errors"]) == (1, 1)


async def test_what_changes_the_world_needs_the_operators_word(shop: Parlour) -> None:
    refused = await tried(shop, "book", seconds=0)
    assert (refused.outcome, refused.reply.status) == ("needs_approval", "refused")
    assert not any("tools/call" in line for line in shop.told())
    done = await tried(shop, "book", seconds=0, approve=True)
    assert (done.outcome, done.reply.status, done.reply.message) == ("run", "ok", "At last.")


async def test_wrong_arguments_are_answered_as_an_agent_would_be(shop: Parlour) -> None:
    report = await tried(shop, "mcp_s_echo", text=7)
    assert (report.outcome, report.reply.status) == ("run", "refused")
    assert "text" in report.reply.message


async def test_there_is_no_such_context(shop: Parlour) -> None:
    with pytest.raises(ChatRefused) as refusal:
        await tried(shop, "book", context="nowhere")
    assert refusal.value.reason == "unknown_context"


async def test_a_tool_that_uses_the_variables_of_a_call_can_be_tried(parlour: Parlour) -> None:
    who = {
        "kind": "workflow",
        "description": "Who calls, and whose customer they are.",
        "steps": [{"id": "said", "tool": "mcp_s_echo", "arguments": {"text": "x"}}],
        "result": {"caller": "{call.caller_number}", "tour": "<{call.TOUR}>"},
    }
    await parlour.open(
        contexts={"demo": {"tools": ["who", "mcp_s_echo"], "variables": ["TOUR"]}},
        mcp={"servers": {"s": server()}},
        tools={"who": who},
    )
    report = await tried(parlour, "who")
    assert report.reply.data == {"caller": "unknown", "tour": "<>"}


async def test_a_tool_whose_effects_have_changed_since_they_were_checked_is_not_run(
    shop: Parlour,
) -> None:
    with pytest.raises(TrialRefused, match="book is destructive"):
        await shop.trials.run(
            "book",
            "demo",
            {},
            limits=payload_limits(None),
            approve=True,
            effects=[Effects.READ_ONLY, Effects.IDEMPOTENT],
        )
    assert shop.trials._running == 0
