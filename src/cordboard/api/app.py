"""The HTTP face of the engine, for people, load balancers and Prometheus.

    GET /live      200 while the event loop runs
    GET /ready     200 when calls can be answered, else 503; which component is not ready, and why
    GET /health    everything worth knowing at a glance, as JSON
    GET /metrics   Prometheus
    /mcp/..., POST /reload      administration (`cordboard.api.administration`)
    /chat...                    conversations in writing (`cordboard.api.chat`)
    /tools/...                  single tools, and how they are used (`cordboard.api.tools`)

It has no logic of its own: whatever it shows comes from an `EngineView`, whose methods return at
once; what it does, an `Administration` does. `cordboard.api.gate` says which requests come in at
all. `/ready` and `/health` show only numbers and states to a request without the admin token: the
rest names calls, contexts, providers and servers, which other users of the machine could use.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from pydantic import SecretStr
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from cordboard.api.administration import AdministrationEndpoints
from cordboard.api.administration_view import Administration
from cordboard.api.bearer import BearerGate
from cordboard.api.chat import ChatEndpoints
from cordboard.api.gate import LIVE, MOST_AT_ONCE, Gate
from cordboard.api.token_check import TokenCheck
from cordboard.api.tools import ToolEndpoints
from cordboard.chat.sessions import ChatSessions
from cordboard.chat.tool_trial import ToolTrials
from cordboard.observe.metrics import CONTENT_TYPE
from cordboard.observe.tool_usage_files import ToolUsageFiles

WITHHELD = "shown with the admin token"
"""Stands for the detail of a component when the request has no token."""


@dataclass(frozen=True, slots=True)
class ComponentState:
    """Whether one part of the engine can do its work."""

    ready: bool
    detail: str = ""
    """Why not, or what is worth knowing; a sentence without secrets."""
    required: bool = True
    """Whether calls can be answered only when this is ready. A part that is merely missed (one MCP
    server of several) is shown, but does not make the engine unready."""
    public: bool = False
    """Whether the detail is shown without the admin token: it names no call, context, provider or
    server."""


class EngineView(Protocol):
    """What the engine shows of itself. Every method returns at once, whatever state it is in."""

    def readiness(self) -> Mapping[str, ComponentState]:
        """The components by name: `ari`, `media`, `agents`, `calls`, `mcp`, `ledger`."""
        ...

    def counts(self) -> Mapping[str, Any]:
        """Version, uptime and numbers, fit for JSON: nothing that names a call, a context, a
        provider or a server."""
        ...

    def health(self) -> Mapping[str, Any]:
        """Details, fit for JSON: version, uptime, generation, calls, servers, workers, lag."""
        ...

    def metrics(self) -> bytes:
        """All series in the Prometheus text format."""
        ...


def create_app(
    engine: EngineView,
    *,
    loopback_only: bool,
    allowed_hosts: Collection[str] = (),
    administration: Administration | None = None,
    token: Callable[[], SecretStr | None] = lambda: None,
    chat: ChatSessions | None = None,
    trials: ToolTrials | None = None,
    usage: ToolUsageFiles | None = None,
    most_at_once: int = MOST_AT_ONCE,
) -> ASGIApp:
    """The application.

    `loopback_only`: reading needs no token. `allowed_hosts`: names in Host headers that are the
    engine's, besides addresses and `localhost`.
    `administration`: who does what `/mcp` and `/reload` ask; without it, they do not exist.
    `token`: gives the admin token in force, at each request; with none, nothing can be changed,
    and off loopback nothing read. `chat`, `trials` and `usage`: what `/chat` and `/tools` ask.
    `most_at_once`: further requests are answered with 503, `/live` excepted.
    """
    check = TokenCheck(BearerGate(token))
    app = Starlette(
        routes=_own_routes(engine, check),
        exception_handlers={HTTPException: _refuse, Exception: _failed},
    )
    if administration is not None:
        app.routes.extend(AdministrationEndpoints(administration, check).routes())
    if chat is not None:
        app.routes.extend(ChatEndpoints(chat, check).routes())
    if trials is not None and usage is not None:
        app.routes.extend(ToolEndpoints(trials, usage, check).routes())
    app.router.redirect_slashes = False
    return Gate(
        app,
        check,
        loopback_only=loopback_only,
        allowed_hosts=allowed_hosts,
        most_at_once=most_at_once,
    )


def _own_routes(engine: EngineView, check: TokenCheck) -> list[Route]:
    """What an `EngineView` answers."""

    def has_token(request: Request) -> bool:
        return "authorization" in request.headers

    def refused_if_wrong(request: Request) -> Response | None:
        return check.refusal(request) if has_token(request) else None

    async def live(request: Request) -> Response:
        return JSONResponse({"live": True})

    async def ready(request: Request) -> Response:
        if refusal := refused_if_wrong(request):
            return refusal
        components = engine.readiness()
        is_ready = all(state.ready for state in components.values() if state.required)
        body = {"ready": is_ready, "components": _components(components, has_token(request))}
        return JSONResponse(body, status_code=200 if is_ready else 503)

    async def health(request: Request) -> Response:
        if refusal := refused_if_wrong(request):
            return refusal
        if has_token(request):
            return JSONResponse(dict(engine.health()))
        components = _components(engine.readiness(), with_details=False)
        return JSONResponse({**engine.counts(), "components": components})

    async def metrics(request: Request) -> Response:
        page = await asyncio.to_thread(engine.metrics)  # up to 100 ms of work
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
    """404, 405 and the like, as JSON."""
    if not isinstance(error, HTTPException):
        raise error
    body = {"error": error.detail}
    return JSONResponse(body, status_code=error.status_code, headers=error.headers)


async def _failed(request: Request, error: Exception) -> Response:
    """What went wrong is in the log, not in the answer."""
    return JSONResponse({"error": "Internal Server Error"}, status_code=500)
