"""What is written down and counted of tool calls, whoever asked for them."""

from __future__ import annotations

import orjson
import pytest

from cordboard.calls.tools.events import MOST_SENT, answered_event, asked_event, count
from cordboard.observe.metrics import Metrics
from cordboard.tools.tool import Status, ToolAsk, ToolReply, ToolSpec

ASK = ToolAsk("1.1", "find", {"name": "Ada"}, 1)
SPEC = ToolSpec("find", "mcp", "", {"type": "object"}, "mcp:shop:find_it", "shop")


def reply(status: Status = Status.OK, **more: object) -> ToolReply:
    return ToolReply("1.1", "find", status, "Found.", took_ms=20, **more)  # type: ignore[arg-type]


def test_an_ask_and_its_answer_as_they_stand_in_the_ledger() -> None:
    assert asked_event(ASK, SPEC).fields()["tool"] == "mcp:shop:find_it"
    assert asked_event(ASK, None).fields()["tool"] == ""
    given = reply(data={"rows": [1, 2]}, cut=("rows: 2 of 9 items",), source="cache", tries=0)
    fields = answered_event(ASK, given).fields()
    assert (fields["sent"], fields["payload_bytes"]) == ({"rows": [1, 2]}, 14)
    assert (fields["source"], fields["tries"], fields["cut"]) == (
        "cache", 0, ["rows: 2 of 9 items"]
    )  # fmt: skip
    kept_back = answered_event(ASK, given, to_agent=False).fields()
    assert (kept_back["sent"], kept_back["payload_bytes"], kept_back["cut"]) == ({}, 0, [])


@pytest.mark.parametrize("text", ["x" * 9_000, "é" * 9_000, '"\\' * 9_000, "\u2028" * 9_000])
def test_of_much_data_only_the_beginning_is_written(text: str) -> None:
    fields = answered_event(ASK, reply(data={"text": text})).fields()
    assert fields["payload_bytes"] > 9_000
    assert len(orjson.dumps(fields["sent"])) <= MOST_SENT
    assert fields["sent"]["shortened"].startswith('{"text":"')


def test_answers_are_counted_by_names_that_the_context_knows() -> None:
    metrics = Metrics()
    count(metrics, "demo", SPEC, reply())
    count(metrics, "demo", SPEC, reply(source="cache"))
    count(metrics, "demo", None, reply(Status.ERROR))  # listed, and its server is down
    made_up = ToolReply("1.2", "rm -rf", Status.REFUSED, "No.", refused="not_in_toolbox")
    count(metrics, "demo", None, made_up)
    counted = {key: cell.figures() for key, cell in metrics.usage.day(metrics.usage.today).items()}
    assert counted.keys() == {("demo", "find"), ("demo", "unknown")}
    assert counted["demo", "find"] | {"p50_ms": 0, "p95_ms": 0} == {
        "calls": 3, "ok": 2, "errors": 1, "timeouts": 0, "refused": 0, "cancelled": 0, "cached": 1,
        "p50_ms": 0, "p95_ms": 0, "longest_ms": 20,
    }  # fmt: skip
    page = metrics.render().decode()
    assert 'ai_agent_mcp_tool_calls_total{server="shop",status="ok",tool="find_it"} 1.0' in page
    assert 'ai_agent_tool_cache_hits_total{tool="find"} 1.0' in page
    assert 'ai_agent_tool_refused_total{reason="not_in_toolbox"} 1.0' in page
    assert "rm -rf" not in page
