"""Arguments that a server also requires in the HTTP headers of a call (2026-07-28, SEP-2243).

A property of a tool's input schema may be marked `x-mcp-header: Region`; its argument is then
repeated as `Mcp-Param-Region`, so that a gateway can route the call without reading its body. A
tool with an invalid mark must not be used. Pure. The rules are the SDK's (mcp 2.3.0,
shared/inbound.py), which applies them only to listings that it parses itself; the engine parses its
own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from mcp.shared.inbound import find_invalid_x_mcp_header, mcp_param_headers, x_mcp_header_map

from cordboard.mcp.definitions.definition import ListedTool


class ParameterHeaders:
    """The headers that the tools of one listing require."""

    def __init__(self, tools: Iterable[ListedTool] = ()) -> None:
        marks = ((tool.name, x_mcp_header_map(tool.input_schema)) for tool in tools)
        self._marks = {name: marked for name, marked in marks if marked}

    def of(self, call: Mapping[str, Any] | None) -> dict[str, str]:
        """Return the headers of a call from the parameters of its request."""
        marked = self._marks.get((call or {}).get("name", ""))
        return mcp_param_headers(marked, (call or {}).get("arguments") or {}) if marked else {}


def admitted(tools: Iterable[ListedTool]) -> tuple[tuple[ListedTool, ...], ParameterHeaders]:
    """Return the tools, those with invalid marks refused, and the headers of the others.

    Traverses all schemas: do it off the event loop.
    """
    judged = tuple(_judged(tool) for tool in tools)
    return judged, ParameterHeaders(tool for tool in judged if not tool.refusal)


def _judged(tool: ListedTool) -> ListedTool:
    problem = "" if tool.refusal else find_invalid_x_mcp_header(tool.input_schema)
    return ListedTool.refused(tool.name, problem) if problem else tool
