"""`cordboard chat` as a user types it: with the shipped weather server, and with an engine."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path

import pytest
from pydantic import SecretStr
from ruamel.yaml import YAML
from tests.api.conftest import ShownEngine
from tests.chat.conftest import Parlour, Script, parlour, server

from cordboard.api.app import create_app
from cordboard.api.server import HttpServer
from cordboard.calls.history import read
from cordboard.cli.chat_screen import TypedLines
from cordboard.config.schema import Health

from .commands import ROOT, Done, typed

__all__ = ["parlour"]

TOKEN = "correct-horse-battery"


def written(folder: Path, *, servers: bool) -> str:
    """The shipped file, but for the place of the ledgers, and with or without its servers."""
    tree = YAML(typ="safe").load(ROOT / "config" / "ai-agent.yaml")
    tree["calls"] = {"directory": str(folder / "calls")}
    tree["mcp"]["enabled"] = servers
    path = folder / "ai-agent.yaml"
    with path.open("w") as file:
        YAML(typ="safe").dump(tree, file)
    return str(path)


@pytest.fixture
def shipped(tmp_path: Path) -> str:
    return written(tmp_path, servers=True)


@pytest.fixture
def serverless(tmp_path: Path) -> str:
    return written(tmp_path, servers=False)


def test_a_question_answered_by_the_shipped_server(shipped: str, tmp_path: Path) -> None:
    done = typed(
        "chat", "-c", shipped, "-m", "What is the ATIS for Copenhagen Kastrup?", "-m", "goodbye"
    )
    assert (done.status, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[0].startswith("agent        Flight information desk.")
    assert lines[1] == "you          What is the ATIS for Copenhagen Kastrup?"
    assert lines[2] == 'tool asked   mcp_aviation_atis_get_atis {"icao":"EKCH"}'
    assert lines[3].startswith("tool answer  ok after ")
    assert "Copenhagen Kastrup. Time " in lines[4]
    assert lines[-1] == "the conversation is over (agent_hangup)"
    (ledger,) = (tmp_path / "calls").glob("*/chat-*.jsonl")
    history = read(ledger)
    assert (history.source, history.context, history.reason) == ("chat", "demo", "agent_hangup")
    assert [(use.name, use.status) for use in history.tools] == [
        ("mcp_aviation_atis_get_atis", "ok"), ("hangup_call", "ok")
    ]  # fmt: skip


def test_lines_on_standard_input_and_events_as_json(serverless: str) -> None:
    done = typed(
        "chat", "-c", serverless, "--context", "reception", "--json",
        answer="\nWhen are you open?\n\ngoodbye\nis anybody there?\n",
    )  # fmt: skip
    assert done.status == 0
    found = [json.loads(line) for line in done.out.splitlines()]
    assert [event["event"] for event in found][:3] == ["session", "token", "done"]
    answer = "".join(e["text"] for e in found if e["event"] == "token" and e["turn"] == 1)
    assert answer.startswith("We are open Monday to Friday")
    assert found[-1]["state"] == "ended"


def test_what_is_not_said_any_more_is_a_failure(serverless: str) -> None:
    arguments = ["chat", "-c", serverless, "--context", "reception"]
    done = typed(*arguments, "-m", "goodbye", "-m", "When are you open?")
    assert done.status == 1
    assert "the conversation is over before 'When are you open?'" in done.err


def test_it_explains_itself() -> None:
    done = typed("chat", "--help")
    assert (done.status, done.err) == (0, "")
    assert "--url" in done.out


def test_a_context_that_is_not_there(serverless: str) -> None:
    done = typed("chat", "-c", serverless, "--context", "nowhere", "-m", "hi")
    assert done.status == 1
    assert "there is no context 'nowhere'; known: demo, reception" in done.err


async def respond(script: Script, text: str) -> AsyncGenerator[str, None]:
    if text == "fail":
        raise LookupError(text)
    if text == "misuse":
        await script.ask("nothing")
        return
    reply = await script.ask("mcp_s_echo", text=text)
    yield f"{reply.data['text']} \x1b[31m[bold]"


@pytest.fixture
async def url(parlour: Parlour) -> AsyncIterator[str]:
    """Where an engine's port is, as far as chats are concerned."""
    sessions = await parlour.open(
        respond,
        contexts={"demo": {"greeting": "Hello.", "tools": ["mcp_s_echo"]}},
        mcp={"servers": {"s": server()}},
    )
    app = create_app(
        ShownEngine(), loopback_only=True, token=lambda: SecretStr(TOKEN), chat=sessions
    )
    http = HttpServer(Health(port=0), app)
    await http.start()
    yield f"http://127.0.0.1:{http.port}"
    await sessions.close()
    await http.close()


async def remote(url: str, *arguments: str, token: str = TOKEN) -> Done:
    command = ["chat", "--url", url, "--context", "demo", *arguments]
    return await asyncio.to_thread(typed, *command, CORDBOARD_TOKEN=token)


