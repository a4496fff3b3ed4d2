"""One connection to an MCP server: the official SDK's session, with every wait bounded.

Opens over any transport, negotiates a protocol revision (`cordboard.mcp.negotiation`), lists the
tools page by page, receives notifications of changes to them, and calls them. Every failure is
raised as `McpError` or a subclass.

Results are checked against the tool's output schema by `cordboard.mcp.tool`, not by the SDK, whose
check runs patterns from the server on Python's `re`, which can block the event loop for ever.
Open and close a connection in one task (`mcp.supervision.server` does); `call` may be used from any
task.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Protocol, Self, TypeAlias, cast, runtime_checkable

import anyio
import mcp_types as types
import structlog
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp import ClientSession
from mcp.client.subscriptions import SubscriptionLost, listen
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from cordboard.errors import McpError, McpRefused, McpTimeout, McpUnavailable
from cordboard.mcp.definitions.definition import ListedTool
from cordboard.mcp.definitions.listing import ListingRouter, Pages, admitted
from cordboard.mcp.large_result import whole_result
from cordboard.mcp.message_log import MessageLog
from cordboard.mcp.negotiation import Negotiation, is_closed
from cordboard.mcp.printable import printable
from cordboard.version import __version__

Streams: TypeAlias = tuple[
    MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]
]


class Progress(Protocol):
    """Callback for the progress of a running call."""

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None: ...


_FAILURES = (
    MCPError,
    ValidationError,
    RuntimeError,
    TimeoutError,
    anyio.ClosedResourceError,
    anyio.BrokenResourceError,
)
MAX_QUOTED = 2_000
"""Most characters of a server's own text that an error quotes. More than is finally shown, so that
secrets are still complete when they are masked (`SupervisedServer`)."""
LISTEN_SECONDS = 10.0
"""Timeout for a server to confirm a subscription."""
LISTEN_AGAIN_SECONDS = 5.0
"""Pause before a lost subscription is requested again."""

log = structlog.get_logger()


class Transport(AbstractAsyncContextManager[Streams], Protocol):
    """Carries the messages of one life of a server."""

    closed: asyncio.Event
    """Set when the server can no longer answer."""

    @property
    def pid(self) -> int | None:
        """The process id of the server, if the engine runs it as a process; otherwise None."""

    @property
    def ending(self) -> str:
        """The end of the connection, in words."""


@runtime_checkable
class Relay(Protocol):
    """A transport whose server may be run by another engine of the cluster."""

    relayed_to: str
    """That engine, once the transport has been entered; empty if the server runs here. A relay is
    told the limits of each call in `_meta`, because the other engine supervises the server."""


LIMITS = "cordboard/limits"
"""Key of a call's limits in its `_meta`, for a relay only: `[timeout, patience]` in seconds."""


class Connection:
    """A negotiated session. Made by `connect`."""

    def __init__(
        self,
        session: ClientSession,
        router: ListingRouter,
        list_changed: asyncio.Event,
        relayed_to: str = "",
    ) -> None:
        self._session = session
        self._router = router
        self.relayed_to = relayed_to
        """Engine of the cluster that runs the server; empty: this one, or it is remote."""
        self.list_changed = list_changed
        """Set when the server notifies that its tools have changed."""

    @property
    def protocol(self) -> str:
        """The negotiated protocol revision, e.g. `2025-11-25`."""
        return self._session.protocol_version or ""

    @property
    def capabilities(self) -> tuple[str, ...]:
        """Names of what the server offers, as MCP has them: `tools`, `prompts`, `logging`."""
        offered = self._session.server_capabilities
        names = () if offered is None else tuple(type(offered).model_fields)
        return tuple(name for name in names if getattr(offered, name) is not None)

    async def list_tools(self, timeout: float) -> tuple[types.Tool, ...]:
        """Return all tools of the server within `timeout` seconds. Raises `McpError`.

        Each is a `ListedTool`, which may be refused (`cordboard.mcp.definitions.listing`).
        """
        try:
            async with asyncio.timeout(timeout):
                return await self._list_pages()
        except _FAILURES as error:
            raise explain(error) from error

    async def _list_pages(self) -> tuple[types.Tool, ...]:
        pages = Pages()
        cursor: str | None = None
        while True:
            page = await self._session.send_request(
                types.ListToolsRequest(params=types.PaginatedRequestParams(cursor=cursor)),
                types.ListToolsResult,
            )
            cursor = await pages.add(self._router.take(), page.next_cursor)
            if cursor is None:
                return await self._admitted(pages.tools)

    async def _admitted(self, tools: tuple[ListedTool, ...]) -> tuple[ListedTool, ...]:
        """From 2026-07-28 on, tools may require headers (`ParameterHeaders`)."""
        if self.protocol not in MODERN_PROTOCOL_VERSIONS:
            return tools
        tools, self._router.parameters = await asyncio.to_thread(admitted, tools)
        return tools

    async def call(
        self,
        tool: str,
        arguments: dict[str, Any],
        timeout: float,
        progress: Progress | None = None,
        patience: float = 0.0,
    ) -> types.CallToolResult:
        """Call a tool; `timeout` in seconds, and `patience` seconds more for a late answer.
        Cancelling this call cancels it at the server too.

        Raises `McpTimeout`, `McpUnavailable` or `McpError`.
        """
        params = types.CallToolRequestParams(name=tool, arguments=arguments)
        if self.relayed_to:
            params.meta = cast("types.RequestParamsMeta", {LIMITS: [timeout, patience]})
        request = types.CallToolRequest(params=params)
        try:
            async with asyncio.timeout(timeout + patience):
                return whole_result(
                    await self._session.send_request(
                        request, types.CallToolResult, progress_callback=progress
                    )
                )
        except _FAILURES as error:
            raise explain(error) from error


