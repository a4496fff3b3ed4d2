"""The HTTP application of the engine, for people, load balancers and Prometheus.

    GET /live      200 while the event loop runs
    GET /ready     200 when calls can be answered, else 503; the components, and why not
    GET /health    overview as JSON
    GET /metrics   Prometheus
    /mcp/..., POST /reload, /drain, /undrain    administration (`cordboard.api.administration`)
    /calls, /calls/{call_id}    outbound calls (`cordboard.api.outbound`)
    /chat...                    written conversations (`cordboard.api.chat`)
    /tools/...                  lists, tries and usage of tools (`cordboard.api.tools`)

It contains no logic of the engine: its data comes from an `EngineView`, whose methods return at
once; its actions are those of an `Administration`. `cordboard.api.gate` decides which requests come
in at all. `/ready` and `/health` show only numbers and states to a request without the admin token:
the rest names calls, contexts, providers and servers, which other users of the machine could use.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from pydantic import SecretStr
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from cordboard.api.administration import AdministrationEndpoints, ServerOperations
from cordboard.api.administration_view import Admission
from cordboard.api.answers import JsonAnswer
from cordboard.api.chat import ChatEndpoints
from cordboard.api.gate import LIVE, Gate, HttpLimits
from cordboard.api.outbound import OutboundEndpoints
from cordboard.api.token_check import BearerGate, TokenCheck
from cordboard.api.tools import ToolEndpoints
from cordboard.chat.sessions import ChatSessions
from cordboard.chat.tool_trial import ToolTrials
from cordboard.observe.metrics import CONTENT_TYPE
from cordboard.observe.tool_usage_files import ToolUsageFiles
from cordboard.outbound.placing import OutboundCalls

WITHHELD = "shown with the admin token"
"""Replaces the detail of a component when the request has no token."""


@dataclass(frozen=True, slots=True)
class ComponentState:
    """Readiness of one part of the engine."""

    ready: bool
    detail: str = ""
    """Reason why it is not ready, or other information; a sentence without secrets."""
    required: bool = True
    """True if calls can be answered only when this part is ready. An optional part (one MCP server
    of several) is shown, but does not make the engine unready."""
    public: bool = False
    """True if the detail is shown without the admin token: it names no call, context, provider or
    server."""


class EngineView(Protocol):
    """The engine's state for HTTP. Every method answers in any state of the engine, and all but
    `metrics` return at once."""

    def readiness(self) -> Mapping[str, ComponentState]:
        """Return the components by name: `ari`, `media`, `agents`, `calls`, `mcp`, `ledger`."""

    def counts(self) -> Mapping[str, Any]:
        """Return version, uptime and numbers for JSON, without names of calls, contexts, providers
        or servers."""

    def health(self) -> Mapping[str, Any]:
        """Return details for JSON: version, uptime, generation, calls, servers, workers, lag."""

    async def metrics(self) -> bytes:
        """Return all series in the Prometheus text format; takes up to 100 ms."""


def create_app(
    engine: EngineView,
    *,
    loopback_only: bool,
    allowed_hosts: Collection[str] = (),
    administration: ServerOperations | None = None,
    admission: Admission | None = None,
    token: Callable[[], SecretStr | None] = lambda: None,
    chat: ChatSessions | None = None,
    trials: ToolTrials | None = None,
    usage: ToolUsageFiles | None = None,
    outbound: OutboundCalls | None = None,
    limits: HttpLimits = HttpLimits(),  # noqa: B008 - frozen
) -> ASGIApp:
    """Return the application.

    `loopback_only`: reading needs no token. `allowed_hosts`: further names of the engine in Host
    headers, besides addresses and `localhost`.
    `administration` does the work of `/mcp` and `/reload`; without it, they do not exist.
    `admission` is drained by `/drain`.
    `token` returns the admin token in force, at each request; without a token, nothing can be
    changed, and off loopback nothing read. `chat`, `trials` and `usage` serve `/chat` and `/tools`,
    `outbound` serves `/calls`.
    """
    check = TokenCheck(BearerGate(token))
    app = Starlette(
        routes=_own_routes(engine, check),
        exception_handlers={HTTPException: _refuse, Exception: _failed},
    )
    if administration is not None:
        app.routes.extend(
            AdministrationEndpoints(administration, admission, check, limits).routes()
        )
    if chat is not None:
        app.routes.extend(ChatEndpoints(chat, check, limits).routes())
    if trials is not None and usage is not None:
        app.routes.extend(ToolEndpoints(trials, usage, check, limits).routes())
    if outbound is not None:
        app.routes.extend(OutboundEndpoints(outbound, check, limits).routes())
    app.router.redirect_slashes = False
    return Gate(
        app,
        check,
        loopback_only=loopback_only,
        allowed_hosts=allowed_hosts,
        most_at_once=limits.most_at_once,
    )


def _own_routes(engine: EngineView, check: TokenCheck) -> list[Route]:
    """Return the routes that an `EngineView` answers."""

    def has_token(request: Request) -> bool:
        return "authorization" in request.headers

    def refused_if_wrong(request: Request) -> Response | None:
        return check.refusal(request) if has_token(request) else None

    async def live(request: Request) -> Response:
        return JsonAnswer({"live": True})

    async def ready(request: Request) -> Response:
        if refusal := refused_if_wrong(request):
            return refusal
        components = engine.readiness()
        is_ready = all(state.ready for state in components.values() if state.required)
        body = {"ready": is_ready, "components": _components(components, has_token(request))}
        return JsonAnswer(body, status_code=200 if is_ready else 503)

    async def health(request: Request) -> Response:
        if refusal := refused_if_wrong(request):
            return refusal
        if has_token(request):
            return JsonAnswer(dict(engine.health()))
        components = _components(engine.readiness(), with_details=False)
        return JsonAnswer({**engine.counts(), "components": components})

    async def metrics(request: Request) -> Response:
        page = await engine.metrics()
        return Response(page, headers={"Content-Type": CONTENT_TYPE})

    handlers: dict[str, Callable[[Request], Awaitable[Response]]] = {
        LIVE: live,
        "/ready": ready,
        "/health": health,
        "/metrics": metrics,
    }
    return [Route(path, handler, methods=["GET"]) for path, handler in handlers.items()]


def _components(
    states: Mapping[str, ComponentState], with_details: bool
) -> dict[str, dict[str, Any]]:
    return {
        name: {
            "ready": state.ready,
            "required": state.required,
            "detail": state.detail and (state.detail if with_details or state.public else WITHHELD),
        }
        for name, state in states.items()
    }


async def _refuse(request: Request, error: Exception) -> Response:
    """Answer 404, 405 and the like, as JSON."""
    if not isinstance(error, HTTPException):
        raise error
    body = {"error": error.detail}
    return JsonAnswer(body, status_code=error.status_code, headers=error.headers)


async def _failed(request: Request, error: Exception) -> Response:
    """Answer an internal error, whose details are only in the log."""
    return JsonAnswer({"error": "Internal Server Error"}, status_code=500)
