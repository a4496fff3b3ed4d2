"""A caller who leaves a message: real speech, a real Asterisk, and a web service that gets it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest
import pytest_asyncio

from cordboard.calls.events import MessageTaken, RecordingStarted
from cordboard_testkit.patience import PATIENCE

from .conftest import Hotline, OpenHotline

pytestmark = [
    pytest.mark.asterisk,
    pytest.mark.voices,
    pytest.mark.asyncio(loop_scope="session"),
]


class Desk:
    """A web service that keeps the messages it gets; it is down at first."""

    def __init__(self) -> None:
        self.got: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.refused = 0

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
        body = orjson.loads(await reader.readexactly(length))
        if self.refused == 0:
            self.refused += 1
            status = b"503 Service Unavailable"
        else:
            self.got.put_nowait(body)
            status = b"200 OK"
        writer.write(b"HTTP/1.1 %b\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}" % status)
        await writer.drain()
        writer.close()


DESK = Desk()


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def shared_hotline(open_hotline: OpenHotline) -> AsyncIterator[Hotline]:
    server = await asyncio.start_server(DESK.answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]

    def change(tree: dict[str, Any]) -> None:
        tree["tools"]["post_message"] = {
            "kind": "http",
            "method": "POST",
            "description": "Passes a message on.",
            "url": f"http://127.0.0.1:{port}/messages",
            "allow_private": True,
            "parameters": {"text": {"type": "string"}, "number": {"type": "string"}},
            "body": {"text": "{text}", "number": "{number}"},
        }
        step = {
            "tool": "post_message",
            "arguments": {"text": "{message.text}", "number": "{call.caller_number}"},
        }
        tree["tools"]["take_message"] = {"message": {"deliver": [step]}}
        tree["calls"]["post_call"] = {"first_retry_ms": 100}
        tree["contexts"]["shop"] = {
            "greeting": "Bicycle shop.",
            "tools": ["hangup_call", "take_message"],
            "rules": {
                "intents": {
                    "leave": {
                        "sentences": ["[please] (check|look up) my order [please]"],
                        "tool": "take_message",
                        "arguments": {},
                    }
                }
            },
        }

    async with server, open_hotline(change) as opened:
        yield opened


async def test_a_spoken_message_reaches_a_service_that_was_down(hotline):
    caller = await hotline.dial("ctx-shop")
    await caller.greeted_to_the_end()
    began = await caller.ask("Please check my order.")
    assert "message" in await caller.heard(since=began)
    await caller.say("The blue bicycle is ready for the customer.")
    began = await caller.line.hear_speech(after=caller.line.spoken_segments()[-1].end)
    await caller.listen()
    assert "bicycle" in await caller.heard(since=began), "it is read back"
    began = await caller.ask("Yes, please.")
    assert "passed your message" in await caller.heard(since=began)
    async with asyncio.timeout(PATIENCE):
        got = await DESK.got.get()
    assert DESK.refused == 1
    assert got["number"] == caller.number
    assert "bicycle is ready" in got["text"].lower()
    assert (await caller.says_goodbye()).by == "them"
    await caller.history()
    taken, started = await caller.event(MessageTaken), await caller.event(RecordingStarted)
    assert (taken.outcome, taken.path) == ("confirmed", started.path)
