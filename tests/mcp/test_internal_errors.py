"""A mistake in a server's supervision is counted, and the supervision goes on."""

from __future__ import annotations

import asyncio
import sys
from typing import NoReturn

import pytest
from structlog.testing import capture_logs

from cordboard.config.mcp import McpServer
from cordboard.mcp.remote.http_transport import HttpTransport
from cordboard.mcp.stdio.transport import StdioTransport
from cordboard.mcp.supervision.server import SupervisedServer
from cordboard.mcp.supervision.status import SilentServerObserver

from .conftest import faulty


class Counting(SilentServerObserver):
    def __init__(self) -> None:
        self.errors: list[str] = []
        self.another = asyncio.Event()

    def internal_error(self, where: str) -> None:
        self.errors.append(where)
        self.another.set()


async def test_a_mistake_is_counted_and_the_server_started_again() -> None:
    def wrong(*_: object) -> NoReturn:
        raise ZeroDivisionError("a bug")

    observer = Counting()
    config = McpServer.model_validate(
        {"command": [sys.executable], "restart": {"backoff_ms": 10, "max_restarts": 5}}
    )
    server = SupervisedServer("it", config, observer, transport=wrong)
    server.start()
    try:
        async with asyncio.timeout(60):
            while len(observer.errors) < 2:
                observer.another.clear()
                await observer.another.wait()
    finally:
        await server.close()
    assert set(observer.errors) == {"mcp_server"}


@pytest.mark.parametrize("place", ["_messages", "_note_outgoing"])
async def test_so_is_one_on_the_way_to_a_process(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(*_: object) -> NoReturn:
        raise ZeroDivisionError("a bug")

    observer = Counting()
    server = SupervisedServer("it", faulty(start_timeout_ms=1_000), observer)
    monkeypatch.setattr(StdioTransport, place, wrong)
    server.start()
    try:
        with capture_logs() as log:
            async with asyncio.timeout(60):
                await observer.another.wait()
    finally:
        await server.close()
    assert set(observer.errors) == {"mcp_stdio"}
    assert [entry["exc_info"] for entry in log if entry["event"] == "mcp_stdio_crashed"]


async def test_so_is_one_on_the_way_to_a_remote_server(monkeypatch: pytest.MonkeyPatch) -> None:
    async def wrong(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    observer = Counting()
    config = McpServer.model_validate({"transport": "http", "url": "http://127.0.0.1:9/mcp"})
    server = SupervisedServer("it", config, observer)
    monkeypatch.setattr(HttpTransport, "_send", wrong)
    server.start()
    try:
        async with asyncio.timeout(60):
            await observer.another.wait()
    finally:
        await server.close()
    assert set(observer.errors) == {"mcp_remote"}
