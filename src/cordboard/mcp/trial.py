"""Trying out a server: a handshake and its tools, whether it runs already or is started for it."""

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
    """How a server did."""

    __test__ = False  # it is none of pytest's

    ok: bool
    error: str = ""
    """Why not; without secrets."""
    took_ms: int = 0
    protocol: str = ""
    tools: tuple[str, ...] = ()
    """Names as the server gives them."""
    stderr: tuple[str, ...] = ()
    """The last lines the server wrote there."""
    listing: tuple[types.Tool, ...] = ()
    """The tools themselves."""


async def try_out(server_id: str, config: McpServer) -> TestReport:
    """Start a server for this alone, and end it. Nothing of it is left afterwards.

    Takes as long as its start does, `start_timeout_ms` at most, and its end. In the log it is not
    taken for the server itself: its name there is `<server_id> (trial)`.
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
    """Ask a server that runs for its tools, beside whatever calls ask of it."""
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
