"""Outbound calls over HTTP.

    POST /calls              {number, context, message?, keys?, variables?, purpose?, call_id?,
                              despite_block?} → 202
    GET  /calls/{call_id}    whether it lives, or how it ended

Both need the admin token. A request that is sent again with the same `call_id` is the same call,
also after a restart of the engine.
"""

from __future__ import annotations

from typing import Any

import structlog
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from cordboard.api.answers import JsonAnswer, fields, json_body
from cordboard.api.gate import HttpLimits
from cordboard.api.token_check import TokenCheck
from cordboard.calls.outbound_order import OutboundResult
from cordboard.errors import OutboundRefused
from cordboard.outbound.placing import CallWanted, OutboundCalls

STATUS = {
    "off": 404,
    "unknown_context": 404,
    "bad_request": 400,
    "not_allowed": 403,
    "do_not_call": 403,
    "not_now": 429,
    "busy": 429,
    "no_line": 503,
    "no_list": 503,
    "no_store": 503,
}
_MOST_BYTES = 64 * 1024

log = structlog.get_logger()


class OutboundEndpoints:
    """The routes of this module."""

    def __init__(self, calls: OutboundCalls, check: TokenCheck, limits: HttpLimits) -> None:
        self._calls = calls
        self._check = check
        self._body_seconds = limits.body_seconds

    def routes(self) -> list[Route]:
        """Return the routes for the application."""
        return [
            Route("/calls", self._post, methods=["POST"]),
            Route("/calls/{call_id}", self._get, methods=["GET"]),
        ]

    async def _post(self, request: Request) -> Response:
        if refusal := self._check.refusal(request):
            return refusal
        body = await json_body(request, _MOST_BYTES, self._body_seconds)
        names = ("number", "context", "message", "purpose", "call_id", "despite_block")
        kinds: dict[str, type] = dict.fromkeys(names, str)
        keys = body.pop("keys", None) or []
        said = fields(body, **kinds, variables=dict)
        texts = [*keys, *said.get("variables", {}).values()] if isinstance(keys, list) else [None]
        if not all(isinstance(text, str) for text in texts):
            raise HTTPException(400, "keys: expected a list of texts; variables: texts by name")
        for name in ("number", "context"):
            if not said.get(name):
                raise HTTPException(400, f"{name}: it is missing")
        try:
            call_id = await self._calls.place(CallWanted(**said, keys=tuple(keys)))
        except OutboundRefused as error:
            return self._refused(error)
        return JsonAnswer({"call_id": call_id}, status_code=202)

    async def _get(self, request: Request) -> Response:
        if refusal := self._check.refusal(request):
            return refusal
        call_id = request.path_params["call_id"]
        try:
            return JsonAnswer(_state_as_json(call_id, await self._calls.state(call_id)))
        except OutboundRefused as error:
            return self._refused(error)
        except KeyError:
            raise HTTPException(404, "there is no such outbound call") from None

    def _refused(self, error: OutboundRefused) -> Response:
        """Return a refusal. The token is not limited to contexts: all are named."""
        text = str(error)
        if error.reason == "unknown_context":
            text = f"{text}; there are: {', '.join(self._calls.contexts)}"
        answer = {"error": text, "reason": error.reason}
        return JsonAnswer(answer, status_code=STATUS[error.reason])


def _state_as_json(call_id: str, result: OutboundResult | None) -> dict[str, Any]:
    """Return how a call ended, or that it lives."""
    if result is None:
        return {"call_id": call_id, "state": "live"}
    return {
        "call_id": call_id,
        "state": "ended",
        "outcome": result.outcome,
        "reason": result.reason,
        "answer": result.answer,
        "duration_ms": result.duration_ms,
    }
