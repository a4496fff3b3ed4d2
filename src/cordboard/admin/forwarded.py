"""Requests of other engines' people about our calls: through the application, as those of ours.

All checks of `cordboard.admin.application` follow, but those of a browser's way here (Host, Origin,
cookie): the other engine has made them. Only endpoints that are `forwards` in the table are served.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from starlette.types import Message
from starlette.types import Scope as AsgiScope

from cordboard.accounts.rights import Permission, Rights, Scope
from cordboard.admin.application import BASE, AdminApplication
from cordboard.admin.cluster_door import Exchange, Request
from cordboard.admin.endpoint import Caller
from cordboard.admin.guard import Arrival
from cordboard.errors import NodeGone

_PASSED = frozenset(
    {
        "accept-ranges", "cache-control", "content-disposition", "content-length", "content-range",
        "content-type", "etag", "idempotent-replayed", "retry-after",
    }
)  # fmt: skip
"""Headers of an answer that the other engine gets."""


class ForwardedRequests:
    """Serves the requests of other engines (`cluster_door.Serve`)."""

    def __init__(self, application: AdminApplication) -> None:
        self._application = application

    async def __call__(self, request: Request, exchange: Exchange) -> None:
        """Carry out one request. Raises `NodeGone` when its sender is gone."""
        talk = _Conversation(request, exchange)
        try:
            await self._application.forwarded(_scope(request), talk.receive, talk.send)
        except OSError as error:
            raise NodeGone(str(error)) from None


def _scope(request: Request) -> AsgiScope:
    """Return the request as one of ASGI."""
    known = {str(each) for each in Permission}
    permissions = frozenset(Permission(each) for each in request.permissions if each in known)
    scopes = tuple(map(_patterns, request.scopes))
    caller = Caller(
        # With the node: a person of the same name here may be another one.
        f"{request.who}@{request.node}" if request.who else f"engine:{request.sender}",
        Rights(permissions, scopes or ((),)),
        request.role,
        node=request.node,
        foreign=f"{request.node}/{request.holder}",
    )
    return {
        "type": "websocket" if request.websocket else "http",
        "method": request.method,
        "path": BASE + request.path,
        "raw_path": (BASE + request.path).encode(),
        "root_path": "",
        "query_string": request.query.encode(),
        "headers": [(name.encode(), value.encode()) for name, value in request.headers.items()],
        "subprotocols": list(request.protocols),
        "extensions": {"websocket.http.response": {}},
        "cordboard.request": request.request,
        "cordboard.arrival": Arrival(request.client, secure=True),
        "cordboard.caller": caller,
    }


def _patterns(text: str) -> Scope:
    """Return a scope; what cannot be read covers nothing."""
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError:
        return ()
    return tuple(map(str, found)) if isinstance(found, list) else ()


class _Conversation:
    """ASGI on one side, frames on the other."""

    def __init__(self, request: Request, exchange: Exchange) -> None:
        self._request = request
        self._exchange = exchange
        self._begun = False

    async def receive(self) -> Message:
        """Return what the client has sent."""
        socket = self._request.websocket
        if not self._begun:
            self._begun = True
            if socket:
                return {"type": "websocket.connect"}
            return {"type": "http.request", "body": self._request.body, "more_body": False}
        try:
            while True:
                frame = await self._exchange.receive()
                if frame.type == "text":
                    return {"type": "websocket.receive", "text": frame.content.decode()}
                if frame.type == "bytes":
                    return {"type": "websocket.receive", "bytes": frame.content}
                if frame.type == "end":
                    break
            code = frame.code or 1000
        except NodeGone:
            code = 1006
        gone = {"type": "websocket.disconnect", "code": code}
        return gone if socket else {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        """Send what the application answers. Raises `OSError` when the other engine is gone, as a
        server does when the client is."""
        try:
            await self._send(message)
        except NodeGone as error:
            raise OSError(str(error)) from None

    async def _send(self, message: Any) -> None:
        kind, exchange = message["type"], self._exchange
        if kind == "websocket.accept":
            await exchange.send("accept", reason=message.get("subprotocol") or "")
        elif kind == "websocket.send":
            text = message.get("text")
            if text is not None:
                await exchange.send("text", text.encode())
            else:
                await exchange.send("bytes", message["bytes"])
        elif kind == "websocket.close":
            await exchange.send("end", code=message["code"], reason=message.get("reason") or "")
        elif kind.endswith("http.response.start"):
            headers = _headers(message["headers"])
            await exchange.send("start", code=message["status"], headers=headers)
        elif kind.endswith("response.body"):
            more = bool(message.get("more_body"))
            await exchange.send("body", message.get("body", b""), more=more)


def _headers(given: Any) -> Mapping[str, str]:
    found = {bytes(name).decode("latin-1").lower(): bytes(value) for name, value in given}
    return {name: value.decode("latin-1") for name, value in found.items() if name in _PASSED}
