"""The tools of one file of goals, the argument, as an MCP server on stdin and stdout, with their
fixed answers."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import orjson
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
)

TOOLS = {tool["name"]: tool for tool in orjson.loads(Path(sys.argv[1]).read_bytes())["tools"]}


async def listed(_: Any, params: PaginatedRequestParams | None) -> ListToolsResult:
    tools = [
        Tool(name=name, description=tool["description"], input_schema=tool["parameters"])
        for name, tool in TOOLS.items()
    ]
    return ListToolsResult(tools=tools)


async def called(_: Any, params: CallToolRequestParams) -> CallToolResult:
    answer = TOOLS[params.name]["answer"]
    text = TextContent(type="text", text=orjson.dumps(answer).decode())
    return CallToolResult(content=[text], structured_content=answer)


async def main() -> None:
    server: Server[Any] = Server("goals", on_list_tools=listed, on_call_tool=called)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    asyncio.run(main())
