"""The gate before every request: it checks the Host header, the token, and the number of requests.

A web page can make a name of its own point to this machine (DNS rebinding), and its visitor's
browser then sends that name in the Host header. So a request must address the engine by an IP
address, as `localhost`, or by a name that the configuration lists. Off loopback everything but
`/live` also needs the admin token. `/live` is answered even when the limit of requests is reached:
orchestrators restart an engine that does not answer it, which would end live calls. A refused
request takes no place.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection
from dataclasses import dataclass

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cordboard.api.answers import JsonAnswer
from cordboard.api.token_check import TokenCheck

LIVE = "/live"
SECURITY_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """Limits of requests and their durations."""

    most_at_once: int = 64
    """Requests that are answered at the same time, except `/live`; further ones get 503. The
    port is for a few scrapers and people."""
    body_seconds: float = 5.0
    """Timeout for receiving a body."""
    heartbeat_seconds: float = 15.0
    """Interval of heartbeats in a stream without events."""


class Gate:
    """Refuses requests, and adds the security headers to each answer."""

    def __init__(
        self,
        app: ASGIApp,
        check: TokenCheck,
        *,
        loopback_only: bool,
        allowed_hosts: Collection[str],
        most_at_once: int,
    ) -> None:
        """`loopback_only`: only the endpoints' own `check` requires the token."""
        self._app = app
        self._check = check
        self._loopback_only = loopback_only
        self._allowed_hosts = frozenset(name.lower() for name in allowed_hosts)
        self._most_at_once = most_at_once
        self._answering = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(SECURITY_HEADERS)
            await send(message)

        at_once: ASGIApp | None = self._refusal(Request(scope))
        if at_once is None and scope["path"] == LIVE:
            at_once = self._app
        elif at_once is None and self._answering >= self._most_at_once:
            at_once = self._no_room()
        if at_once is not None:
            await at_once(scope, receive, send_with_headers)
            return
        self._answering += 1
        try:
            await self._app(scope, receive, send_with_headers)
        finally:
            self._answering -= 1

    def _refusal(self, request: Request) -> Response | None:
        name = host_name(request.headers.get("host", ""))
        if not (is_address(name) or name == "localhost" or name in self._allowed_hosts):
            error = (
                f"the Host header names {name[:64]!r}, which is not a name of this engine; use "
                "its address, or list the name under health.allowed_hosts"
            )
            return JsonAnswer({"error": error}, status_code=421)
        if self._loopback_only or request.scope["path"] == LIVE:
            return None
        return self._check.refusal(request)

    def _no_room(self) -> Response:
        error = f"{self._answering} requests are being answered; try again in a moment"
        return JsonAnswer({"error": error}, status_code=503, headers={"Retry-After": "1"})


def host_name(host: str) -> str:
    """Return the name or address in a Host header such as `localhost:15000` or `[::1]:80`."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return (host.rpartition(":")[0] if ":" in host else host).lower()


def is_address(name: str) -> bool:
    """Return True for an IP address, False for a name."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
