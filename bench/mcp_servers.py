"""The servers that `bench mcp` measures: one program, below our supervision and below the SDK's.

The program answers in a few hundred lines of the standard library, so that the client is measured
and not the server.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

from bench.desk import nowhere
from cordboard.config.mcp import McpServer
from cordboard.errors import McpError
from cordboard.mcp.supervision.server import SupervisedServer
from cordboard_testkit.mcp_servers import FAULTY_SERVER

READY_SECONDS = 30.0
COMMAND = (sys.executable, str(FAULTY_SERVER))


def config(command: Sequence[str] = COMMAND, **settings: Any) -> McpServer:
    """The configuration of a server over stdio, with the default settings."""
    return McpServer.model_validate({"command": list(command), **settings})


@asynccontextmanager
async def supervised(
    server_id: str, on_change: Callable[[], None] = lambda: None
) -> AsyncIterator[SupervisedServer]:
    """A server under our supervision, ready; closed completely afterwards."""
    server = SupervisedServer(server_id, config(), on_change=on_change)
    server.start()
    try:
        if not await server.wait_ready(READY_SECONDS):
            raise McpError(f"the server {server_id} did not start: {server.status().last_error}")
        yield server
    finally:
        await server.close()


@asynccontextmanager
async def bare_session() -> AsyncIterator[ClientSession]:
    """The same program below the official SDK alone, its tools listed; else the SDK would list them
    within the first call (mcp 2.3.0)."""
    parameters = StdioServerParameters(command=COMMAND[0], args=list(COMMAND[1:]))
    with nowhere() as silent:
        async with (
            stdio_client(parameters, errlog=silent) as (read, write),
            ClientSession(read, write) as session,
        ):
            await session.initialize()
            await session.list_tools()
            yield session
