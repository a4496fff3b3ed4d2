"""A whole call with a real MCP server, as an OpenTelemetry collector sees it."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from cordboard.calls.events import (
    Connected,
    Ended,
    LedgerEvent,
    Offered,
    ToolApproval,
    TurnEnded,
)
from cordboard.config.schema import Config
from cordboard.observe.open_tracing import open_tracing
from cordboard.runtime.engine import Engine
from cordboard_testkit.fake_agent import FakeAgent
from cordboard_testkit.fake_line import FakeLine
from cordboard_testkit.patience import PATIENCE

from .conftest import Collector, room, said

PASSWORD = "pa55-word-of-the-crm"
SERVER = {
    "command": [sys.executable, str(Path(__file__).with_name("leaky_server.py"))],
    "env": {"CRM_PASSWORD": PASSWORD},
    "start_timeout_ms": 60_000,
    "defaults": {"timeout_ms": 60_000},
}
TOOLS = ["mcp_crm_works", "mcp_crm_refuses"]
CALL_ID = "11111111-2222-4333-8444-555555555555"


async def two_turns(agent: FakeAgent) -> None:
    await agent.caller_says(1, "What colour is the sky over 4711?", ms=60)
    await asyncio.gather(
        agent.ask("mcp_crm_works", {"card": "4711"}, 1),
        agent.ask("an_invented_tool", {"card": "4711"}, 1),
    )
    await agent.speak(1, "Blue.")
    await agent.caller_says(2, "And the grass?", ms=60)
    await agent.ask("mcp_crm_refuses", {"card": "4711"}, 2)


async def test_call_turns_tools_and_the_sdks_requests_nest(
    tmp_path: Path, collector: Collector
) -> None:
    tracing = open_tracing(collector.url, "exchange-7", "1.2.3")
    async with room(tmp_path, {"crm": SERVER}, TOOLS, tracing) as place:
        ledger = await place.call(two_turns)
    await asyncio.to_thread(tracing.close)

    assert set(collector.paths) == {"/v1/traces"}
    (call,) = collector.named("call")
    first, second = sorted(collector.named("turn"), key=lambda span: span.start_time_unix_nano)
    (works,) = collector.named("execute_tool mcp_crm_works")
    (refuses,) = collector.named("execute_tool mcp_crm_refuses")
    (invented,) = collector.named("execute_tool unknown")
    requests = {span.parent_span_id: span for span in collector.named("MCP send tools/call")}

    assert call.parent_span_id == b""
    assert first.parent_span_id == second.parent_span_id == call.span_id
    assert works.parent_span_id == invented.parent_span_id == first.span_id
    assert refuses.parent_span_id == second.span_id
    assert requests[works.span_id].name == "MCP send tools/call works"
    assert requests[refuses.span_id].kind == Span.SPAN_KIND_CLIENT
    assert {span.trace_id for span in collector.spans} == {call.trace_id}
    assert len(collector.spans) == 8

    who = {"cordboard.call_id": CALL_ID, "cordboard.context": "demo", "cordboard.provider": "local"}
    for span in (call, first, second, works, refuses, invented):
        assert said(span).items() >= who.items()
    assert said(call)["cordboard.outcome"] == "completed"
    assert said(first)["cordboard.turn"] == 1
    facts = said(works)
    assert facts["gen_ai.tool.name"] == "mcp_crm_works"
    assert (facts["cordboard.server"], facts["cordboard.tool"]) == ("crm", "mcp:crm:works")
    assert facts["cordboard.status"] == "ok"
    assert said(invented)["cordboard.status"] == "refused"
    assert (said(refuses)["cordboard.status"], refuses.status.code) == (
        "error",
        Status.STATUS_CODE_ERROR,
    )
    assert requests[refuses.span_id].status.code == Status.STATUS_CODE_ERROR

    for parent, child in ((call, first), (first, works), (works, requests[works.span_id])):
        assert parent.start_time_unix_nano <= child.start_time_unix_nano
        assert child.start_time_unix_nano <= child.end_time_unix_nano
    assert works.end_time_unix_nano <= first.end_time_unix_nano <= call.end_time_unix_nano
    ended_ms = call.end_time_unix_nano - call.start_time_unix_nano
    assert f'"duration_ms":{round(ended_ms / 1e6)}' in ledger[-1]

    sent = b"".join(collector.bodies)
    assert b"exchange-7" in sent
    for words in (b"sky", b"Blue", b"4711", PASSWORD.encode(), b"bad login", b"4791234567"):
        assert words not in sent


async def test_a_turn_tells_what_the_caller_answered_and_not_what_was_asked(
    tmp_path: Path, collector: Collector
) -> None:
    tracing = open_tracing(collector.url, "exchange-7", "1.2.3")
    tracing.ledger("c", 0, Offered("c", "2026-01-31T12:00:00+00:00", "test", "", "", ""))
    tracing.ledger("c", 10, TurnEnded(1, 5))
    tracing.ledger("c", 20, ToolApproval("Shall I sell the house?", "yes", 9, "voice"))
    tracing.ledger("c", 30, Ended("completed", "caller_hangup", 30))
    await asyncio.to_thread(tracing.close)
    (turn,) = collector.named("turn")
    assert said(turn)["cordboard.approval"] == "yes"
    assert b"house" not in b"".join(collector.bodies)


async def test_the_server_is_told_of_the_trace(tmp_path: Path, collector: Collector) -> None:
    seen: list[str] = []

    async def script(agent: FakeAgent) -> None:
        reply = await agent.ask("mcp_crm_works", {}, 1)
        seen.append(reply.data["trace"])

    tracing = open_tracing(collector.url, "test", "0")
    async with room(tmp_path, {"crm": SERVER}, TOOLS, tracing) as place:
        await place.call(script)
    await asyncio.to_thread(tracing.close)
    (request,) = collector.named("MCP send tools/call")
    (traceparent,) = seen
    assert traceparent.startswith(f"00-{request.trace_id.hex()}-{request.span_id.hex()}-")


async def test_a_call_without_tracing_makes_no_spans(tmp_path: Path, collector: Collector) -> None:
    """Not even when another engine of this process makes some."""
    seen: list[str] = []

    async def script(agent: FakeAgent) -> None:
        seen.append((await agent.ask("mcp_crm_works", {}, 1)).data["trace"])

    other = open_tracing(collector.url, "test", "0")
    other.start()
    async with room(tmp_path, {"crm": SERVER}, TOOLS) as place:
        await place.call(script)
    await asyncio.to_thread(other.close)
    assert collector.spans == []
    assert seen == [""]


async def test_a_dead_collector_harms_no_call(tmp_path: Path) -> None:
    dropped: list[int] = []
    replies: list[str] = []

    async def script(agent: FakeAgent) -> None:
        replies.append((await agent.ask("mcp_crm_works", {}, 1)).status)

    tracing = open_tracing("http://127.0.0.1:9", "test", "0", dropped.append)
    async with room(tmp_path, {"crm": SERVER}, TOOLS, tracing) as place:
        ledger = await place.call(script)
    await asyncio.to_thread(tracing.close)
    assert replies == ["ok"]
    assert '"call.ended"' in ledger[-1]
    assert sum(dropped) == 3


async def test_an_engine_traces_its_calls(tmp_path: Path, collector: Collector) -> None:
    connected = asyncio.Event()

    def listen(call_id: str, at_ms: int, event: LedgerEvent) -> None:
        if isinstance(event, Connected):
            connected.set()

    config = Config.model_validate(
        {
            "contexts": {"demo": {}},
            "health": {"port": 0},
            "audiosocket": {"port": 0},
            "calls": {"directory": str(tmp_path)},
            "tracing": {"otlp_endpoint": collector.url, "service_name": "exchange-7"},
        }
    )
    engine = Engine(config, listen, sheds_load=False)
    await engine.start()
    try:
        line = FakeLine()
        engine.registry.offer(line.offer())
        async with asyncio.timeout(PATIENCE):
            await connected.wait()
        assert line.media is not None
        line.media.break_off("caller_hangup")
        await engine.calls_recorded()
    finally:
        await engine.stop(grace=0)
    (call,) = collector.named("call")
    assert said(call)["cordboard.reason"] == "caller_hangup"
    assert b"exchange-7" in collector.bodies[0]
