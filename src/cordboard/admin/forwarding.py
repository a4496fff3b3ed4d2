"""Requests about a call of another engine: that engine carries them out.

The person is recognised here, and the permission, scope and pace are checked here; the line of the
audit here names the other node. The other engine checks permission and scope again, refuses what it
would refuse to its own people, and has a line of its own that names the person and this node. Its
answer comes back as it is. No cookie, token or password leaves this engine.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import orjson
import structlog
from starlette.responses import Response, StreamingResponse

from cordboard.admin.cluster_door import ClusterDoor, Exchange, Frame
from cordboard.admin.endpoint import Ask
from cordboard.admin.live_feed import PROTOCOL
from cordboard.admin.other_engines import Place
from cordboard.admin.sockets import SocketClosed
from cordboard.api.answers import to_json
from cordboard.errors import ClusterError, NodeGone, RequestRefused

GONE = 4503
"""Close code of a websocket whose engine is gone."""
MOST_FRAMES = 16
"""Frames of a call that wait for a viewer."""
SENT = ("content-type", "idempotency-key", "if-none-match", "range", "if-range")
"""Headers of a request that the other engine gets."""
_PREFIX = b'{"id":1,'

log = structlog.get_logger()


def fields_of(ask: Ask) -> dict[str, Any]:
    """Return the fields of a request on behalf of a caller."""
    who = ask.who
    return {
        "request": ask.request,
        "who": who.name,
        "role": who.role,
        "holder": who.holder,
        "client": ask.arrival.client,
        "permissions": tuple(sorted(map(str, who.rights.permissions))),
        "scopes": tuple(to_json(scope).decode() for scope in who.rights.scopes),
    }


async def answer_of(ask: Ask, path: str, query: str) -> Response:
    """Return the other engine's answer to a request. Raises `RequestRefused` 503."""
    place, door = _place(ask), _door(ask)
    body = ask.body.model_dump_json().encode() if ask.body is not None else b""
    headers = {name: ask.headers[name] for name in SENT if name in ask.headers}
    if body:
        headers["content-type"] = "application/json"
    fields = {
        **fields_of(ask),
        "method": ask.method,
        "path": path,
        "query": query,
        "headers": headers,
        "body": body,
    }
    exchange = await _begun(door, place, fields)
    try:
        start = await _received(exchange, place)
        if start.type != "start":
            raise _gone(place, start.reason)
        first = await _received(exchange, place)
        if first.type != "body":
            raise _gone(place, first.reason)
    except BaseException:
        await door.end(exchange)
        raise
    given = dict(start.headers)
    if not first.more:
        await door.end(exchange)
        return Response(first.content, start.code, given)
    return StreamingResponse(_rest(door, exchange, first), start.code, given)


def why_refused(answer: Response) -> str:
    """Return the sentence of an answer that is a refusal."""
    content = b"" if isinstance(answer, StreamingResponse) else bytes(answer.body)
    return str(_refusal(answer.status_code, content))


async def _rest(door: ClusterDoor, exchange: Exchange, frame: Frame) -> AsyncIterator[bytes]:
    """Yield the pieces of a long answer. Raises `NodeGone`, which cuts the connection."""
    try:
        yield frame.content
        while frame.more:
            frame = await exchange.receive()
            if frame.type != "body":
                raise NodeGone(frame.reason or "the answer was cut")
            yield frame.content
    finally:
        await door.end(exchange)


class Bridge:
    """A websocket of a person here, connected with one of the other engine. Use once: `open`,
    `run`, `close`."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._door = _door(ask)
        self._exchange: Exchange | None = None

    async def open(self, path: str, query: str, protocols: list[str]) -> None:
        """Open the other engine's. Raises `RequestRefused` with its refusal."""
        ask, place = self._ask, _place(self._ask)
        fields = {
            **fields_of(ask),
            "method": "GET",
            "path": path,
            "query": query,
            "websocket": True,
            "protocols": tuple(protocols),
        }
        self._exchange = exchange = await _begun(self._door, place, fields)
        first = await _received(exchange, place)
        if first.type == "start":
            raise _refusal(first.code, (await _received(exchange, place)).content)
        if first.type != "accept":
            raise _gone(place, first.reason)

    async def run(self) -> None:
        """Pass frames on, until either side ends."""
        exchange, socket = self._opened, self._ask.socket
        outward = asyncio.create_task(self._send_all(exchange), name="forwarded-socket")
        try:
            while (frame := await exchange.receive()).type != "end":
                await socket.send(frame.content if frame.type == "bytes" else _text(frame))
            socket.end(frame.code or 1000, frame.reason)
        except NodeGone as error:
            socket.end(GONE, f"the engine that has the call: {error}")
        finally:
            outward.cancel()
        await asyncio.sleep(0)  # `end` cancels this task

    async def close(self) -> None:
        """Close the other engine's. Idempotent."""
        if self._exchange is not None:
            await self._door.end(self._exchange)

    async def _send_all(self, exchange: Exchange) -> None:
        """Pass on what the client sends, until it is gone."""
        socket = self._ask.socket
        try:
            while True:
                content = await socket.receive()
                if isinstance(content, str):
                    await exchange.send("text", content.encode())
                else:
                    await exchange.send("bytes", content)
        except NodeGone:
            return  # `run` has the reason
        except SocketClosed:
            socket.end(1000, "")

    @property
    def _opened(self) -> Exchange:
        if self._exchange is None:
            raise RuntimeError("not opened")
        return self._exchange


