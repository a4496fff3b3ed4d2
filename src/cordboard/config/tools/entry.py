"""`tools:`: tools of five kinds in one catalogue, each under its exposed name.

    tools:
      transfer: {destinations: {sales: {target: "6001"}}}   # `kind: builtin` is understood
      weather: {kind: mcp, server: aviation_atis, tool: get_atis}
      find_customer: {kind: http, url: "https://crm.example/customers/{number}"}
      convert: {kind: python, function: "my_tools:convert"}
      book: {kind: workflow, steps: [...]}

The sections of `http` and `workflow` have files of their own beside this one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from cordboard.config.chosen import Chosen
from cordboard.config.patterns import (
    DIALPLAN_CONTEXT,
    ENTRY_POINT,
    EXTENSION,
    Name,
    ServerId,
    ToolName,
)
from cordboard.config.section import Section
from cordboard.config.sections.tool import ToolRules, ToolSection
from cordboard.config.tools.http_tool import HttpTool
from cordboard.config.tools.workflow_tool import WorkflowTool

BUILTIN_TOOLS: Mapping[str, str] = {
    "hangup_call": "Ends the call when the agent has finished speaking.",
    "transfer": "Passes the caller on to one of `tools.transfer.destinations`.",
    "collect_digits": "Has the caller enter digits on the keypad; no agent receives secret ones.",
    "send_digits": "Presses keys for the far side.",
    "pause_recording": "Replaces the recording of the call by silence for a while.",
    "resume_recording": "Continues the recording.",
}
"""The tools that need no server, with a description for the documentation."""


class PythonTool(ToolSection):
    """A tool that is a Python function: its typed signature makes the schema of the arguments, its
    docstring the description."""

    kind: Literal["python"] = Field(description="The kind of tool.")
    function: str = Field(
        pattern=ENTRY_POINT,
        description="`module:function`, imported from the packages of the engine's Python.",
    )


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


class TransferDestination(Section):
    """One destination for transfers by the agent."""

    type: Literal["extension", "queue", "dialplan"] = Field(
        "extension", description="Kind of `target`."
    )
    target: str = Field(pattern=EXTENSION, description="Extension or queue.")
    context: str = Field("default", pattern=DIALPLAN_CONTEXT, description="Dialplan context.")
    priority: int = Field(1, ge=1, description="Dialplan priority.")
    description: str = Field("", description="Description for the agent.")


class BuiltinTool(ToolSection):
    """A built-in tool of the engine; its name selects the function."""

    kind: Literal["builtin"] = Field("builtin", description="The kind of tool.")
    destinations: dict[Name, TransferDestination] = Field(
        default_factory=dict,
        description="For `transfer`: the only places to which a call can be transferred.",
    )


TOOLS = Chosen(
    "tool",
    (BuiltinTool, McpToolEntry, HttpTool, PythonTool, WorkflowTool),
    key="kind",
    about="A tool that a context may list under this name; `kind` is its kind.",
)
ToolEntry: TypeAlias = Annotated[ToolSection, TOOLS]
"""One tool under `tools:`."""


_GROUP = ".*"


def group_server(name: str) -> str | None:
    """Return the server of `server.*` in a list of tools; None for the name of a tool."""
    return name.removesuffix(_GROUP) if name.endswith(_GROUP) else None


def tools_of_servers(tools: Mapping[str, ToolEntry]) -> dict[str, tuple[McpTool, ...]]:
    """Return the tools of `kind: mcp` by their servers, as they would stand under the servers'
    `tools:`, in the order of the file."""
    found: dict[str, tuple[McpTool, ...]] = {}
    for name, entry in tools.items():
        if isinstance(entry, McpToolEntry):
            rules = {key: getattr(entry, key) for key in ToolRules.model_fields}
            tool = McpTool.model_validate({"name": entry.tool, "expose_as": name} | rules)
            found[entry.server] = (*found.get(entry.server, ()), tool)
    return found
