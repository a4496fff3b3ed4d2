"""Tool calls to the engine that runs an MCP server for the cluster, by request and reply.

    request  <cluster>.mcp.<server>.call    `ServerRequest`; `cancel` gets no answer
    answer                                  `ServerAnswer`

`Relay` is the side of an engine that has no process of the server: the streams of a transport,
below the session of the MCP SDK, so that everything above is as with a process. It answers the
handshake itself, and relays `tools/list` and `tools/call`; nothing else of MCP passes. `ServerDesk`
is the side of the engine that runs it. A request is sent once and never again; one that gets no
answer may have been carried out.

Without a seal access to the bus is the permission: each client that may publish there may call
every tool. With one, what is not encrypted is refused. A recorded request is refused, too, without
regard to any clock: it names the life of the server that it is for, and each relay numbers its own.
A recorded answer belongs to no later request.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import math
import secrets
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

import orjson
import structlog

from cordboard.cluster.nats_connection import NO_RESPONDERS, NatsConnection, NatsLink
from cordboard.cluster.sealed_bus import BusSeal
from cordboard.cluster.wire import (
    MOST_BYTES,
    ServerAnswer,
    ServerRequest,
    decode_server_answer,
    decode_server_request,
    encode_server_answer,
    encode_server_request,
)
from cordboard.errors import (
    BusAway,
    McpError,
    McpRefused,
    McpTimeout,
    McpUnavailable,
    WireUnreadable,
)
from cordboard.mcp.supervision.server import SupervisedServer
from cordboard.mcp.supervision.status import ServerState

if TYPE_CHECKING:  # the SDK is loaded later: `cordboard.mcp.sdk`
    import mcp_types as types
    from nats.aio.msg import Msg

    from cordboard.mcp.connection import Streams

log = structlog.get_logger()

LIST_SECONDS = 10.0
LIMIT_MARGIN = 0.05
"""Part of a call's timeout by which it is shorter at the engine that runs the server, at most
`MOST_MARGIN`: so its supervision counts the timeout before the caller's cancellation arrives."""
MOST_MARGIN = 0.1
SPARE_SECONDS = 1.0
MOST_CALLS = 100
"""Calls of other engines that run at a time in one server."""
RETRY_SECONDS = 0.2
WINDOW = 1_024
"""Requests of one relay that may overtake an earlier one on their way."""
MOST_DIGITS = 18
"""Of a request's number."""
_KINDS: dict[str, type[McpError]] = {
    "timeout": McpTimeout,
    "unavailable": McpUnavailable,
    "refused": McpRefused,
    "error": McpError,
}


