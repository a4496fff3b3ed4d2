"""Reading `tools/list`: page by page within limits, tool by tool off the event loop.

The SDK validates a page as a whole: one malformed tool would lose all of them. `ListingRouter`
takes the tools out of an answer before the SDK validates it; `Pages` parses each tool separately
(`cordboard.mcp.definitions.definition`).

A listing is cut, with a warning in the log, after `MAX_PAGES` pages, `MAX_TOOLS` tools or
`MAX_BYTES` of definitions, and when a cursor is repeated.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

import orjson
import structlog
from mcp.shared.inbound import find_invalid_x_mcp_header, mcp_param_headers, x_mcp_header_map
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.transport_context import TransportContext

from cordboard.mcp.definitions.definition import ListedTool, read_tool

MAX_PAGES = 100
MAX_TOOLS = 1_000
"""No agent can choose among more; providers accept 128 (OpenAI) to 512 (Gemini)."""
MAX_BYTES = 4 * 1024 * 1024
_SLICE = 16
"""Tools parsed in one go off the loop; between slices the listing can be cancelled."""

log = structlog.get_logger()


class ParameterHeaders:
    """The headers that the tools of one listing require.

    A property of a tool's input schema may be marked `x-mcp-header: Region`; its argument is then
    repeated as `Mcp-Param-Region` (2026-07-28, SEP-2243), so that a gateway can route the call
    without reading its body. A tool with an invalid mark must not be used. The rules are the SDK's
    (mcp 2.3.0, shared/inbound.py), which applies them only to listings that it parses itself; the
    engine parses its own.
    """

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


class ListingRouter(JSONRPCDispatcher[TransportContext]):
    """The SDK's dispatcher, except that the tools of a listing are kept aside unparsed."""

    _page: list[Any] | None = None
    parameters = ParameterHeaders()
    """The arguments of a call that are also sent as headers."""

    def take(self) -> list[Any]:
        """Return the tools of the page that was answered last, and forget them."""
        taken, self._page = self._page or [], None
        return taken

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, *rest: Any, **options: Any
    ) -> dict[str, Any]:
        """Send a request as the SDK does, and keep the tools of a page out of its parser."""
        if method == "tools/call" and rest and rest[0] is not None:
            rest[0].setdefault("headers", {}).update(self.parameters.of(params))
        result = await super().send_raw_request(method, params, *rest, **options)
        if method == "tools/list" and isinstance(result.get("tools"), list):
            self._page = result["tools"]
            return {**result, "tools": []}
        return result


class Pages:
    """Accumulates the pages of one listing."""

    def __init__(self) -> None:
        self._tools: list[ListedTool] = []
        self._names: set[str] = set()
        self._cursors: set[str] = set()
        self._pages = 0
        self._bytes = 0

    @property
    def tools(self) -> tuple[ListedTool, ...]:
        """All tools so far, in order, including refused ones."""
        return tuple(self._tools)

    async def add(self, page: list[Any], cursor: str | None) -> str | None:
        """Read a page; return the cursor of the next one, or None to stop."""
        self._pages += 1
        cut = await self._read_all(page) or self._why_no_more(cursor)
        if cut:
            log.warning("mcp_listing_cut", reason=cut, pages=self._pages, tools=len(self._tools))
            return None
        if cursor:
            self._cursors.add(cursor)
        return cursor or None

    async def _read_all(self, page: list[Any]) -> str:
        for start in range(0, len(page), _SLICE):
            await asyncio.to_thread(self._read, page[start : start + _SLICE])
            if self._is_full():
                return "it has too many tools, or too long ones"
        return ""

    def _why_no_more(self, cursor: str | None) -> str:
        if cursor and cursor in self._cursors:
            return "it repeated a cursor"
        return "it has too many pages" if cursor and self._pages >= MAX_PAGES else ""

    def _is_full(self) -> bool:
        return len(self._tools) >= MAX_TOOLS or self._bytes >= MAX_BYTES

    def _read(self, raw_tools: list[Any]) -> None:
        for raw in raw_tools:
            if self._is_full():
                return
            tool = read_tool(raw, len(self._tools))
            if not tool.refusal and tool.name in self._names:
                tool = ListedTool.refused(tool.name, "it is listed twice; the first one counts")
            if not tool.refusal:
                self._names.add(tool.name)
            self._tools.append(tool)
            self._bytes += len(orjson.dumps(tool.definition))
