"""What `tools:` may say: tools of five kinds in one catalogue, each under its exposed name.

    tools:
      transfer: {destinations: {sales: {target: "6001"}}}   # `kind: builtin` is understood
      weather: {kind: mcp, server: aviation_atis, tool: get_atis}
      find_customer: {kind: http, url: "https://crm.example/customers/{number}"}
      convert: {kind: python, function: "my_tools:convert"}
      book: {kind: workflow, steps: [...]}

The sections of `http`, `mcp`, `python` and `workflow` have files of their own beside this one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from cordboard.config.chosen import Chosen
from cordboard.config.patterns import DIALPLAN_CONTEXT, EXTENSION, Name
from cordboard.config.section import Section
from cordboard.config.sections.tool import ToolRules, ToolSection
from cordboard.config.tools.http_tool import HttpTool
from cordboard.config.tools.mcp_tool import McpTool, McpToolEntry
from cordboard.config.tools.python_tool import PythonTool
from cordboard.config.tools.workflow_tool import WorkflowTool

BUILTIN_TOOLS: Mapping[str, str] = {
    "hangup_call": "Ends the call when the agent has finished speaking.",
    "transfer": "Passes the caller on to one of `tools.transfer.destinations`.",
    "collect_digits": "Has the caller enter digits on the keypad; secret ones no agent is given.",
    "send_digits": "Presses keys for the far side.",
    "pause_recording": "Has the recording of the call be silent for a while.",
    "resume_recording": "Goes on with it.",
}
"""The tools that need no server, with a description for the documentation."""


class TransferDestination(Section):
    """One place to which the agent may pass the caller on."""

    type: Literal["extension", "queue", "dialplan"] = Field(
        "extension", description="What `target` names."
    )
    target: str = Field(pattern=EXTENSION, description="Extension or queue.")
    context: str = Field("default", pattern=DIALPLAN_CONTEXT, description="Dialplan context.")
    priority: int = Field(1, ge=1, description="Dialplan priority.")
    description: str = Field("", description="What the agent is told about it.")


class BuiltinTool(ToolSection):
    """A tool of the engine's own; its name says which."""

    kind: Literal["builtin"] = Field("builtin", description="The kind of tool.")
    destinations: dict[Name, TransferDestination] = Field(
        default_factory=dict,
        description="Of `transfer`: the only places a call can be transferred to.",
    )


TOOLS = Chosen(
    "tool",
    (BuiltinTool, McpToolEntry, HttpTool, PythonTool, WorkflowTool),
    key="kind",
    about="A tool that a context may list under this name; `kind` says what it is.",
)
ToolEntry: TypeAlias = Annotated[ToolSection, TOOLS]
"""One tool under `tools:`."""


_GROUP = ".*"


def group_server(name: str) -> str | None:
    """The server that `server.*` means in a list of tools; None for the name of a tool."""
    return name.removesuffix(_GROUP) if name.endswith(_GROUP) else None


def tools_of_servers(tools: Mapping[str, ToolEntry]) -> dict[str, tuple[McpTool, ...]]:
    """The tools of `kind: mcp` by their servers, as they would stand under the servers' `tools:`,
    in the order of the file."""
    found: dict[str, tuple[McpTool, ...]] = {}
    for name, entry in tools.items():
        if isinstance(entry, McpToolEntry):
            rules = {key: getattr(entry, key) for key in ToolRules.model_fields}
            tool = McpTool.model_validate({"name": entry.tool, "expose_as": name} | rules)
            found[entry.server] = (*found.get(entry.server, ()), tool)
    return found
