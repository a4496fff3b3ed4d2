"""What a server's configuration asks for: its transport, and the tools it is expected to have."""

from __future__ import annotations

import mcp_types as types

from cordboard.config.mcp import McpServer
from cordboard.mcp.connection import Transport
from cordboard.mcp.process import Launch
from cordboard.mcp.stderr import StderrTail
from cordboard.mcp.transport import StdioTransport


def transport_of(server_id: str, config: McpServer, stderr: StderrTail) -> Transport:
    """A transport for one life of the server. Raises `McpError` for an address that is refused."""
    if config.transport == "stdio":
        launch = Launch(config.command, config.env, config.cwd)
        return StdioTransport(server_id, launch, stderr, config.stop_grace_ms / 1000)
    from cordboard.mcp.http_transport import remote_transport  # the HTTP client: only if needed

    return remote_transport(server_id, config)


def expected_tools(config: McpServer) -> tuple[types.Tool, ...]:
    """The tools that the operator has named, their parameters still unknown."""
    return tuple(
        types.Tool(name=tool.name, description=tool.description, input_schema={"type": "object"})
        for tool in config.tools
    )
