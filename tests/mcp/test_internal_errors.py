"""A mistake in a server's supervision is counted, and the supervision goes on."""

from __future__ import annotations

import asyncio
import sys
from typing import NoReturn

import pytest

from cordboard.config.mcp import McpServer
from cordboard.mcp.remote.http_transport import HttpTransport
from cordboard.mcp.supervision.server import SupervisedServer
from cordboard.mcp.supervision.status import SilentServerObserver


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
