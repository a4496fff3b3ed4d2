"""Tools over HTTP: list, tries and usage.

    GET  /tools              every tool of the configuration in force, also those not offered
                             {context: null, tools: [{name, kind, origin, …}]}
         ?context=demo       the tools that this context lists
         ?provider=gemini    also in that provider's form: {…, provider: {tools, …}}
    POST /tools/{name}/try   {context, arguments?, provider?, approve?} → an agent's answer
    GET  /tools/usage        ?days=7&context=NAME → counts, errors and waits by day, context, tool

The list is a route of the administration (`tool_list`). A try needs the admin token, because it
runs the tool with all its effects. The usage is free on loopback;
elsewhere the gate requires the token (`cordboard.api.gate`).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any

import structlog
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from cordboard.agent_api.provider import tool_user
from cordboard.api.administration_view import Administration
from cordboard.api.answers import JsonAnswer, fields, json_body, list_to_json, to_json
from cordboard.api.chat import http_refusal
from cordboard.api.gate import HttpLimits
from cordboard.api.token_check import TokenCheck
from cordboard.chat.tool_trial import Outcome, ToolTrials, TrialReport, payload_limits
from cordboard.config.plugins import installed
from cordboard.errors import ChatRefused, NotThere
from cordboard.generation.tool_listing import ToolListing
from cordboard.observe.tool_usage_files import KEPT_DAYS, ToolUsageFiles

MOST_BYTES = 2 * 1024 * 1024
"""Bytes of a try's body: the desk must be able to receive arguments of a megabyte."""
USUAL_DAYS = 7
TRY_STATUS: dict[Outcome, int] = {
    "run": 200,
    "not_in_toolbox": 403,
    "no_such_tool": 404,
    "needs_approval": 409,
    "not_there_now": 503,
}

log = structlog.get_logger()


class ToolEndpoints:
    """The routes of this module."""

    def __init__(
        self, trials: ToolTrials, usage: ToolUsageFiles, check: TokenCheck, limits: HttpLimits
    ) -> None:
        self._body_seconds = limits.body_seconds
        self._trials = trials
        self._usage_files = usage
        self._check = check

    def routes(self) -> list[Route]:
        """Return the routes for the application."""
        return [
            Route("/tools/usage", self._usage, methods=["GET"]),
            Route("/tools/{name}/try", self._try, methods=["POST"]),
        ]

    async def _try(self, request: Request) -> Response:
        if refusal := self._check.refusal(request):
            return refusal
        asked = fields(
            await json_body(request, MOST_BYTES, self._body_seconds),
            context=str,
            arguments=dict,
            provider=str,
            approve=bool,
        )
        if "context" not in asked:
            raise HTTPException(400, "context: expected the name of a context")
        try:
            limits = payload_limits(asked.get("provider"))
        except NotThere:
            known = ", ".join(payload_limits(None))
            raise HTTPException(400, f"provider: expected one of {known}") from None
        name = request.path_params["name"]
        try:
            report = await self._trials.run(
                name,
                asked["context"],
                asked.get("arguments", {}),
                limits=limits,
                approve=asked.get("approve", False),
            )
        except ChatRefused as error:
            raise http_refusal(error) from None
        log.info(
            "tool_tried",
            call_id=report.call_id,
            exposed_name=name[:100],
            context_name=asked["context"],
            outcome=report.outcome,
            status=str(report.reply.status),
        )
        body = await asyncio.to_thread(to_json, as_json(report))
        return JsonAnswer(body, status_code=TRY_STATUS[report.outcome])

    async def _usage(self, request: Request) -> Response:
        days = request.query_params.get("days", str(USUAL_DAYS))
        if not re.fullmatch("[0-9]{1,3}", days) or not 1 <= int(days) <= KEPT_DAYS:
            raise HTTPException(400, f"days: expected a number from 1 to {KEPT_DAYS}")
        context = request.query_params.get("context") or None
        return JsonAnswer(await self._usage_files.report(int(days), context))


def as_json(report: TrialReport) -> dict[str, Any]:
    """Return the answer to a try; with an `error` when the desk refused it."""
    reply = report.reply
    body: dict[str, Any] = {} if report.outcome == "run" else {"error": reply.message}
    return body | {
        "call_id": report.call_id,
        "name": reply.name,
        "status": str(reply.status),
        "message": reply.message,
        "data": reply.data,
        "control": dict(reply.control),
        "cut": list(reply.cut),
        "took_ms": reply.took_ms,
        "payloads": report.payloads,
    }


def tool_list(administration: Administration) -> Callable[[Request], Awaitable[Response]]:
    """Return the handler; authorisation is checked elsewhere."""

    async def answer(request: Request) -> Response:
        context = request.query_params.get("context") or None
        provider = request.query_params.get("provider") or None
        try:
            listing = administration.tools(context)
            body = await asyncio.to_thread(_written, listing, provider)
        except NotThere as error:
            raise HTTPException(404, str(error)) from None
        return JsonAnswer(body)

    return answer


def _written(listing: ToolListing, provider: str | None) -> bytes:
    """Write tool by tool, so that one that cannot be written hides no other."""
    profile = tool_user(installed(), provider).schemas if provider is not None else None
    whole = listing.as_json(provider, profile)
    parts = [b'"context":' + to_json(whole["context"]), list_to_json("tools", whole["tools"])[1:-1]]
    if provider is not None:
        parts.append(b'"provider":' + to_json(whole["provider"]))
    return b"{" + b",".join(parts) + b"}"
