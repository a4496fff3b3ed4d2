"""Conversations in writing as an HTTP client sees them, over a real port and a real MCP server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from tests.chat.conftest import Parlour, Script, parlour, server, until

from cordboard.api.app import create_app
from cordboard.api.gate import HttpLimits
from cordboard.api.server import HttpServer
from cordboard.config.schema import Health
from cordboard.observe.tool_usage_files import ToolUsageFiles

from .conftest import Answer, ShownEngine, ask

__all__ = ["parlour"]

TOKEN = "correct-horse-battery"
AUTHORISED = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
CONTEXTS = {
    "demo": {
        "greeting": "Good day.",
        "tools": ["mcp_s_echo", "mcp_s_waits"],
        "variables": ["ORDER"],
    },
    "other": {"tools": ["mcp_s_plain"]},
}


async def respond(script: Script, text: str) -> AsyncGenerator[str, None]:
    if text == "wait":
        await script.ask("mcp_s_waits")
    elif text == "quiet":
        await asyncio.sleep(1.2)
        yield "Done."
    elif text.startswith("use "):
        reply = await script.ask(text.removeprefix("use "), text="hello\nthere")
        yield f"It is {reply.status}."
    else:
        yield f"You said {text}."
        yield "Line\nend: é \u2028."


class Port:
    """The port, and somebody with the token."""

    def __init__(self, parlour: Parlour, number: int) -> None:
        self.parlour = parlour
        self.number = number

    async def send(
        self, body: Any, *, method: str = "POST", path: str = "/chat", **headers: str
    ) -> Answer:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        sent = {**AUTHORISED, **headers}
        return await ask(self.number, path, method=method, headers=sent, body=content)

    async def events(self, **body: Any) -> list[tuple[str, dict[str, Any]]]:
        answer = await self.send(body)
        assert answer.status == 200, answer.body
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.headers["cache-control"] == "no-store"
        return parsed(answer.body)

    async def get(self, session_id: str) -> Any:
        answer = await ask(self.number, f"/chat/{session_id}", headers=AUTHORISED)
        assert answer.status == 200
        return answer.json


def parsed(body: bytes) -> list[tuple[str, dict[str, Any]]]:
    """The events in a body, chunk sizes and comments left out."""
    found, name = [], ""
    for line in body.decode().split("\r\n" if b"\r\n0\r\n" in body else "\n"):
        for part in line.split("\n"):
            if part.startswith("event: "):
                name = part.removeprefix("event: ")
            elif part.startswith("data: "):
                found.append((name, json.loads(part.removeprefix("data: "))))
    return found


@pytest.fixture
async def port(parlour: Parlour, tmp_path: Path) -> AsyncIterator[Port]:
    sessions = await parlour.open(
        respond,
        contexts=CONTEXTS,
        mcp={"servers": {"s": server()}},
        chat={"max_sessions": 2, "max_message_chars": 100},
    )
    app = create_app(
        ShownEngine(),
        loopback_only=True,
        token=lambda: SecretStr(TOKEN),
        chat=sessions,
        trials=parlour.trials,
        usage=ToolUsageFiles(parlour.metrics.usage, tmp_path / "calls"),
    )
    http = HttpServer(Health(port=0), app)
    await http.start()
    yield Port(parlour, http.port)
    await sessions.close()
    await http.close()


async def test_a_conversation_from_greeting_to_its_end(port: Port) -> None:
    first = await port.events(context="demo", message="hello", variables={"ORDER": "4711"})
    assert [name for name, _ in first] == ["session", "token", "token", "token", "done"]
    session = first[0][1]["session_id"]
    assert [data["text"] for name, data in first if name == "token"] == [
        "Good day.", "You said hello.", " Line\nend: é \u2028."
    ]  # fmt: skip
    second = await port.events(session_id=session, message="use mcp_s_echo")
    names = [name for name, _ in second]
    assert names == ["session", "tool_call", "tool_result", "token", "done"]
    assert second[1][1]["arguments"] == {"text": "hello\nthere"}
    assert second[3][1] == {"turn": 2, "text": "It is ok."}
    found = await port.get(session)
    assert [m["who"] for m in found["messages"]] == [
        "agent", "user", "agent", "agent", "user", "agent"
    ]  # fmt: skip
    assert [(tool["name"], tool["status"]) for tool in found["tools"]] == [("mcp_s_echo", "ok")]
    assert found["state"] == "open"
    ended = await port.send(b"", method="DELETE", path=f"/chat/{session}")
    assert (ended.status, ended.json["state"]) == (200, "ended")
    assert (await port.send({"session_id": session, "message": "hi"})).status == 404
    assert (await port.send(b"", method="DELETE", path=f"/chat/{session}")).status == 404
    assert (await port.get(session))["reason"] == "caller_hangup"


async def test_the_greeting_alone(port: Port) -> None:
    events = await port.events(context="demo")
    assert [name for name, _ in events] == ["session", "token", "done"]


async def test_a_tool_of_another_context_is_refused_counted_and_logged(port: Port) -> None:
    events = await port.events(context="demo", message="use mcp_s_plain")
    assert events[0][1]["tools"] == ["mcp_s_echo", "mcp_s_waits"]
    assert (events[-2][1]["text"], events[-3][1]["status"]) == ("It is refused.", "refused")
    assert not any("tools/call" in line for line in port.parlour.told())
    assert [e["exposed_name"] for e in port.parlour.logged("tool_refused")] == ["mcp_s_plain"]
    usage = (await ask(port.number, "/tools/usage?days=1")).json
    assert [(row["tool"], row["refused"]) for row in usage["tools"]] == [("unknown", 1)]


async def test_only_with_the_token_and_from_this_machine(port: Port) -> None:
    body = {"context": "demo", "message": "hello"}
    for headers, status in [
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Authorization": "Basic YTpi"}, 401),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
    ]:
        answer = await port.send(body, **headers)
        assert answer.status == status, headers
        assert "error" in answer.json
    for method, path in [("GET", "/chat/chat-1"), ("DELETE", "/chat/chat-1")]:
        answer = await ask(port.number, path, method=method)
        assert answer.status == 401
    assert (await ask(port.number, "/chat", headers=AUTHORISED)).status == 405
    foreign = await ask(
        port.number, "/chat", method="POST", host="evil.example", headers=AUTHORISED, body=b"{}"
    )
    assert foreign.status == 421
    assert len(port.parlour.sessions) == 0


BAD: list[tuple[Any, int, str]] = [
    (b"{", 400, "not JSON"),
    (b"[]", 400, "not a JSON object"),
    ({"context": "demo", "mesage": "x"}, 400, "unknown key 'mesage'"),
    ({"context": "demo", "message": 7}, 400, "message: expected a text"),
    ({"context": "demo", "message": " \n"}, 400, "message: it is empty"),
    ({"message": "hi", "model": "gpt-9"}, 404, "there is no model 'gpt-9'; known: "),
    ({"message": "hi", "model": 9}, 400, "model: expected a text"),
    ({"context": "demo", "variables": {"CUSTOMER": "7"}}, 400, "takes no variable 'CUSTOMER'"),
    ({"context": "demo", "variables": {"ORDER": 7}}, 400, "variables.ORDER: expected a text"),
    ({"context": "nowhere", "message": "hi"}, 404, "there is no context 'nowhere'; known: "),
    ({"session_id": "chat-1", "message": "hi"}, 404, "there is no conversation 'chat-1'"),
    ({"context": "demo", "message": "x" * 101}, 413, "at most 100 characters"),
    (b'{"message": "' + b"x" * 600_000 + b'"}', 413, "at most 524288 bytes"),
]


async def test_bad_input_has_an_answer_that_says_what_was_expected(port: Port) -> None:
    for body, status, words in BAD:
        answer = await port.send(body)
        assert answer.status == status, words
        assert words in answer.json["error"]
        assert len(port.parlour.sessions) == 0


async def test_a_message_alone_goes_to_the_default_context(port: Port) -> None:
    events = await port.events(message="hi", model="local")
    assert [name for name, _ in events[:2]] == ["session", "token"]
    session = events[0][1]
    assert (session["context"], session["provider"], session["model"]) == ("demo", "local", "rules")
    assert "You said hi." in "".join(data.get("text", "") for _, data in events)
    again = {"session_id": session["session_id"], "message": "more"}
    assert (await port.send({**again, "model": "gpt-9"})).status == 400
    assert (await port.send({**again, "model": "rules"})).status == 200


async def test_what_a_conversation_does_not_take(port: Port) -> None:
    session = (await port.events(context="demo"))[0][1]["session_id"]
    for body, status in [
        ({"message": "hi", "context": "other"}, 400),
        ({"message": "hi", "variables": {"ORDER": "1"}}, 400),
        ({}, 400),
    ]:
        assert (await port.send({"session_id": session, **body})).status == status
    await port.events(context="demo")
    full = await port.send({"context": "demo"})
    assert (full.status, full.headers["retry-after"]) == (429, "5")
    for strange in ("..%2f..%2fetc", "chat-1", "7b0c", "chat-" + "0" * 36):
        answer = await ask(port.number, f"/chat/{strange}", headers=AUTHORISED)
        assert answer.status == 404


async def open_stream(port: Port, message: str) -> tuple[asyncio.StreamReader, Any]:
    """A client that reads as it comes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port.number)
    body = json.dumps({"context": "demo", "message": message}).encode()
    lines = {"Host": "localhost", "Content-Length": str(len(body)), **AUTHORISED}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    writer.write(f"POST /chat HTTP/1.1\r\n{head}\r\n".encode() + body)
    return reader, writer


