from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest_asyncio

from cordboard.config.mcp import McpServer
from cordboard.mcp.connection import Transport
from cordboard.mcp.from_config import transport_of
from cordboard.mcp.supervision.server import SupervisedServer
from cordboard.mcp.supervision.status import SilentServerObserver
from cordboard_testkit.mcp_servers import FAULTY_SERVER

READY_SECONDS = 60.0


def faulty(*behaviour: str, **settings: Any) -> McpServer:
    """Configuration of a server that misbehaves as asked, with quick restarts."""
    restart = {"backoff_ms": 20, **settings.pop("restart", {})}
    return McpServer.model_validate(
        {
            "command": [sys.executable, str(FAULTY_SERVER), *behaviour],
            "start_timeout_ms": 60_000,
            "stop_grace_ms": 4_000,
            "restart": restart,
            **settings,
        }
    )


class Journal(SilentServerObserver):
    """A ServerObserver that remembers."""

    def __init__(self) -> None:
        self.up: list[bool] = []
        self.restarts = 0
        self.breaker: list[bool] = []

    def mcp_server_up(self, server: str, up: bool) -> None:
        self.up.append(up)

    def mcp_server_restarted(self, server: str) -> None:
        self.restarts += 1

    def mcp_breaker(self, server: str, is_open: bool) -> None:
        self.breaker.append(is_open)

    def internal_error(self, where: str) -> None:
        raise AssertionError(f"a mistake of ours: {where}")


Start = Callable[..., Awaitable[SupervisedServer]]


@pytest_asyncio.fixture
async def start() -> AsyncIterator[Start]:
    """Starts faulty servers; ends them, and fails when anything of them is left."""
    servers: list[SupervisedServer] = []
    groups: set[int] = set()

    async def starter(
        *behaviour: str,
        begin: bool = True,
        wait: bool = True,
        observer: Journal | None = None,
        transport: Callable[..., Transport] = transport_of,
        **settings: Any,
    ) -> SupervisedServer:
        config = faulty(*behaviour, **settings)
        server = SupervisedServer("faulty", config, observer, transport=transport)
        servers.append(server)
        if begin:
            server.start()
        if begin and wait:
            assert await server.wait_ready(READY_SECONDS), server.status()
            groups.add(server.status().pid or 0)
        return server

    yield starter
    await asyncio.gather(*(server.close() for server in servers))
    for group in groups:
        assert await gone(group), f"process group {group} is left"


async def gone(group: int) -> bool:
    """Whether a process group has no living member, at the latest in a minute."""
    deadline = time.monotonic() + 60
    while _members(group):
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(0.02)
    return True


def _members(group: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                state, _, member_of = (entry / "stat").read_text().rpartition(")")[2].split()[:3]
            except OSError:
                continue
            if int(member_of) == group and state != "Z":
                found.append(int(entry.name))
    return found


async def until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    """Wait for something that tells nobody; fails after a generous time."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come about"
        await asyncio.sleep(0.01)
