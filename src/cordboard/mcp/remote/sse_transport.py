"""The HTTP transport of 2024-11-05 under the official SDK's session, for old servers.

One event stream carries everything; its first event, `endpoint`, gives the URL to POST to, which
must be of the server's own origin. The connection lives as long as the stream: when the stream
ends, all waiting requests fail at once, `closed` is set, and supervision reconnects. (The SDK's own
transport caps an event at 1 MiB, raises a broken stream as an exception group, and stops sending
for good after one failed POST; mcp 2.3.0, client/sse.py.)
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import httpx2
import mcp_types as types
from mcp.shared.message import SessionMessage

from cordboard.errors import McpError, McpUnavailable
from cordboard.mcp.encoding import encoded
from cordboard.mcp.remote.http_channel import Channel, read_body, status_error
from cordboard.mcp.remote.http_events import EVENT_STREAM, EventReader
from cordboard.mcp.remote.http_guard import within
from cordboard.mcp.remote.http_messages import claimed_id, is_answer, lost, read_any, with_id
from cordboard.mcp.remote.remote_transport import TELL_SECONDS, RemoteTransport

MAX_REPLY_BYTES = 64 * 1024
"""Limit for the body of the response to a POST, which is discarded."""


class SseTransport(RemoteTransport):
    """One connection to a server of 2024-11-05."""

    def __init__(self, server: str, channel: Channel, stop_grace: float = 2.0) -> None:
        super().__init__(server, channel, stop_grace)
        self._endpoint: httpx2.URL | None = None
        self._endpoint_known = asyncio.Event()
        self._pending: dict[str, types.RequestId] = {}
        self._tool_calls: set[int] = set()
        self._failure: McpError = McpUnavailable("it closed its stream of events")

    def _begin(self) -> None:
        self._spawn(self._listen())

    async def _send(self, message: types.JSONRPCMessage, headers: Mapping[str, str]) -> None:
        if isinstance(message, types.JSONRPCRequest):
            if self.closed.is_set():
                await self._deliver(lost(message.id, self._failure))
                return
            self._pending[str(message.id)] = message.id
            if message.method == "tools/call" and isinstance(message.id, int):
                self._tool_calls.add(message.id)
            self._spawn(self._post(message, headers), message.id)
        elif isinstance(message, types.JSONRPCNotification):
            if message.method == "notifications/cancelled":
                self._settle((message.params or {}).get("requestId"))
            work = self._post(message, headers)
            if message.method == "notifications/initialized":
                await self._run(work, None)  # in order
            else:
                self._spawn(work)
        elif not self._is_flooded():
            self._spawn(self._post(message, headers))

    async def _post(self, message: types.JSONRPCMessage, headers: Mapping[str, str]) -> None:
        await self._endpoint_known.wait()
        if self._endpoint is None:
            return  # the stream is over; waiting requests have already failed
        sent = {**headers, "content-type": "application/json"}
        try:
            async with (
                asyncio.timeout(TELL_SECONDS),
                self._channel.request(
                    "POST", sent, encoded(message), url=self._endpoint
                ) as response,
            ):
                if not response.is_success:
                    raise status_error(response.status_code)
                await read_body(response, MAX_REPLY_BYTES)  # keeps the connection alive
        except TimeoutError as error:
            raise McpUnavailable("it did not accept a message in time") from error

    def _settle(self, request_id: object) -> types.RequestId | None:
        """Stop waiting for an answer. Return the request's own id, or None if it was not
        waiting."""
        own = self._pending.pop(str(request_id), None)
        if isinstance(own, int):
            self._tool_calls.discard(own)
        return own

    async def _failed(self, request: types.RequestId | None, error: McpError) -> None:
        if request is not None and self._settle(request) is None:
            return  # already answered over the stream
        await super()._failed(request, error)

    async def _listen(self) -> None:
        """Deliver the messages of the stream until it ends."""
        try:
            async with self._channel.request(
                "GET", {"accept": EVENT_STREAM}, patient=True
            ) as response:
                if response.status_code != 200:
                    raise status_error(response.status_code)
                async for event in EventReader().read(response):
                    await self._take(event)
        except McpError as error:
            self._failure = error
        finally:
            await self._over()

    async def _take(self, event: httpx2.ServerSentEvent) -> None:
        if event.event == "endpoint" and self._endpoint is None:
            self._endpoint = within(self._channel.url, event.data.strip())
            self._endpoint_known.set()
        elif event.event == "message" and event.data:
            try:
                message = await read_any(event.data, self._tool_calls)
            except McpError as error:  # loses this event, not the stream
                await self._failed(self._pending.get(claimed_id(event.data)), error)
                return
            if message is None:
                return
            if is_answer(message):
                request_id = self._settle(getattr(message, "id", None))
                if request_id is None:
                    return  # answers no request
                message = with_id(message, request_id)
            await self._deliver(SessionMessage(message))

    async def _over(self) -> None:
        self._end(str(self._failure).removeprefix("it "))
        self._endpoint = None
        self._endpoint_known.set()
        while self._pending:
            _, request_id = self._pending.popitem()
            await self._deliver(lost(request_id, self._failure))