async def test_a_client_that_goes_away_cancels_what_only_reads(port: Port) -> None:
    reader, writer = await open_stream(port, "wait")
    seen = await asyncio.wait_for(reader.readuntil(b"event: tool_call"), 60)
    session = parsed(seen)[0][1]["session_id"]
    busy = await port.send({"session_id": session, "message": "more"})
    assert busy.status == 409
    writer.close()
    await writer.wait_closed()
    await until(lambda: any("cancel" in line for line in port.parlour.told()))
    events = await port.events(session_id=session, message="hello")
    assert ("token", {"turn": 2, "text": "You said hello."}) in events
    assert [tool["status"] for tool in (await port.get(session))["tools"]] == ["cancelled"]


async def test_a_stream_in_which_nothing_happens_is_kept_alive(port: Port) -> None:
    app = create_app(
        ShownEngine(),
        loopback_only=True,
        token=lambda: SecretStr(TOKEN),
        chat=port.parlour.sessions,
        limits=HttpLimits(heartbeat_seconds=0.03),
    )
    http = HttpServer(Health(port=0), app)
    await http.start()
    answer = await Port(port.parlour, http.port).send({"context": "demo", "message": "quiet"})
    await http.close()
    assert answer.body.count(b": still here\n\n") >= 2
    assert parsed(answer.body)[-1][0] == "done"