async def test_with_a_running_engine(parlour: Parlour, url: str) -> None:
    done = await remote(url, "-m", "Hello there", "-m", "again")
    assert (done.status, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[:3] == [
        "agent        Hello.",
        "you          Hello there",
        'tool asked   mcp_s_echo {"text":"Hello there"}',
    ]
    assert lines[4] == "agent        Hello there  [31m[bold]", "nothing steers the terminal"
    assert len(parlour.sessions) == 0, "it was ended"


async def test_the_context_is_the_files_first_unless_said(url: str, tmp_path: Path) -> None:
    path = tmp_path / "agent.yaml"
    path.write_text('contexts:\n  demo: {}\nadmin: {token: "${NOT_SET_HERE}"}\n')
    command = ["chat", "--url", url, "-c", str(path), "-m", "hi"]
    done = await asyncio.to_thread(typed, *command, CORDBOARD_TOKEN=TOKEN)
    assert (done.status, done.out.splitlines()[0]) == (0, "agent        Hello.")
    path.unlink()
    done = await asyncio.to_thread(typed, *command, CORDBOARD_TOKEN=TOKEN)
    assert (done.status, done.out.splitlines()[0]) == (0, "agent        Hello."), "the engine's"


def test_a_realtime_context_tells_that_its_rules_answer(tmp_path: Path) -> None:
    tree = {
        "providers": {
            "live": {"type": "openai_realtime", "api_key": "x"},
            "local": {"type": "pipeline"},
        },
        "contexts": {
            "desk": {"provider": "live", "prompt": "You are a poet.", "greeting": "Hello."},
            "plain": {"provider": "local"},
        },
        "calls": {"directory": str(tmp_path / "calls")},
    }
    path = tmp_path / "ai-agent.yaml"
    with path.open("w") as file:
        YAML(typ="safe").dump(tree, file)
    done = typed("chat", "-c", str(path), "-m", "hello")
    assert done.out.splitlines()[0] == (
        "notice       live (openai_realtime) only hears and speaks: in writing the context's rules "
        "answer, and it has none. Its prompt is not used"
    )
    (session, *_) = typed("chat", "-c", str(path), "-m", "hello", "--json").out.splitlines()
    assert json.loads(session)["model"] == "rules"
    assert "notice" not in typed("chat", "-c", str(path), "--context", "plain", "-m", "hi").out
    done = typed("chat", "-c", str(path), "--model", "gpt-9", "-m", "hi")
    assert (done.status, "there is no model 'gpt-9'; known: live (rules)" in done.err) == (1, True)


async def test_an_error_of_the_engine_is_the_exit_status(url: str) -> None:
    done = await remote(url, "-m", "fail", "--json")
    assert done.status == 1
    assert json.loads(done.out.splitlines()[-2])["code"] == "internal_error"


async def test_why_a_tool_has_not_worked_is_shown(url: str) -> None:
    done = await remote(url, "-m", "misuse")
    assert done.status == 0
    (line,) = [line for line in done.out.splitlines() if line.startswith("tool answer")]
    assert "refused after " in line
    assert "There is no tool named 'nothing'" in line


async def test_an_engine_that_refuses_or_is_not_there(url: str) -> None:
    for token, words in [("", "set CORDBOARD_TOKEN"), ("wrong", "not the admin token")]:
        done = await remote(url, "-m", "hi", token=token)
        assert done.status == 1
        assert words in done.err
    for nowhere in ("http://127.0.0.1:9", "ftp://127.0.0.1", "http://:x", "127.0.0.1:15000"):
        done = await remote(nowhere, "-m", "hi")
        assert done.status == 1
        assert done.err.startswith("cordboard: ")


async def test_an_engine_that_dies_in_the_middle_of_an_answer() -> None:
    async def dies(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        event = b'event: session\ndata: {"session_id": "chat-1"}\n\n'
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
        chunk = b"%x\r\n%s\r\n" % (len(event), event)
        writer.write(head + b"Transfer-Encoding: chunked\r\n\r\n" + chunk)
        writer.close()

    async with await asyncio.start_server(dies, "127.0.0.1", 0) as http:
        port = http.sockets[0].getsockname()[1]
        done = await remote(f"http://127.0.0.1:{port}", "-m", "hi")
    assert done.status == 1
    assert "broke off in the middle of an answer" in done.err


async def test_typed_lines_come_while_the_loop_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading) as end:
        monkeypatch.setattr("sys.stdin", end)
        lines = TypedLines()
        waiting = asyncio.create_task(lines.next())
        await asyncio.sleep(0)
        os.write(writing, b"first\r\nsec")
        assert await waiting == "first"
        os.write(writing, "önd\nlast".encode())
        os.close(writing)
        assert [await lines.next(), await lines.next(), await lines.next()] == [
            "secönd", "last", None
        ]  # fmt: skip
