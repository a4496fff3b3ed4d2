"""Arguments that a server wants to see in the HTTP headers of a call too (2026-07-28, SEP-2243).

A property of a tool's input schema may be marked `x-mcp-header: Region`; its argument is then
repeated as `Mcp-Param-Region`, so that a gateway can route the call without reading its body. A
tool with a mark that cannot be obeyed must not be used. Pure; the rules are the SDK's (mcp 2.3.0,
shared/inbound.py), which applies them to listings that it has read itself, and ours it has not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from mcp.shared.inbound import find_invalid_x_mcp_header, mcp_param_headers, x_mcp_header_map

from cordboard.mcp.definitions.definition import ListedTool


class ParameterHeaders:
    """The headers that the tools of one listing ask for."""

    def __init__(self, tools: Iterable[ListedTool] = ()) -> None:
        marks = ((tool.name, x_mcp_header_map(tool.input_schema)) for tool in tools)
        self._marks = {name: marked for name, marked in marks if marked}

    def of(self, call: Mapping[str, Any] | None) -> dict[str, str]:
        """The headers of a call, by the parameters of its request."""
        marked = self._marks.get((call or {}).get("name", ""))
        return mcp_param_headers(marked, (call or {}).get("arguments") or {}) if marked else {}


def admitted(tools: Iterable[ListedTool]) -> tuple[tuple[ListedTool, ...], ParameterHeaders]:
    """The tools, those with impossible marks refused, and the headers of the others.

    Walks through all schemas: do it off the event loop.
    """
    judged = tuple(_judged(tool) for tool in tools)
    return judged, ParameterHeaders(tool for tool in judged if not tool.refusal)


def _judged(tool: ListedTool) -> ListedTool:
    problem = "" if tool.refusal else find_invalid_x_mcp_header(tool.input_schema)
    return ListedTool.refused(tool.name, problem) if problem else tool
