"""Streamable HTTP under the official SDK's session: the protocol of 2026-07-28 and earlier ones.

Every message is a POST; its answer is a JSON body or an event stream, which is resumed where it
broke if the server numbers its events. Before 2026-07-28 a server may assign a session id, and then
offers a second stream for the messages that it sends unasked. Cancelling a request notifies the
server (by a notification; from 2026-07-28 on, by ending the POST) and drops the request.

The SDK's own transport is destroyed, with its owner task, by the first broken connection, hangs
behind a notification that the server does not accept, and logs what servers send (mcp 2.3.0,
client/streamable_http.py, measured). Here a broken connection fails only that one request. The
connection ends only when the server no longer knows the session: then `closed` is set, and
supervision reconnects.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass

import httpx2
import mcp_types as types
from mcp.shared.message import SessionMessage
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from cordboard.config.mcp import McpServer
from cordboard.errors import McpError, McpUnavailable
from cordboard.mcp.encoding import encoded
from cordboard.mcp.remote.auth import credentials
from cordboard.mcp.remote.http_channel import Channel, content_type, read_body, status_error
from cordboard.mcp.remote.http_events import EVENT_STREAM, EventReader
from cordboard.mcp.remote.http_messages import (
    answers,
    checked_answer,
    is_answer,
    read_any,
    read_refusal,
    with_id,
)
from cordboard.mcp.remote.remote_transport import TELL_SECONDS, RemoteTransport
from cordboard.mcp.remote.sse_transport import SseTransport
from cordboard.net.backoff import Backoff

JSON = "application/json"
LISTEN = "subscriptions/listen"
"""A request of 2026-07-28; its answer is a stream that may be silent for hours."""
MAX_ERROR_BYTES = 64 * 1024
MAX_SESSION_ID = 1_024
RESUME_ATTEMPTS = 2
"""Consecutive attempts without any event to resume a broken answer."""
MAX_LISTEN_PAUSE = 30.0

SESSION_ID = "mcp-session-id"
PROTOCOL_VERSION = "mcp-protocol-version"
LAST_EVENT_ID = "last-event-id"


@dataclass(frozen=True, slots=True)
class _Exchange:
    task: asyncio.Task[None]
    modern: bool
    """True if it began under a revision where ending the POST cancels the request."""


class HttpTransport(RemoteTransport):
    """One connection to a streamable HTTP server."""

    def __init__(self, server: str, channel: Channel, stop_grace: float = 2.0) -> None:
        super().__init__(server, channel, stop_grace)
        self._session_id = ""
        self._version = ""
        self._exchanges: dict[types.RequestId, _Exchange] = {}

    @property
    def _is_modern(self) -> bool:
        return self._version in MODERN_PROTOCOL_VERSIONS

    async def _send(self, message: types.JSONRPCMessage, headers: Mapping[str, str]) -> None:
        lowered = {name.lower(): value for name, value in headers.items()}
        if isinstance(message, types.JSONRPCRequest):
            # The handshake negotiates: it must not name the version an earlier probe proposed.
            known = "" if message.method == "initialize" else self._version
            self._version = lowered.get(PROTOCOL_VERSION, known)
            task = self._spawn(self._ask(message, self._headers(lowered)), message.id)
            self._exchanges[message.id] = _Exchange(task, self._is_modern)
            task.add_done_callback(lambda done: self._forget(message.id, done))
            return
        if isinstance(message, types.JSONRPCNotification):
            if message.method == "notifications/cancelled":
                self._cancel(message, self._headers(lowered))
                return
            if message.method == "notifications/initialized":
                await self._run(self._tell(message, self._headers(lowered)), None)  # in order
                if self._session_id:
                    self._spawn(self._listen())
                return
        if not self._is_flooded():
            self._spawn(self._tell(message, self._headers(lowered)))

    def _headers(self, given: Mapping[str, str] | None = None) -> dict[str, str]:
        headers = {"accept": f"{JSON}, {EVENT_STREAM}", "content-type": JSON}
        if self._session_id:
            headers[SESSION_ID] = self._session_id
        if self._version:
            headers[PROTOCOL_VERSION] = self._version
        return headers | dict(given or {})

    def _forget(self, request_id: types.RequestId, task: asyncio.Task[None]) -> None:
        exchange = self._exchanges.get(request_id)
        if exchange is not None and exchange.task is task:
            del self._exchanges[request_id]

    def _cancel(self, message: types.JSONRPCNotification, headers: dict[str, str]) -> None:
        request_id = (message.params or {}).get("requestId")
        exchange = self._exchanges.get(request_id) if isinstance(request_id, (int, str)) else None
        modern = exchange.modern if exchange is not None else self._is_modern
        if exchange is not None:
            exchange.task.cancel()
        if not modern and not self._is_flooded():
            self._spawn(self._tell(message, headers))

    async def _ask(self, request: types.JSONRPCRequest, headers: dict[str, str]) -> None:
        """POST a request and deliver its answer. Raises `McpError`."""
        events = EventReader()
        calls = _tool_calls(request)
        patient = request.method == LISTEN
        async with self._channel.request(
            "POST", headers, encoded(request), patient=patient
        ) as response:
            if response.status_code != 200:
                await self._deliver_refusal(response, request)
                return
            if request.method == "initialize":
                self._note_session(response)
            if content_type(response) == JSON:
                message = await read_any(await read_body(response), calls)
                await self._deliver(SessionMessage(checked_answer(message, request.id)))
                return
            if content_type(response) != EVENT_STREAM:
                kind = content_type(response) or "nothing"
                raise McpError(f"it answered with {kind} in place of JSON")
            if await self._follow(response, events, request.id, calls):
                return
        await self._resume(events, request.id, calls)

    def _note_session(self, response: httpx2.Response) -> None:
        session_id = response.headers.get(SESSION_ID, "")
        if session_id.isascii() and session_id.isprintable() and len(session_id) <= MAX_SESSION_ID:
            self._session_id = session_id

    async def _deliver_refusal(
        self, response: httpx2.Response, request: types.JSONRPCRequest
    ) -> None:
        """Deliver the JSON-RPC error in the body. Raises `McpError` if there is none."""
        status = response.status_code
        message: types.JSONRPCMessage | None = None
        if content_type(response) == JSON:
            with suppress(McpError):
                body = await read_body(response, MAX_ERROR_BYTES)
                message = checked_answer(read_refusal(body), request.id)
        if not isinstance(message, types.JSONRPCError):
            message = None
        if self._is_session_lost(status, message):
            self._end("no longer knows our session")
            raise McpUnavailable("it no longer knows our session")
        if message is not None:
            await self._deliver(SessionMessage(message))
        elif 200 <= status < 300:
            raise McpError(f"it accepted the request but gave no answer (HTTP {status})")
        else:
            raise status_error(status)

    def _is_session_lost(self, status: int, error: types.JSONRPCError | None = None) -> bool:
        """True if the session is gone: 404 by the specification; some servers send 400 and a
        text."""
        if not self._session_id:
            return False
        words = error.error.message.lower() if error is not None else ""
        return status == 404 or (status == 400 and "session" in words)

    async def _follow(
        self,
        response: httpx2.Response,
        events: EventReader,
        request_id: types.RequestId,
        calls: Set[int],
    ) -> bool:
        """Deliver the messages of a stream. Return True if the answer was among them.

        Also return False for a broken stream that can be resumed. Raises `McpError`.
        """
        try:
            async for event in events.read(response):
                if event.event != "message" or not event.data:
                    continue
                message = await read_any(event.data, calls)
                if message is None:
                    continue
                if not is_answer(message):
                    await self._deliver(SessionMessage(message))
                elif answers(message, request_id):
                    await self._deliver(SessionMessage(with_id(message, request_id)))
                    return True
        except McpUnavailable:
            if not events.last_id:
                raise
        return False

    async def _resume(
        self, events: EventReader, request_id: types.RequestId, calls: Set[int]
    ) -> None:
        """Resume a broken answer, after the pause that the server requested."""
        attempts = 0
        while events.last_id and attempts < RESUME_ATTEMPTS:
            await asyncio.sleep(events.retry)
            before = events.count
            headers = {**self._headers(), "accept": EVENT_STREAM, LAST_EVENT_ID: events.last_id}
            with suppress(McpUnavailable):
                async with self._channel.request("GET", headers) as response:
                    if response.status_code != 200:
                        raise status_error(response.status_code)
                    if await self._follow(response, events, request_id, calls):
                        return
            attempts = 0 if events.count > before else attempts + 1
        raise McpUnavailable("it ended its answer too early")

    async def _tell(self, message: types.JSONRPCMessage, headers: dict[str, str]) -> None:
        """POST a message that needs no answer. Raises `McpError`."""
        try:
            async with (
                asyncio.timeout(TELL_SECONDS),
                self._channel.request("POST", headers, encoded(message)) as response,
            ):
                if self._is_session_lost(response.status_code):
                    self._end("no longer knows our session")
                elif not response.is_success:
                    raise status_error(response.status_code)
                if content_type(response) != EVENT_STREAM:
                    await read_body(response, MAX_ERROR_BYTES)  # keeps the connection alive
        except TimeoutError as error:
            raise McpUnavailable("it did not accept a message in time") from error

    async def _listen(self) -> None:
        """Deliver the messages that the server sends unasked; reconnect as often as needed.

        Failures here do not affect calls: after a pause it tries again; it stops if the server
        refuses.
        """
        events = EventReader()
        failures = 0
        while not self.closed.is_set():
            headers = {**self._headers(), "accept": EVENT_STREAM}
            if events.last_id:
                headers[LAST_EVENT_ID] = events.last_id
            before = events.count
            try:
                async with self._channel.request("GET", headers, patient=True) as response:
                    if self._is_session_lost(response.status_code):
                        self._end("no longer knows our session")
                        return
                    if 400 <= response.status_code < 500:
                        return  # 405: the server sends nothing unasked
                    if response.status_code != 200:
                        raise status_error(response.status_code)
                    async for event in events.read(response):
                        if event.event == "message" and event.data:
                            await self._hear(event.data)
            except McpError:
                pass
            failures = 0 if events.count > before else failures + 1
            await asyncio.sleep(Backoff(events.retry, MAX_LISTEN_PAUSE).pause(failures))

    async def _hear(self, text: str) -> None:
        """Deliver one unasked message; unreadable ones are dropped."""
        with suppress(McpError):
            message = await read_any(text)
            if message is not None and not is_answer(message):
                await self._deliver(SessionMessage(message))

    async def _say_farewell(self) -> None:
        if self._session_id and not self._is_over:
            async with self._channel.request("DELETE", self._headers()):
                pass  # 405: the server ends sessions by itself


def _tool_calls(request: types.JSONRPCRequest) -> Set[int]:
    """Return the request's id as a set if it is a tool call, otherwise an empty set."""
    if request.method == "tools/call" and isinstance(request.id, int):
        return {request.id}
    return set()


def remote_transport(
    server_id: str, config: McpServer, hide: Callable[[str], None] = lambda token: None
) -> RemoteTransport:
    """Make the transport of a server's configuration (`http` or `sse`).

    `hide` is called with each fetched token before it is used.
    """
    url = config.url or ""  # the schema requires it
    channel = Channel(
        url,
        plain_http=config.plain_http,
        headers={name: value.get_secret_value() for name, value in config.headers.items()},
        credentials=credentials(config.auth, url, config.plain_http, hide),
    )
    kind = SseTransport if config.transport == "sse" else HttpTransport
    return kind(server_id, channel, config.stop_grace_ms / 1000)
