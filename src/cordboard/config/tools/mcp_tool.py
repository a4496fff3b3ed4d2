"""A tool of an MCP server, as it stands under the server's `tools:` or under `tools:` itself."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from cordboard.config.patterns import ServerId, ToolName
from cordboard.config.sections.tool import ToolRules, ToolSection


class McpTool(ToolRules):
    """One offered tool of a server, with its name and speech. Rules that are left out come from
    the server's `defaults`."""

    name: str = Field(description="The tool's name as the server gives it.")
    expose_as: ToolName | None = Field(None, description="Default: mcp_{server}_{tool}.")


class McpToolEntry(ToolSection):
    """A tool of an MCP server; as if it stood under the server's `tools:` with this name."""

    kind: Literal["mcp"] = Field(description="The kind of tool.")
    server: ServerId = Field(description="Name under `mcp.servers`.")
    tool: str = Field(min_length=1, description="The tool's name as the server gives it.")
