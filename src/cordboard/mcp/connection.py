"""One connection to an MCP server: the official SDK's session, with every wait bounded.

Opens over any transport, negotiates the protocol (the handshake of 2024-11-05 to 2025-11-25 first,
since a silent old server would otherwise cost 10 s; `server/discover` when that is rejected), lists
the tools page by page, calls them. All that can go wrong comes out as `McpError` or a subclass.

Results are checked against the tool's output schema by us (`cordboard.mcp.tool`), not by the SDK:
its check runs patterns from the server on Python's `re`, which can hold the loop for ever.
Open and close it in one task (`cordboard.mcp.server` does); `call` may be used from any task.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Protocol, TypeAlias

import anyio
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp import ClientSession
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from cordboard.errors import McpError, McpTimeout, McpUnavailable
from cordboard.version import __version__

MAX_PAGES = 100
MAX_TOOLS = 2_000

Streams: TypeAlias = tuple[
    MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]
]


class Progress(Protocol):
    """Is told how far a running call has come."""

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None: ...


_FAILURES = (
    MCPError,
    ValidationError,
    RuntimeError,
    TimeoutError,
    anyio.ClosedResourceError,
    anyio.BrokenResourceError,
)
_NO_HANDSHAKE = {
    types.METHOD_NOT_FOUND,
    types.INVALID_REQUEST,
    types.INVALID_PARAMS,
    types.UNSUPPORTED_PROTOCOL_VERSION,
}
"""Error codes with which servers of 2026-07-28 and later turn `initialize` down."""


class Transport(AbstractAsyncContextManager[Streams], Protocol):
    """What carries the messages; one life of a server."""

    closed: asyncio.Event
    """Set when the server can no longer answer."""

    @property
    def pid(self) -> int | None:
        """The server's process, if it is one of ours."""
        ...

    @property
    def ending(self) -> str:
        """How it ended, in words."""
        ...


class Connection:
    """A negotiated session. Made by `connect`."""

    def __init__(self, session: ClientSession, list_changed: asyncio.Event) -> None:
        self._session = session
        self.list_changed = list_changed
        """Set when the server says that its tools have changed."""

    @property
    def protocol(self) -> str:
        """The negotiated protocol revision, e.g. `2025-11-25`."""
        return self._session.protocol_version or ""

    async def list_tools(self, timeout: float) -> tuple[types.Tool, ...]:
        """All tools of the server, each name once, within `timeout` seconds. Raises `McpError`."""
        try:
            async with asyncio.timeout(timeout):
                return await self._list_pages()
        except _FAILURES as error:
            raise explain(error) from error

    async def _list_pages(self) -> tuple[types.Tool, ...]:
        found: dict[str, types.Tool] = {}
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            page = await self._session.send_request(
                types.ListToolsRequest(params=types.PaginatedRequestParams(cursor=cursor)),
                types.ListToolsResult,
            )
            for tool in page.tools:
                found.setdefault(tool.name, tool)
            cursor = page.next_cursor
            if not cursor or len(found) >= MAX_TOOLS:
                break
        return tuple(found.values())[:MAX_TOOLS]

    async def call(
        self,
        tool: str,
        arguments: dict[str, Any],
        timeout: float,
        progress: Progress | None = None,
    ) -> types.CallToolResult:
        """Call a tool; `timeout` in seconds. A cancelled call is cancelled at the server too.

        Raises `McpTimeout`, `McpUnavailable` or `McpError`.
        """
        request = types.CallToolRequest(
            params=types.CallToolRequestParams(name=tool, arguments=arguments)
        )
        try:
            async with asyncio.timeout(timeout):
                return await self._session.send_request(
                    request, types.CallToolResult, progress_callback=progress
                )
        except _FAILURES as error:
            raise explain(error) from error


@asynccontextmanager
async def connect(transport: Transport, timeout: float) -> AsyncIterator[Connection]:
    """Open a connection within `timeout` seconds. Raises `McpError` when it does not come about.

    A `McpError` out of the body comes out as it is, after the transport has been closed.
    """
    list_changed = asyncio.Event()

    async def on_message(message: types.ServerNotification | Exception) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            list_changed.set()

    failure: McpError | None = None
    async with (
        transport as (read, write),
        ClientSession(
            read,
            write,
            message_handler=on_message,
            client_info=types.Implementation(name="cordboard", version=__version__),
        ) as session,
    ):
        try:
            async with asyncio.timeout(timeout):
                await _negotiate(session)
        except _FAILURES as error:
            failure = explain(error)
        else:
            try:
                yield Connection(session, list_changed)
            except McpError as error:
                failure = error
    if failure is not None:  # raised out here: the SDK would wrap it into a group
        raise failure


async def _negotiate(session: ClientSession) -> None:
    try:
        await session.initialize()
    except MCPError as error:
        if error.code not in _NO_HANDSHAKE:
            raise
        await session.discover()


def explain(error: Exception) -> McpError:
    """Any failure of the SDK as one of our errors, in words."""
    if isinstance(error, McpError):
        return error
    if isinstance(error, TimeoutError):
        return McpTimeout("it did not answer in time")
    if isinstance(error, (anyio.ClosedResourceError, anyio.BrokenResourceError)):
        return McpUnavailable("the connection is closed")
    if isinstance(error, MCPError):
        if error.code == types.CONNECTION_CLOSED:
            return McpUnavailable("the connection was closed")
        if error.code == types.REQUEST_TIMEOUT:
            return McpTimeout("it did not answer in time")
        return McpError(f"it answered with error {error.code}: {error.message[:300]}")
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        return McpError(f"its answer has the wrong shape ({place}: {first['msg']})")
    return McpError(str(error)[:300])