async def test_a_running_answer_ends_in_order_when_the_engine_stops(port: Port) -> None:
    reader, writer = await open_stream(port, "wait")
    await asyncio.wait_for(reader.readuntil(b"event: tool_call"), 60)
    await port.parlour.sessions.close()
    rest = await asyncio.wait_for(reader.readuntil(b"\r\n0\r\n"), 60)
    assert b'"state":"ended","reason":"engine_stopped"' in rest
    writer.close()
    assert (await port.send({"context": "demo"})).status == 503


async def test_switched_off_or_without_a_token(parlour: Parlour) -> None:
    sessions = await parlour.open(respond, contexts={"demo": {}}, chat={"enabled": False})
    app = create_app(ShownEngine(), loopback_only=True, token=lambda: None, chat=sessions)
    http = HttpServer(Health(port=0), app)
    await http.start()
    port = Port(parlour, http.port)
    refused = await port.send({"context": "demo"})
    await http.close()
    assert (refused.status, "admin.token" in refused.json["error"]) == (403, True)
    app = create_app(
        ShownEngine(), loopback_only=True, token=lambda: SecretStr(TOKEN), chat=sessions
    )
    http = HttpServer(Health(port=0), app)
    await http.start()
    off = await Port(parlour, http.port).send({"context": "demo"})
    await http.close()
    assert (off.status, "chat.enabled" in off.json["error"]) == (404, True)
