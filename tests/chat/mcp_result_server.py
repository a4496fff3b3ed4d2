"""A server on the official SDK whose tools answer with all that MCP allows besides text."""

from __future__ import annotations

import os

import mcp_types as types
from mcp import MCPError
from mcp.server.mcpserver import MCPServer

server = MCPServer("results")


def answer(*content: types.ContentBlock) -> types.CallToolResult:
    return types.CallToolResult(content=[*content])


@server.tool()
def manual() -> types.CallToolResult:
    """A note, a document and a link."""
    document = types.TextResourceContents(uri="file:///manual.txt", text="Press the red button.")
    return answer(
        types.TextContent(text="I found the manual."),
        types.EmbeddedResource(resource=document),
        types.ResourceLink(uri="https://a.test/full", name="full", description="All pages."),
    )


@server.tool()
def document() -> types.CallToolResult:
    """A document and nothing else."""
    contents = types.TextResourceContents(uri="file:///hours.txt", text="Open from nine.")
    return answer(types.EmbeddedResource(resource=contents))


@server.tool()
def picture() -> types.CallToolResult:
    """A picture and a sound."""
    return answer(
        types.ImageContent(data="AAAA", mime_type="image/png"),
        types.AudioContent(data="AAAA", mime_type="audio/wav"),
    )


@server.tool()
def nothing() -> types.CallToolResult:
    """JSON's null, as text."""
    return answer(types.TextContent(text="null"))


@server.tool()
def explodes() -> types.CallToolResult:
    """An error of the protocol, which quotes the server's secret."""
    secret = os.environ["SECRET"]
    raise MCPError(code=-32602, message=f"backend exploded with {secret} " + "x" * 5_000)


if __name__ == "__main__":
    server.run("stdio")