class RelayLine:
    """The way to the engine that runs a server."""

    def __init__(
        self, connection: NatsConnection, cluster: str, server: str, seal: BusSeal | None
    ) -> None:
        """`seal` encrypts what passes; None: nothing does."""
        self._connection = connection
        self.subject = f"{cluster}.mcp.{server}.call"
        self._about = f"mcp {server}"
        self._seal = seal

    async def ask(self, request: ServerRequest, seconds: float) -> bytes:
        """Send a request, once, and return the JSON of its result. Raises `McpError`: one of the
        engine that runs the server, or `McpUnavailable` if none answers."""
        data = self._sealed(encode_server_request(request))
        if len(data) > MOST_BYTES:
            raise McpRefused(f"its arguments are longer than the {MOST_BYTES} bytes of a message")
        try:
            message = await self._connection.ask(self.subject, data, seconds=seconds)
            if (message.headers or {}).get("Status") == NO_RESPONDERS:
                raise McpUnavailable("no engine of the cluster runs it now")
            answer = decode_server_answer(self._opened(message.data))
            if answer.request_id not in ("", request.request_id):
                raise WireUnreadable("mcp_answer: to another request")
        except BusAway as error:
            raise McpUnavailable(f"the cluster's bus is away: {error}") from None
        except WireUnreadable as error:
            raise McpError(f"the answer by the cluster's bus cannot be read: {error}") from None
        if answer.outcome == "result":
            return answer.result
        raise _KINDS.get(answer.outcome, McpError)(answer.words)

    async def tell(self, request: ServerRequest) -> None:
        """Send a request that gets no answer, if the bus is there."""
        link = self._connection.current
        if link is not None:
            with contextlib.suppress(BusAway):
                await link.answer(self.subject, self._sealed(encode_server_request(request)))

    async def serve(
        self, take: Callable[[ServerRequest, str, NatsLink], None], serving: asyncio.Event
    ) -> NoReturn:
        """Take requests until cancelled; `serving` is set while some may arrive. `take` gets the
        address of the answer, and the connection."""
        while True:
            link = await self._connection.link()
            try:
                async with link.inbox(self.subject) as (_, arrived):
                    await link.settle()
                    serving.set()
                    while (message := await arrived.get()) is not None:
                        self._read(message, link, take)
            except BusAway as error:
                log.debug("mcp_relay_interrupted", error=str(error))
            finally:
                serving.clear()
            await asyncio.sleep(RETRY_SECONDS)

    async def answer(self, link: NatsLink, address: str, answer: ServerAnswer) -> None:
        """Send an answer, unless the bus is away: its caller has got an error by then."""
        data = self._sealed(encode_server_answer(answer))
        most = min(MOST_BYTES, link.most_bytes)
        if len(data) > most:
            words = f"its answer is longer than the {most} bytes that the cluster's bus carries"
            answer = replace(answer, outcome="refused", words=words, result=b"")
            data = self._sealed(encode_server_answer(answer))
        try:
            await link.answer(address, data)
        except BusAway as error:
            log.debug("mcp_answer_not_sent", error=str(error))

    def _read(
        self,
        message: Msg,
        link: NatsLink,
        take: Callable[[ServerRequest, str, NatsLink], None],
    ) -> None:
        try:
            request = decode_server_request(self._opened(message.data))
        except WireUnreadable as error:
            log.warning("mcp_request_unreadable", subject=self.subject, error=str(error))
            return
        take(request, message.reply, link)

    def _sealed(self, data: bytes) -> bytes:
        return data if self._seal is None else self._seal.seal(self._about, data)

    def _opened(self, data: bytes) -> bytes:
        return data if self._seal is None else self._seal.open_sealed(self._about, data)


