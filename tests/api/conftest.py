"""An engine that shows what a test sets, and clients that send exactly what a test says."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import pytest
from starlette.types import ASGIApp, Message

from cordboard.api.app import ComponentState
from cordboard_testkit.patience import PATIENCE


class ShownEngine:
    """An engine that shows what a test sets."""

    def __init__(self) -> None:
        self.components = {
            "ari": ComponentState(True),
            "media": ComponentState(True),
            "agents": ComponentState(True),
            "mcp": ComponentState(True, required=False),
        }

    def readiness(self) -> Mapping[str, ComponentState]:
        return self.components

    def counts(self) -> dict[str, Any]:
        return {"version": "1.2.3", "active_calls": 1}

    def health(self) -> dict[str, Any]:
        return {**self.counts(), "active_calls": [{"call_id": "one", "context": "demo"}]}

    async def metrics(self) -> bytes:
        return b"ai_agent_active_calls 0.0\n"


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


async def ask(
    port: int,
    path: str,
    *,
    method: str = "GET",
    host: str = "localhost",
    headers: Mapping[str, str] | None = None,
    body: bytes = b"",
) -> Answer:
    """One request on a connection of its own; a body gets its length unless `headers` say so."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    lines = {"Host": host, "Connection": "close", **(headers or {})}
    if body and "Transfer-Encoding" not in lines:
        lines.setdefault("Content-Length", str(len(body)))
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    writer.write(f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + body)
    raw = await asyncio.wait_for(reader.read(), PATIENCE)
    writer.close()
    await writer.wait_closed()
    answer, _, content = raw.partition(b"\r\n\r\n")
    status, *lines_in = answer.decode("latin-1").split("\r\n")
    found = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines_in)}
    return Answer(int(status.split()[1]), found, content)


async def ask_app(
    app: ASGIApp,
    path: str,
    *,
    method: str = "GET",
    host: str = "localhost",
    headers: Mapping[str, str] | None = None,
    body: bytes = b"",
) -> Answer:
    """The same without a socket: opening and closing a port takes 0.15 s."""
    sent: list[Message] = []
    received = iter([{"type": "http.request", "body": body}, {"type": "http.disconnect"}])

    async def receive() -> Message:
        return next(received)

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": method,
        "path": unquote(path.partition("?")[0]),
        "root_path": "",
        "query_string": path.partition("?")[2].encode(),
        "headers": [
            (name.lower().encode(), value.encode("latin-1"))
            for name, value in {"Host": host, **(headers or {})}.items()
        ],
    }
    try:
        await app(scope, receive, send)
    except KeyError:  # passed on to the server for its log, after the answer
        assert sent
    found = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return Answer(sent[0]["status"], found, b"".join(m.get("body", b"") for m in sent))


@pytest.fixture
def engine() -> ShownEngine:
    return ShownEngine()
