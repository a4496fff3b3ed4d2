"""The last messages of a server: both directions, bounded, without secrets."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import mcp_types as types
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cordboard.mcp.message_log import MAX_CHARACTERS, MAX_MESSAGES, MessageLog, tail_after
from cordboard.mcp.stdio.stderr import StderrTail
from cordboard.tools.call_line import NoCaller
from cordboard.tools.catalogue import Catalogue, ToolEntry
from cordboard.tools.desk.desk import Desk
from cordboard.tools.tool import JsonObject, ToolAsk

from .conftest import Start

SECRET = "hunter2-token"


def log_with(*secrets: str) -> MessageLog:
    return MessageLog(StderrTail("s", secrets).shown, lambda: 5.0)


def answer(result: Any, number: int = 1) -> types.JSONRPCResponse:
    return types.JSONRPCResponse(jsonrpc="2.0", id=number, result=result)


def call(**arguments: Any) -> types.JSONRPCRequest:
    params = {"name": "find", "arguments": arguments}
    return types.JSONRPCRequest(jsonrpc="2.0", id=7, method="tools/call", params=params)


def content(log: MessageLog) -> Any:
    return json.loads(log.after(0).items[-1].content)


def test_a_call_and_its_answer_are_kept_in_order() -> None:
    log = log_with()
    log.note("sent", call(city="Oslo"))
    log.note("received", answer({"content": [{"type": "text", "text": "Rain."}]}, 7))
    sent, received = log.after(0).items
    assert (sent.kind, sent.id, sent.method, sent.direction, sent.at, sent.cut) == (
        ("request", "7", "tools/call", "sent", 5.0, False)
    )
    assert json.loads(sent.content)["arguments"] == {"city": "Oslo"}
    assert (received.kind, received.id, received.method) == ("answer", "7", "")
    assert "Rain." in received.content


@pytest.mark.parametrize("count", [1, 1_000, 100_000])
def test_a_secret_is_never_shown_also_not_its_beginning(count: int) -> None:
    log = log_with(SECRET, "https://user:secretive@host")
    log.note("received", answer({"text": f"x{SECRET}" * count}))
    shown = log.after(0).items[0].content
    assert "hunter" not in shown
    log.note("sent", call(password="open sesame", note={"api_key": "abc"}))
    assert "sesame" not in str(log.after(0).items)
    assert "abc" not in str(log.after(0).items)


def test_values_of_the_caller_are_hidden_in_words_and_numbers() -> None:
    log = log_with()
    log.hide(("4711",))
    log.note("sent", call(code="4711", amount=4711, place="47119"))
    assert "4711" not in log.after(0).items[0].content
    for number in range(100):
        log.hide((f"key-{number}",))
    log.note("sent", call(code="key-99"))
    assert "key-99" not in log.after(0).items[-1].content


def test_only_the_last_messages_are_kept_and_numbers_go_on() -> None:
    log = log_with()
    for number in range(MAX_MESSAGES + 50):
        log.note("received", answer({"n": number}))
    tail = log.after(0)
    assert (len(tail.items), tail.last, tail.lost) == (MAX_MESSAGES, 250, 50)
    fresh = log.after(248)
    assert [json.loads(each.content)["n"] for each in fresh.items] == [248, 249]
    assert (fresh.last, fresh.lost) == (250, 0)
    assert log.after(250).items == ()
    assert len(log.after(9_000).items) == MAX_MESSAGES, "of a server that was there before"


def test_ten_megabytes_leave_four_kilobytes() -> None:
    log = log_with(SECRET)
    rows = [{"row": n, "text": "y" * 90} for n in range(100_000)]
    message = answer({"content": [{"type": "text", "text": "z" * 10_000_000}], "rows": rows})
    tracemalloc.start()
    for _ in range(50):
        log.note("received", message)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 2_000_000
    (kept, *_) = log.after(0).items
    assert kept.cut
    assert len(kept.content) < 2 * MAX_CHARACTERS


def test_the_result_behind_a_stand_in_is_shown() -> None:
    from cordboard.mcp.large_result import read_large

    text = "a" * 50_000
    whole = {"content": [{"type": "text", "text": text}], "structuredContent": {"n": 1}}
    line = json.dumps({"jsonrpc": "2.0", "id": 7, "result": whole}).encode()
    message = read_large(line, {7})
    assert message is not None
    log = log_with()
    log.note("received", message)
    assert content(log)["content"][0]["text"].startswith("aaaa")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just("\ud800"),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=15,
)


@settings(max_examples=40)
@given(st.dictionaries(st.text(), JSON))
def test_any_message_can_be_kept_as_json(result: JsonObject) -> None:
    log = log_with(SECRET)
    log.note("received", answer(result))
    assert isinstance(content(log), dict)


@given(st.lists(st.integers(), max_size=20), st.integers(0, 30), st.integers(-5, 60))
def test_a_reader_misses_nothing_and_gets_nothing_twice(
    kept: list[int], dropped: int, known: int
) -> None:
    count = len(kept) + dropped
    tail = tail_after(kept, count, known)
    assert tail.last == count
    if 0 <= known <= count:
        assert tail.lost + len(tail.items) == count - known
    assert list(tail.items) == kept[len(kept) - len(tail.items) :]


def test_lines_of_a_flood_on_stderr_are_counted_as_lost() -> None:
    tail = StderrTail("s", clock=lambda: 0.0)
    tail.feed(b"first\n")
    assert tail.after(0).items == ("first",)
    tail.feed(b"".join(b"line %d\n" % number for number in range(50_000)))
    seen = tail.after(1)
    assert (seen.last, seen.lost + len(seen.items)) == (50_001, 50_000)
    assert seen.items[-1] == "line 49999"
    tail.feed(b"end\n")
    assert tail.after(seen.last).items == ("end",)


async def test_all_messages_of_a_server_are_seen_across_its_lives(start: Start) -> None:
    server = await start(env={"SHOP_TOKEN": SECRET})
    await server.call("echo", {"text": f"hello {SECRET}"}, 60)
    methods = [each.method for each in server.messages.after(0).items if each.method]
    assert methods[:1] == ["initialize"] or methods[0] == "server/discover"
    assert methods[-2:] == ["tools/list", "tools/call"]
    kept = server.messages.after(0)
    assert kept.items[-1].kind == "answer"
    assert "hello ***" in kept.items[-1].content
    assert SECRET not in str(kept)
    await server.restart()
    await server.wait_ready(60)
    assert server.messages.after(kept.last).items, "of its next life"


async def test_keys_of_the_caller_reach_the_server_and_not_the_log(start: Start) -> None:
    from cordboard.mcp.tool import McpTool
    from cordboard.tools.desk.desk import SilentObserver

    class Line(NoCaller):
        def reveal(self, reference: str) -> str | None:
            return "471183" if reference == "{keys:1}" else None

    server = await start()
    listed = next(tool for tool in server.listing if tool.name == "echo")
    box = Catalogue([ToolEntry(McpTool(server, listed))]).toolbox(["mcp_faulty_echo"])
    desk = Desk(box, Line("call-1", "demo"), SilentObserver(), lambda: 0.0)
    await desk.run(ToolAsk("1.1", "mcp_faulty_echo", {"text": "{keys:1}"}, 1, confirmed=True))
    calls = [each for each in server.messages.after(0).items if each.method == "tools/call"]
    assert len(calls) == 1
    assert "•••" in server.messages.after(0).items[-1].content, "the server has it, and said so"
    assert "471183" not in str(server.messages.after(0))