class Relay:
    """One connection to the engine that runs a server. `open`, then `close`."""

    def __init__(
        self,
        line: RelayLine,
        life: str,
        hidden: Callable[[], Iterable[str]],
        failed: Callable[[BaseException], None],
    ) -> None:
        """`life` is the life of the server; `hidden` are values that operators must not see;
        `failed` is called for a bug."""
        self._line = line
        self._life = life
        self._hidden = hidden
        self._failed = failed
        self._numbers = itertools.count(1)
        self._running: dict[object, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def open(self, instance: str) -> Streams:
        """Return the streams of a transport. `instance`: this engine, for the name of the relay,
        which never comes back, and begins the requests' ids."""
        import anyio
        from mcp.shared.message import SessionMessage

        self._name = f"{instance}-{self._life}-{secrets.token_hex(6)}"
        incoming = anyio.create_memory_object_stream[SessionMessage | Exception](math.inf)
        outgoing = anyio.create_memory_object_stream[SessionMessage](math.inf)
        self._to_session, received = incoming
        sent, self._from_session = outgoing
        self._received, self._sent = received, sent
        self._spawn(self._serve())
        return received, sent

    async def close(self) -> None:
        """Cancel what is running, at the other engine, too."""
        for stream in (self._received, self._sent):
            stream.close()
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        self._to_session.close()
        self._from_session.close()

    def tools_changed(self) -> None:
        """Have the session list the tools again."""
        import mcp_types as types

        self._give(
            types.JSONRPCNotification(jsonrpc="2.0", method="notifications/tools/list_changed")
        )

    async def _serve(self) -> None:
        import mcp_types as types

        async for item in self._from_session:
            match item.message:
                case types.JSONRPCRequest() as request:
                    self._running[request.id] = self._spawn(self._answer(request))
                case types.JSONRPCNotification(method="notifications/cancelled", params=params):
                    task = self._running.get((params or {}).get("requestId"))
                    if task is not None:
                        task.cancel()

    async def _answer(self, request: types.JSONRPCRequest) -> None:
        import mcp_types as types

        try:
            self._give(await self._answer_to(request))
        except McpError as error:
            words = types.ErrorData(code=types.INTERNAL_ERROR, message=str(error), data=error)
            self._give(types.JSONRPCError(jsonrpc="2.0", id=request.id, error=words))
        finally:
            self._running.pop(request.id, None)

    async def _answer_to(self, request: types.JSONRPCRequest) -> types.JSONRPCMessage:
        import mcp_types as types

        params = request.params or {}
        match request.method:
            case "initialize":
                result = _handshake(params)
            case "ping":
                result = {}
            case "tools/list" | "tools/call" as method:
                return await self._relayed(request.id, method, params)
            case method:
                words = f"{method} does not pass between engines"
                problem = types.ErrorData(code=types.METHOD_NOT_FOUND, message=words)
                return types.JSONRPCError(jsonrpc="2.0", id=request.id, error=problem)
        return types.JSONRPCResponse(jsonrpc="2.0", id=request.id, result=result)

    async def _relayed(
        self, number: int | str, method: str, params: dict[str, Any]
    ) -> types.JSONRPCMessage:
        from cordboard.mcp.remote.http_messages import read_any

        timeout, patience = _limits(params)
        request = self._request(method, params, timeout, patience)
        try:
            result = await self._line.ask(request, timeout + patience + SPARE_SECONDS)
        except asyncio.CancelledError:
            if method == "tools/call":
                await self._line.tell(ServerRequest(request.request_id, self._life, "cancel"))
            raise
        head = orjson.dumps({"jsonrpc": "2.0", "id": number})
        calls = (number,) if method == "tools/call" and isinstance(number, int) else ()
        message = await read_any(head[:-1] + b',"result":' + result + b"}", calls)
        if message is None or getattr(message, "id", None) != number:
            raise McpError("the answer by the cluster's bus is not a result")
        return message

    def _request(
        self, method: str, params: dict[str, Any], timeout: float, patience: float
    ) -> ServerRequest:
        request_id = f"{self._name}-{next(self._numbers)}"
        if method == "tools/list":
            return ServerRequest(request_id, self._life, method)
        arguments = _json(params.get("arguments") or {})
        shown = arguments.decode("utf-8", "replace")
        return ServerRequest(
            request_id,
            self._life,
            method,
            str(params.get("name", "")),
            round(timeout * 1000),
            round(patience * 1000),
            tuple(value for value in self._hidden() if _json(value)[1:-1].decode() in shown),
            arguments,
        )

    def _give(self, message: types.JSONRPCMessage) -> None:
        import anyio
        from mcp.shared.message import SessionMessage

        with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            self._to_session.send_nowait(SessionMessage(message))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        """A task border."""
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failed(error)


class ArrivedRequests:
    """Finds requests that have arrived before, of one life of a server. The memory of a relay is
    its newest number and one bit for each of the `WINDOW` numbers up to it."""

    def __init__(self) -> None:
        self._relays: dict[str, tuple[int, int]] = {}

    def is_new(self, request_id: str) -> bool:
        """Note a request; return False if it arrived before, or might have."""
        relay, _, text = request_id.rpartition("-")
        if len(text) > MOST_DIGITS or not text.isdecimal():
            return False
        number = int(text)
        newest, bits = self._relays.get(relay, (0, 0))
        if number > newest:
            bits = bits << min(number - newest, WINDOW) & (1 << WINDOW) - 1
            newest = number
        bit = 1 << newest - number if newest - number < WINDOW else 0
        if not bit or bits & bit:
            return False
        self._relays[relay] = newest, bits | bit
        return True


class ServerDesk:
    """Carries out the requests of other engines to one life of a server that runs here."""

    def __init__(
        self,
        line: RelayLine,
        life: str,
        server: SupervisedServer,
        holds: Callable[[], bool],
        failed: Callable[[BaseException], None],
    ) -> None:
        """`holds` returns False as soon as another engine may run the server; `failed` is called
        for a bug."""
        self._line = line
        self._life = life
        self._server = server
        self._holds = holds
        self._failed = failed
        self._running: dict[str, asyncio.Task[None]] = {}
        self._arrived = ArrivedRequests()
        self.serving = asyncio.Event()
        """Set while requests may arrive."""

    async def run(self) -> None:
        """Serve until cancelled. What is running then is cancelled, too."""
        try:
            await self._line.serve(self._take, self.serving)
        finally:
            for task in self._running.values():
                task.cancel()

    def _take(self, request: ServerRequest, address: str, link: NatsLink) -> None:
        running = self._running.get(request.request_id)
        if request.method == "cancel":
            if running is not None:
                running.cancel()
            return
        is_ours = request.life == self._life
        if running is not None or (is_ours and not self._arrived.is_new(request.request_id)):
            log.warning("mcp_request_repeated", request_id=request.request_id)
            return
        work = self._answer(request, address, link)
        task = asyncio.get_running_loop().create_task(work)
        self._running[request.request_id] = task
        task.add_done_callback(lambda done: self._ended(request.request_id, done))

    def _ended(self, request_id: str, task: asyncio.Task[None]) -> None:
        """A task border."""
        self._running.pop(request_id, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failed(error)

    async def _answer(self, request: ServerRequest, address: str, link: NatsLink) -> None:
        try:
            result = await self._result(request)
            answer = ServerAnswer("result", "", request.request_id, result)
        except McpError as error:
            kind = next(name for name, form in _KINDS.items() if isinstance(error, form))
            answer = ServerAnswer(kind, self._server.mask(str(error)), request.request_id)
        await self._line.answer(link, address, answer)

    async def _result(self, request: ServerRequest) -> bytes:
        """Return the JSON of the result. Raises `McpError`."""
        server = self._server
        if request.life != self._life or not self._holds():
            raise McpUnavailable("another engine of the cluster runs it now")
        if len(self._running) > MOST_CALLS:
            raise McpUnavailable(f"other engines have {MOST_CALLS} calls of it running")
        if request.method == "tools/list":
            if server.state is not ServerState.READY:
                raise McpUnavailable(f"the server is {server.state}")
            return await asyncio.to_thread(_listing, server)
        if request.method != "tools/call":
            raise McpRefused(f"{request.method!r} does not pass between engines")
        server.messages.hide(request.hidden)
        timeout = request.timeout_ms / 1000
        timeout -= min(MOST_MARGIN, timeout * LIMIT_MARGIN)
        result = await server.call(
            request.tool,
            _arguments(request.arguments),
            timeout,
            patience=request.patience_ms / 1000,
        )
        return await asyncio.to_thread(_as_json, result, server)


def _handshake(params: dict[str, Any]) -> dict[str, Any]:
    return {
        "protocolVersion": params.get("protocolVersion", ""),
        "capabilities": {"tools": {"listChanged": True}},
        "serverInfo": {"name": "cordboard relay", "version": "1"},
    }


def _limits(params: dict[str, Any]) -> tuple[float, float]:
    """Return a call's timeout and patience in seconds, as the connection has told them."""
    from cordboard.mcp.connection import LIMITS

    timeout, patience = (params.get("_meta") or {}).get(LIMITS, (LIST_SECONDS, 0.0))
    return float(timeout), float(patience)


def _arguments(data: bytes) -> dict[str, Any]:
    """Raises `McpRefused`."""
    try:
        found = orjson.loads(data)
    except orjson.JSONDecodeError:
        found = None
    if not isinstance(found, dict):
        raise McpRefused("its arguments are not a JSON object")
    return found


def _listing(server: SupervisedServer) -> bytes:
    """Return the tools that may be offered, cleaned. Those that are refused stay here."""
    tools = [tool for tool in server.listing if not getattr(tool, "refusal", "")]
    dumped = [tool.model_dump(by_alias=True, exclude_none=True, mode="json") for tool in tools]
    return _json({"tools": dumped})


def _as_json(result: types.CallToolResult, server: SupervisedServer) -> bytes:
    """Return a result without the server's secrets, which must not reach the bus."""
    blocks = [
        each.model_dump(by_alias=True, exclude_none=True, mode="json") for each in result.content
    ]
    found: dict[str, Any] = {"content": blocks, "isError": bool(result.is_error)}
    if result.structured_content is not None:
        found["structuredContent"] = result.structured_content
    return _json(_masked(found, server.mask))


def _masked(value: Any, mask: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, list):
        return [_masked(each, mask) for each in value]
    if isinstance(value, dict):
        return {key: _masked(each, mask) for key, each in value.items()}
    return value


def _json(value: Any) -> bytes:
    try:
        return orjson.dumps(value)
    except TypeError:  # lone surrogates, and numbers beyond 64 bits
        return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")
