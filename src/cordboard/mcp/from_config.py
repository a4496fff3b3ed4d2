"""Objects made from a server's configuration: its transport, expected tools, secrets to mask."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import mcp_types as types

from cordboard.config.mcp import McpServer
from cordboard.config.remote_url import path_secrets
from cordboard.mcp.stdio.process import Launch
from cordboard.mcp.stdio.spawn_turns import SpawnTurns
from cordboard.mcp.stdio.stderr import StderrTail

if TYPE_CHECKING:  # the SDK is loaded later: `cordboard.mcp.sdk`
    from cordboard.mcp.connection import Transport
    from cordboard.mcp.stdio.transport import StdioTransport


def transport_of(
    server_id: str,
    config: McpServer,
    stderr: StderrTail,
    turns: SpawnTurns,
    on_internal_error: Callable[[str], None] = lambda _: None,
) -> Transport:
    """Make a transport for one life of the server. Raises `McpError` for a refused address.
    `on_internal_error(where)` is called for bugs of the engine."""
    if config.transport == "stdio":
        return process_of(server_id, config, stderr, turns, on_internal_error)
    from cordboard.mcp.remote.http_transport import (
        remote_transport,  # the HTTP client: only if needed
    )

    transport = remote_transport(server_id, config, stderr.hide)
    transport.on_internal_error = on_internal_error
    return transport


def process_of(
    server_id: str,
    config: McpServer,
    stderr: StderrTail,
    turns: SpawnTurns,
    on_internal_error: Callable[[str], None] = lambda _: None,
) -> StdioTransport:
    """Make the transport of a server that is a program (`transport: stdio`)."""
    from cordboard.mcp.stdio.transport import StdioTransport

    launch = Launch(config.command, config.env, config.cwd)
    grace = config.stop_grace_ms / 1000
    process = StdioTransport(server_id, launch, stderr, grace, turns=turns)
    process.on_internal_error = on_internal_error
    return process


def secrets_of(config: McpServer) -> tuple[str, ...]:
    """Return the server's secrets, which may appear in its errors."""
    auth = config.auth
    hidden = [*config.headers.values()]
    if auth is not None:
        hidden += [s for s in (auth.token, auth.client_secret, auth.private_key) if s is not None]
    given = (secret.get_secret_value() for secret in hidden)
    return (*config.env.values(), *given, *path_secrets(config.url or ""))


def expected_tools(config: McpServer) -> tuple[types.Tool, ...]:
    """Return the tools that the operator has named; their parameters are not known yet."""
    return tuple(
        types.Tool(name=tool.name, description=tool.description, input_schema={"type": "object"})
        for tool in config.tools
    )