@asynccontextmanager
async def connect(
    transport: Transport,
    timeout: float,
    negotiation: Negotiation | None = None,
    log_of_messages: MessageLog | None = None,
) -> AsyncIterator[Connection]:
    """Open a connection within `timeout` seconds. Raises `McpError` when it cannot be opened.

    `negotiation` remembers the result of the server's earlier connections; `log_of_messages` gets
    all messages. A `McpError` raised in
    the body is re-raised unchanged, after the transport has been closed.
    """
    list_changed = asyncio.Event()

    async def on_message(message: types.ServerNotification | Exception) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            list_changed.set()

    failure: McpError | None = None
    async with (
        transport as (read, write),
        ClientSession(
            dispatcher=(router := _router(read, write, log_of_messages)),
            message_handler=on_message,
            client_info=types.Implementation(name="cordboard", version=__version__),
        ) as session,
    ):
        relayed_to = transport.relayed_to if isinstance(transport, Relay) else ""
        if relayed_to:  # the other engine negotiates with the server
            negotiation = Negotiation("legacy")
        try:
            async with asyncio.timeout(timeout):
                await (negotiation or Negotiation()).run(session)
        except _FAILURES as error:
            failure = explain(error)
        else:
            listening = asyncio.create_task(_listen(session, list_changed))
            try:
                yield Connection(session, router, list_changed, relayed_to)
            except McpError as error:
                failure = error
            finally:
                listening.cancel()
                await asyncio.wait({listening})
    if failure is not None:  # raised out here: the SDK would wrap it in an exception group
        raise failure


def _router(
    read: MemoryObjectReceiveStream[SessionMessage | Exception],
    write: MemoryObjectSendStream[SessionMessage],
    log_of_messages: MessageLog | None,
) -> ListingRouter:
    if log_of_messages is None:
        return ListingRouter(read, write)
    return ListingRouter(_Received(read, log_of_messages), _Sent(write, log_of_messages))


class _Received:
    """A stream of messages that notes each one."""

    def __init__(
        self, stream: MemoryObjectReceiveStream[SessionMessage | Exception], kept: MessageLog
    ) -> None:
        self._stream = stream
        self._kept = kept

    async def receive(self) -> SessionMessage | Exception:
        item = await self._stream.receive()
        if isinstance(item, SessionMessage):
            self._kept.note("received", item.message)
        return item

    async def aclose(self) -> None:
        await self._stream.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class _Sent:
    """A stream for messages that notes each one."""

    def __init__(self, stream: MemoryObjectSendStream[SessionMessage], kept: MessageLog) -> None:
        self._stream = stream
        self._kept = kept

    async def send(self, item: SessionMessage) -> None:
        self._kept.note("sent", item.message)
        await self._stream.send(item)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


async def _listen(session: ClientSession, list_changed: asyncio.Event) -> None:
    """Subscribe to changes of the tools; from 2026-07-28 on, servers notify only subscribers."""
    capabilities = session.server_capabilities
    if session.discover_result is None or capabilities is None or capabilities.tools is None:
        return
    if not capabilities.tools.list_changed:
        return
    while True:
        try:
            async with asyncio.timeout(LISTEN_SECONDS) as opening:
                async with listen(session, tools_list_changed=True) as changes:
                    opening.reschedule(None)
                    async for _ in changes:
                        list_changed.set()
        except SubscriptionLost as error:
            log.info("mcp_subscription_lost", error=printable(str(error)))
        except _FAILURES as error:
            log.info("mcp_no_subscription", error=str(explain(error)))
            return
        await asyncio.sleep(LISTEN_AGAIN_SECONDS)
        list_changed.set()  # changes in the meantime are not notified again


def explain(error: Exception) -> McpError:
    """Convert any failure of the SDK to one of our errors, with a readable message."""
    if isinstance(error, McpError):
        return error
    if isinstance(error, TimeoutError):
        return McpTimeout("it did not answer in time")
    if isinstance(error, (anyio.ClosedResourceError, anyio.BrokenResourceError)):
        return McpUnavailable("the connection is closed")
    if isinstance(error, MCPError):
        if isinstance(error.error.data, McpError):
            return error.error.data  # put there by our own transport (`http_messages.lost`)
        if is_closed(error):
            return McpUnavailable("the connection was closed")
        if error.code == types.REQUEST_TIMEOUT:
            return McpTimeout("it did not answer in time")
        words = printable(error.message, MAX_QUOTED)
        return McpRefused(f"it answered with error {error.code}: {words}")
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        words = printable(f"{place}: {first['msg']}")
        return McpError(f"its answer has the wrong shape ({words})")
    return McpError(printable(str(error), MAX_QUOTED))