class Relay:
    """Topic `call` of another engine's call: its frames as they are, which it makes for the rights
    of this viewer. A `cordboard.admin.live_topics.Topic`."""

    def __init__(
        self, ask: Ask, place: Place, subscribe: Mapping[str, Any], wake: Callable[[], None]
    ) -> None:
        """`wake` is called when there is a frame."""
        self.over = False
        self._place = place
        self._door = _door(ask)
        self._fields = fields_of(ask)
        self._subscribe = to_json({**subscribe, "id": 1, "op": "subscribe"})
        self._waiting: deque[bytes] = deque()
        self._room = asyncio.Event()
        self._room.set()
        self._last: bytes | None = None
        self._wake = wake
        self._internal_error = ask.services.internal_error
        self._task = asyncio.create_task(self._run(), name="relayed-call")

    async def next(self) -> bytes | None:
        """See `Topic`."""
        if self._waiting:
            inside = self._waiting.popleft()
            self._room.set()
            return inside
        if self._last is None or self.over:
            return None
        self.over = True
        return self._last

    def close(self) -> None:
        """Stop following the call."""
        self._task.cancel()

    async def _run(self) -> None:
        """Border of its task."""
        try:
            self._last = await self._follow()
        except ClusterError as error:
            reason = {"code": "node_gone", "message": f"the engine that has the call: {error}"}
            self._last = b'"error":%b' % to_json(reason)
        except Exception as error:  # task border
            log.exception("call_not_relayed", error=repr(error))
            self._internal_error("live")
            reason = {"code": "internal", "message": "an error of the engine"}
            self._last = b'"error":%b' % to_json(reason)
        self._wake()

    async def _follow(self) -> bytes | None:
        """Take the frames until the call is over. Raises `ClusterError`."""
        fields = {
            **self._fields,
            "method": "GET",
            "path": "/live",
            "websocket": True,
            "protocols": (PROTOCOL,),
        }
        exchange = await self._door.begin(self._place.instance, fields)
        try:
            await exchange.send("text", self._subscribe)
            while True:
                frame = await exchange.receive()
                if frame.type in ("end", "start"):
                    raise NodeGone(frame.reason or "it shows the call no more")
                if frame.type != "text" or not frame.content.startswith(_PREFIX):
                    continue
                inside = frame.content[len(_PREFIX) : -1]
                if inside.startswith(b'"error":'):  # such as for a call that has just ended
                    return inside
                await self._room.wait()
                self._waiting.append(inside)
                if len(self._waiting) >= MOST_FRAMES:
                    self._room.clear()
                self._wake()
                if b'"over":true' in frame.content[-20:]:
                    return b'"over":true'
        finally:
            await self._door.end(exchange)


def _place(ask: Ask) -> Place:
    if ask.elsewhere is None:
        raise RuntimeError(f"{ask.endpoint.path} is about no call of another engine")
    return ask.elsewhere


def _door(ask: Ask) -> ClusterDoor:
    others = ask.services.others
    if others is None:
        raise RuntimeError("this engine is alone")
    return others.door


async def _begun(door: ClusterDoor, place: Place, fields: Mapping[str, Any]) -> Exchange:
    try:
        return await door.begin(place.instance, fields)
    except ClusterError as error:
        raise _gone(place, str(error)) from None


async def _received(exchange: Exchange, place: Place) -> Frame:
    try:
        return await exchange.receive()
    except NodeGone as error:
        raise _gone(place, str(error)) from None


def _gone(place: Place, why: str) -> RequestRefused:
    message = f"the call is on node {place.node}, which does not answer ({why or 'it is gone'})"
    return RequestRefused(503, "node_gone", message, headers={"Retry-After": "2"})


def _refusal(status: int, content: bytes) -> RequestRefused:
    """Return another engine's refusal as our own."""
    try:
        error = orjson.loads(content)["error"]
        at: list[dict[str, object]] = list(error["at"])
        return RequestRefused(status, str(error["code"]), str(error["message"]), at=at)
    except (ValueError, KeyError, TypeError):
        return RequestRefused(status, "refused", "the engine that has the call has refused it")


def _text(frame: Frame) -> str:
    return frame.content.decode("utf-8", "replace")
