"""Tests a server: a handshake and its tools, on a running server or on one started for the test."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import mcp_types as types

from cordboard.config.mcp import McpRestart, McpServer
from cordboard.errors import McpError
from cordboard.mcp.supervision.server import SupervisedServer
from cordboard.mcp.supervision.status import ServerState


@dataclass(frozen=True, slots=True)
class TestReport:
    """The result of a test."""

    __test__ = False  # not a test class of pytest

    ok: bool
    error: str = ""
    """The reason of a failure; without secrets."""
    took_ms: int = 0
    protocol: str = ""
    tools: tuple[str, ...] = ()
    """Names as the server lists them."""
    stderr: tuple[str, ...] = ()
    """The last lines of its stderr."""
    listing: tuple[types.Tool, ...] = ()
    """The listed tools."""


async def try_out(server_id: str, config: McpServer) -> TestReport:
    """Start a server only for this test, and end it. Nothing of it is left afterwards.

    Takes as long as its start, at most `start_timeout_ms`, and its end. Its name in the log is
    `<server_id> (trial)`, to distinguish it from the server itself.
    """
    once = McpRestart(enabled=False)
    server = SupervisedServer(
        f"{server_id} (trial)", config.model_copy(update={"start": "boot", "restart": once})
    )
    loop = asyncio.get_running_loop()
    began = loop.time()
    server.start()
    try:
        await server.settled.wait()
        took_ms = _ms(loop.time() - began)
        status, listing = server.status(), server.listing
    finally:
        await server.close()
    if status.state is not ServerState.READY:
        error = status.last_error or f"it is {status.state}"
        return TestReport(False, error, took_ms, stderr=status.stderr)
    return TestReport(True, "", took_ms, status.protocol, status.tools, status.stderr, listing)


async def try_running(server: SupervisedServer) -> TestReport:
    """Ask a running server for its tools, concurrently with calls."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    status = server.status()
    try:
        listing = await server.list_now(server.config.start_timeout_ms / 1000)
    except McpError as error:
        words, took_ms = server.mask(str(error)), _ms(loop.time() - began)
        return TestReport(False, words, took_ms, status.protocol, stderr=server.status().stderr)
    names = tuple(tool.name for tool in listing)
    took_ms = _ms(loop.time() - began)
    return TestReport(True, "", took_ms, status.protocol, names, status.stderr, listing)


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
