"""The common base of the transports to remote servers: session streams, tasks, teardown.

The session (the official SDK's) writes messages and reads messages; everything between is ours. The
tasks of a transport are isolated: each request is a task of its own, its failure becomes the answer
to that request, and nothing is ever raised into the owner. `closed` is set only when no further
request can succeed. Enter and leave it in one task; single use.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any

import anyio
import mcp_types as types
import structlog
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import ClientMessageMetadata, SessionMessage

from cordboard.errors import McpError, McpUnavailable
from cordboard.mcp.cancellation import see_through
from cordboard.mcp.remote.http_channel import Channel
from cordboard.mcp.remote.http_messages import lost

Incoming = SessionMessage | Exception

WRITE_BUFFER = 256
FLUSH_SECONDS = 0.2
TELL_SECONDS = 10.0
"""Timeout for the server to accept a notification."""
MAX_TASKS = 1_024
"""Maximum number of messages in flight; further replies that a server provokes are dropped."""
LOGGED_LOSSES = 5

log = structlog.get_logger()


class RemoteTransport(ABC):
    """One connection to a remote server as a pair of message streams."""

    pid: int | None = None

    def __init__(self, server: str, channel: Channel, stop_grace: float = 2.0) -> None:
        """`server` is for the log; `stop_grace` is the time limit of the farewell in seconds."""
        self._server = server
        self._channel = channel
        self._stop_grace = stop_grace
        self._tasks: set[asyncio.Task[None]] = set()
        self._entered = False
        self._is_over = False
        self._lost = 0
        self.ending = "ended the connection"
        """The end of the connection, or the last problem, in words that follow "it"."""
        self.on_internal_error: Callable[[str], None] = lambda _: None
        """Called with the place of an internal error."""
        self.closed = asyncio.Event()
        """Set when the server can no longer answer over this connection."""

    async def __aenter__(
        self,
    ) -> tuple[MemoryObjectReceiveStream[Incoming], MemoryObjectSendStream[SessionMessage]]:
        """Open the channel without waiting: an unreachable server fails the first request."""
        if self._entered:
            raise McpError("a transport serves one connection only")
        self._entered = True
        await self._channel.open()
        self._to_session, self._from_server = anyio.create_memory_object_stream[Incoming](0)
        self._to_server, from_session = anyio.create_memory_object_stream[SessionMessage](
            WRITE_BUFFER
        )
        self._writer = asyncio.create_task(self._write(from_session), name=f"mcp {self._server}")
        self._begin()
        return self._from_server, self._to_server

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Shut down; completes even if the owner is cancelled meanwhile."""
        await see_through(self._shut_down())

    async def _shut_down(self) -> None:
        self.closed.set()
        self._from_server.close()
        self._to_server.close()
        await asyncio.wait({self._writer}, timeout=FLUSH_SECONDS)
        with suppress(TimeoutError, McpError):
            async with asyncio.timeout(self._stop_grace):
                await self._say_farewell()
        tasks = [self._writer, *self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._to_session.close()
        await self._channel.close()

    def _begin(self) -> None:  # noqa: B027  (not every transport has something to start)
        """Start background tasks on entering."""

    async def _say_farewell(self) -> None:  # noqa: B027  (not every transport needs one)
        """Notify the server of the end. May raise `McpError`; the caller bounds the time."""

    @abstractmethod
    async def _send(self, message: types.JSONRPCMessage, headers: Mapping[str, str]) -> None:
        """Send a message of the session; must not wait for an answer."""

    async def _write(self, session: MemoryObjectReceiveStream[SessionMessage]) -> None:
        try:
            async with session:
                async for item in session:
                    meta = item.metadata
                    headers = meta.headers if isinstance(meta, ClientMessageMetadata) else None
                    await self._send(item.message, headers or {})
        except Exception:  # task border: without a writer no request can succeed
            log.exception("mcp_remote_crashed", server=self._server)
            self.on_internal_error("mcp_remote")
            self._end("was closed after an internal error")

    def _spawn(
        self, work: Coroutine[Any, Any, None], request: types.RequestId | None = None
    ) -> asyncio.Task[None]:
        """Run `work` as a task; its failure becomes the answer to `request`."""
        task = asyncio.create_task(self._run(work, request), name=f"mcp {self._server}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _run(self, work: Coroutine[Any, Any, None], request: types.RequestId | None) -> None:
        try:
            await work
        except McpError as error:
            await self._failed(request, error)
        except Exception as error:  # task border: isolate the other messages
            log.exception("mcp_remote_crashed", server=self._server)
            self.on_internal_error("mcp_remote")
            await self._failed(request, McpError(f"unexpected {type(error).__name__}"))

    async def _failed(self, request: types.RequestId | None, error: McpError) -> None:
        if isinstance(error, McpUnavailable):
            self.ending = str(error).removeprefix("it ")
        if request is not None:
            await self._deliver(lost(request, error))
        else:
            self._lost += 1
            if self._lost <= LOGGED_LOSSES:
                log.info("mcp_message_lost", server=self._server, error=str(error))

    async def _deliver(self, message: SessionMessage) -> None:
        """Hand a message to the session; it is dropped if the session has already left."""
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            await self._to_session.send(message)

    def _end(self, words: str) -> None:
        """Mark the connection as over; `words` follow "it"."""
        if not (self._is_over or self.closed.is_set()):
            self._is_over = True
            self.ending = words
            log.info("mcp_connection_over", server=self._server, reason=words)
            self.closed.set()

    def _is_flooded(self) -> bool:
        """True if too many messages are in flight; then only our own requests are sent."""
        if len(self._tasks) < MAX_TASKS:
            return False
        log.warning("mcp_message_dropped", server=self._server, pending=len(self._tasks))
        return True
