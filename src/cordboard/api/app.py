"""The HTTP face of the engine, for people, load balancers and Prometheus.

    GET /live      200 while the event loop runs
    GET /ready     200 when calls can be answered, else 503; says which component is not ready, why
    GET /health    everything worth knowing at a glance, as JSON
    GET /metrics   Prometheus
    /mcp/..., POST /reload      administration (`cordboard.api.administration`)
    /chat...                    conversations in writing (`cordboard.api.chat`)
    /tools/...                  single tools, and how they are used (`cordboard.api.tools`)

It has no logic of its own: whatever it shows comes from an `EngineView`, whose methods return at
once; what it does, an `Administration` does. On loopback it answers only requests that name
loopback in their Host header, so that no web page can reach it through a name that it makes point
here (DNS rebinding).
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from pydantic import SecretStr
from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cordboard.api.administration import AdministrationEndpoints
from cordboard.api.administration_view import Administration
from cordboard.api.bearer import BearerGate
from cordboard.api.chat import ChatEndpoints
from cordboard.api.token_check import TokenCheck
from cordboard.api.tools import ToolEndpoints
from cordboard.chat.sessions import ChatSessions
from cordboard.chat.tool_trial import ToolTrials
from cordboard.observe.tool_usage_files import ToolUsageFiles

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SECURITY_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


@dataclass(frozen=True, slots=True)
class ComponentState:
    """Whether one part of the engine can do its work."""

    ready: bool
    detail: str = ""
    """Why not, or what is worth knowing; a sentence without secrets."""
    required: bool = True
    """Whether calls can be answered only when this is ready. A part that is merely missed (one MCP
    server of several) is shown, but does not make the engine unready."""


class EngineView(Protocol):
    """What the engine shows of itself. Every method returns at once, whatever state it is in."""

    def readiness(self) -> Mapping[str, ComponentState]:
        """The components by name: `ari`, `media`, `agents`, `calls`, `mcp`, `ledger`."""
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
    administration: Administration | None = None,
    token: Callable[[], SecretStr | None] = lambda: None,
    chat: ChatSessions | None = None,
    trials: ToolTrials | None = None,
    usage: ToolUsageFiles | None = None,
) -> ASGIApp:
    """The application.

    `loopback_only`: refuse Host headers that do not name loopback; reading is then free for all.
    `administration`: who does what `/mcp` and `/reload` ask; without it, they do not exist.
    `token`: gives what a request must bring to change anything, at each request; with none,
    nothing can be changed. `chat`, `trials` and `usage`: what `/chat` and `/tools` ask, likewise.
    """

    async def live(request: Request) -> Response:
        return JSONResponse({"live": True})

    async def ready(request: Request) -> Response:
        components = engine.readiness()
        is_ready = all(state.ready for state in components.values() if state.required)
        body = {"ready": is_ready, "components": _components(components)}
        return JSONResponse(body, status_code=200 if is_ready else 503)

    async def health(request: Request) -> Response:
        return JSONResponse(dict(engine.health()))

    async def metrics(request: Request) -> Response:
        page = await asyncio.to_thread(engine.metrics)  # up to 100 ms of work
        return Response(page, headers={"Content-Type": METRICS_TYPE})

    handlers: dict[str, Callable[[Request], Awaitable[Response]]] = {
        "/live": live,
        "/ready": ready,
        "/health": health,
        "/metrics": metrics,
    }
    routes = [Route(path, handler, methods=["GET"]) for path, handler in handlers.items()]
    check = TokenCheck(BearerGate(token))
    if administration is not None:
        endpoints = AdministrationEndpoints(administration, check, reading_is_free=loopback_only)
        routes += endpoints.routes()
    if chat is not None:
        routes += ChatEndpoints(chat, check).routes()
    if trials is not None and usage is not None:
        routes += ToolEndpoints(trials, usage, check, reading_is_free=loopback_only).routes()
    app = Starlette(
        routes=routes,
        exception_handlers={HTTPException: _refuse, Exception: _failed},
    )
    app.router.redirect_slashes = False
    return _Gate(app, loopback_only=loopback_only)


def _components(states: Mapping[str, ComponentState]) -> dict[str, dict[str, Any]]:
    return {
        name: {"ready": state.ready, "required": state.required, "detail": state.detail}
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


class _Gate:
    """Checks the Host header of each request and adds the security headers to each answer."""

    def __init__(self, app: ASGIApp, *, loopback_only: bool) -> None:
        self._app = app
        self._loopback_only = loopback_only

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(SECURITY_HEADERS)
            await send(message)

        host = Headers(scope=scope).get("host", "")
        if self._loopback_only and not names_loopback(host):
            refusal = JSONResponse({"error": "Misdirected Request"}, status_code=421)
            await refusal(scope, receive, send_with_headers)
            return
        await self._app(scope, receive, send_with_headers)


def names_loopback(host: str) -> bool:
    """Whether a Host header (`localhost:15000`, `127.0.0.1`, `[::1]:80`) names this machine."""
    if host.startswith("["):
        name = host[1:].partition("]")[0]
    else:
        name = host.rpartition(":")[0] if ":" in host else host
    return is_loopback(name)


def is_loopback(name: str) -> bool:
    """Whether a host name or address is the loopback interface."""
    if name.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
