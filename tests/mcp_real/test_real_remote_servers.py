"""A server of another project over HTTP: its streamable transport, and the one of 2024 (SSE)."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest
import pytest_asyncio

from cordboard.config.mcp import McpServer
from cordboard.errors import McpError
from cordboard.mcp.supervision.server import ServerState, SupervisedServer

from .installed import installed

SECONDS = 60.0
KINDS = {"http": ("streamableHttp", "/mcp"), "sse": ("sse", "/sse")}


class Everything:
    """The `everything` server on a port of its own; may be killed, and started again."""

    def __init__(self, kind: str) -> None:
        self._mode, path = KINDS[kind]
        with socket.create_server(("127.0.0.1", 0)) as found:
            self._port: int = found.getsockname()[1]
        self.config = McpServer.model_validate(
            {
                "transport": kind,
                "url": f"http://127.0.0.1:{self._port}{path}",
                "start_timeout_ms": 60_000,
                "restart": {"backoff_ms": 50, "max_restarts": 100},
            }
        )

    async def start(self) -> None:
        """Returns when it listens."""
        self._process = await asyncio.create_subprocess_exec(
            *installed().npm_server("server-everything"),
            self._mode,
            env={"PORT": str(self._port)},
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        assert self._process.stderr is not None
        async with asyncio.timeout(SECONDS):
            while b" on port " not in (line := await self._process.stderr.readline()):
                assert line, "it ended"
        self._drain = asyncio.create_task(self._process.stderr.read())

    async def kill(self) -> None:
        """As `kill -9` would."""
        with suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()
        await self._drain


@pytest_asyncio.fixture(params=sorted(KINDS))
async def everything(request: pytest.FixtureRequest) -> AsyncIterator[Everything]:
    server = Everything(request.param)
    await server.start()
    yield server
    await server.kill()


@pytest_asyncio.fixture
async def server(everything: Everything) -> AsyncIterator[SupervisedServer]:
    server = SupervisedServer("everything", everything.config)
    server.start()
    assert await server.wait_ready(SECONDS), server.status()
    yield server
    await server.close()
    assert server.state is ServerState.STOPPED


async def echo(server: SupervisedServer, text: str) -> Any:
    result = await server.call("echo", {"message": text}, SECONDS)
    return result.content[0].model_dump()["text"]


async def test_it_is_listed_and_called(server: SupervisedServer) -> None:
    assert len(server.listing) == 13
    assert await echo(server, "zażółć") == "Echo: zażółć"
    result = await server.call("get-structured-content", {"location": "Chicago"}, SECONDS)
    assert result.structured_content is not None
    assert result.structured_content.keys() == {"temperature", "conditions", "humidity"}
    answers = await asyncio.gather(*(echo(server, str(number)) for number in range(20)))
    assert answers == [f"Echo: {number}" for number in range(20)]


async def test_progress_comes_while_it_works(server: SupervisedServer) -> None:
    told: list[float] = []

    async def progress(done: float, total: float | None, message: str | None) -> None:
        told.append(done)

    work = {"duration": 0.2, "steps": 4}
    result = await server.call("trigger-long-running-operation", work, SECONDS, progress)
    assert not result.is_error
    assert told == [1, 2, 3, 4]


async def test_a_killed_server_is_an_error_at_once_and_back_when_it_is_back(
    everything: Everything, server: SupervisedServer
) -> None:
    work = {"duration": 60, "steps": 1}
    pending = asyncio.create_task(server.call("trigger-long-running-operation", work, 600))
    assert await echo(server, "before") == "Echo: before"
    await everything.kill()
    async with asyncio.timeout(SECONDS):
        with pytest.raises(McpError):
            await pending
    with pytest.raises(McpError):
        await echo(server, "meanwhile")
    await everything.start()
    async with asyncio.timeout(SECONDS):
        while True:
            with suppress(McpError):
                assert await echo(server, "after") == "Echo: after"
                break
            await asyncio.sleep(0.02)
