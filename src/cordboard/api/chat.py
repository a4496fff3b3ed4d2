"""Written conversations over HTTP.

    POST   /chat                {message?, context?, model?, variables?, session_id?} → events
    GET    /chat/{session_id}   its transcript and tool calls
    DELETE /chat/{session_id}   end it

All of them need the admin token. `POST` answers `text/event-stream`: one `event:` and one line of
JSON (`data:`) for each `ChatEvent` (`cordboard.chat.answer`), and a comment every 15 s without an
event. An error before the first event is an HTTP status with `{"error": ...}`; a later one is an
event `error`. If the client disconnects, the answer is given up.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, TypeAlias

import structlog
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from cordboard.api.answers import JsonAnswer, fields, json_body, to_json
from cordboard.api.gate import HttpLimits
from cordboard.api.token_check import TokenCheck
from cordboard.chat.answer import Answer, ChatEvent
from cordboard.chat.session import ChatSession
from cordboard.chat.sessions import ChatSessions
from cordboard.errors import ChatRefused

HEARTBEAT = b": still here\n\n"
MOST_BYTES = 512 * 1024
"""Bytes of a body; a message has a limit of its own (`chat.max_message_chars`)."""
_STATUS = {
    "off": 404,
    "unknown_context": 404,
    "unknown_model": 404,
    "unknown_session": 404,
    "bad_variable": 400,
    "busy": 409,
    "too_long": 413,
    "full": 429,
    "stopping": 503,
    "not_ready": 503,
}

Handler: TypeAlias = Callable[[Request], Awaitable[Response]]

log = structlog.get_logger()


class ChatEndpoints:
    """The routes of this module, over the conversations of one engine."""

    def __init__(self, sessions: ChatSessions, check: TokenCheck, limits: HttpLimits) -> None:
        self._sessions = sessions
        self._limits = limits
        self._check = check

    def routes(self) -> list[Route]:
        """Return the routes for the application."""
        one = "/chat/{session_id}"
        return [
            Route("/chat", self._guarded(self._post), methods=["POST"]),
            Route(one, self._guarded(self._get), methods=["GET"]),
            Route(one, self._guarded(self._delete), methods=["DELETE"]),
        ]

    def _guarded(self, handler: Handler) -> Handler:
        async def guarded(request: Request) -> Response:
            if refusal := self._check.refusal(request):
                return refusal
            try:
                return await handler(request)
            except ChatRefused as error:
                raise http_refusal(error) from None

        return guarded

    async def _post(self, request: Request) -> Response:
        said = fields(
            await json_body(request, MOST_BYTES, self._limits.body_seconds),
            context=str,
            message=str,
            model=str,
            session_id=str,
            variables=dict,
        )
        message = said.get("message")
        if message is not None and not message.strip():
            raise HTTPException(400, "message: it is empty")
        if session_id := said.get("session_id"):
            answer = self._go_on(session_id, said)
        else:
            answer = self._begin(said)
        return StreamingResponse(
            stream(answer, self._limits.heartbeat_seconds),
            media_type="text/event-stream",
            headers={"X-Accel-Buffering": "no"},
        )

    def _begin(self, said: Mapping[str, Any]) -> Answer:
        given: dict[str, str] = {}
        for name, value in said.get("variables", {}).items():
            if not isinstance(value, str):
                raise HTTPException(400, f"variables.{name[:64]}: expected a text")
            given[name] = value
        context, message, model = (said.get(name) for name in ("context", "message", "model"))
        return self._sessions.begin(context, message, given, model)[1]

    def _go_on(self, session_id: str, said: Mapping[str, Any]) -> Answer:
        session: ChatSession = self._sessions.find(session_id)
        if said.get("context", session.context_name) != session.context_name:
            raise HTTPException(400, f"context: this conversation is with {session.context_name}")
        if "variables" in said:
            raise HTTPException(400, "variables: they are given when a conversation begins")
        if said.get("model", session.model) not in (session.model, session.provider_name):
            raise HTTPException(400, f"model: this conversation is with {session.model}")
        if "message" not in said:
            raise HTTPException(400, "message: expected a text")
        return session.take(said["message"])

    async def _get(self, request: Request) -> Response:
        found = await self._sessions.transcript(request.path_params["session_id"])
        return JsonAnswer(await asyncio.to_thread(to_json, found))

    async def _delete(self, request: Request) -> Response:
        session = self._sessions.find(request.path_params["session_id"])
        await session.end("completed", "caller_hangup")
        return JsonAnswer({"session_id": session.session_id, "state": "ended"})


def http_refusal(error: ChatRefused) -> HTTPException:
    """Return the HTTP status of a refusal."""
    headers = {"Retry-After": "5"} if error.reason in ("full", "busy", "not_ready") else None
    return HTTPException(_STATUS[error.reason], str(error), headers)


async def stream(answer: Answer, heartbeat_seconds: float) -> AsyncIterator[bytes]:
    """Yield the events as bytes, and heartbeats after `heartbeat_seconds` without an event."""
    try:
        while True:
            try:
                async with asyncio.timeout(heartbeat_seconds):
                    event = await anext(answer)
            except TimeoutError:
                yield HEARTBEAT
            except StopAsyncIteration:
                return
            else:
                yield as_bytes(event)
    finally:
        answer.leave()


def as_bytes(event: ChatEvent) -> bytes:
    """Return one event of the stream; its JSON has no line ends."""
    return b"event: %s\ndata: %s\n\n" % (event.name.encode(), to_json(event.data))
