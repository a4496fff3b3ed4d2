"""The administration of the engine over HTTP.

    GET  /mcp/status                            every MCP server: state, tools, errors, stderr
    GET  /mcp/tools                             every tool of theirs: offered, or why not
    GET  /tools                                 every tool of every kind (`cordboard.api.tools`)
    POST /mcp/test/{server}                     handshake and tool list; starts it aside if need be
    POST /mcp/servers/{server}/start|stop|restart
    POST /reload                                put the changed file into force
    POST /drain, /undrain                       take no new calls, or take them again

POST needs the admin token (`cordboard.api.token_check`) and takes no body. No other defence against
forged requests is needed: a browser sends the header across origins only after a preflight, which
is never granted, and the content types of plain forms are refused besides. GET is free on loopback;
elsewhere the gate requires the token (`cordboard.api.gate`). One operation at a time per server;
further requests get 409, so that impatience starts no fleet of processes.
"""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, TypeAlias

import structlog
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from cordboard.api.administration_view import Administration, Admission, ReloadReport
from cordboard.api.answers import JsonAnswer, list_to_json, read_body
from cordboard.api.gate import HttpLimits
from cordboard.api.token_check import TokenCheck
from cordboard.api.tools import tool_list
from cordboard.errors import CordboardError
from cordboard.mcp.message_log import LoggedMessage, Tail
from cordboard.mcp.supervision.status import ServerStatus

STDERR_LINES = 20
"""Last lines of a server's stderr in the answer."""
MAX_BODY = 4_096
"""Bytes of a body, though none is needed."""
_FORM_TYPES = ("application/x-www-form-urlencoded", "multipart/form-data", "text/plain")
"""Types that a browser sends across origins without a preflight (WHATWG Fetch, section 4.10)."""

Handler: TypeAlias = Callable[[Request], Awaitable[Response]]

log = structlog.get_logger()


class ServerOperations:
    """Operations on MCP servers, one at a time per server, for every port that offers them."""

    def __init__(self, engine: Administration) -> None:
        self.engine = engine
        self._busy: set[str] = set()

    async def test(self, server: str) -> dict[str, Any]:
        """Return the answer to a test. Raises `HTTPException`: 409 during another operation on the
        server, or when it is impossible; 404 when there is none."""
        with self._working_on(server):
            report = await self.engine.mcp_test(server)
        return {
            "server": server,
            "ok": report.ok,
            "error": report.error,
            "took_ms": report.took_ms,
            "protocol": report.protocol,
            "tools": list(report.tools),
            "stderr": list(report.stderr[-STDERR_LINES:]),
        }

    async def move(
        self, server: str, operation: Literal["start", "stop", "restart"]
    ) -> dict[str, Any]:
        """Start, stop or restart a server; return its state. Raises as `test` does."""
        moves = {
            "start": self.engine.mcp_start,
            "stop": self.engine.mcp_stop,
            "restart": self.engine.mcp_restart,
        }
        with self._working_on(server):
            return server_as_json(await moves[operation](server))

    def stderr(self, server: str, after: int) -> Tail[str]:
        """Return the lines of a server's stderr after that number. Raises as `test` does."""
        with self._explained(server):
            return self.engine.mcp_stderr(server, after)

    async def protocol(self, server: str, after: int) -> Tail[LoggedMessage]:
        """Return the messages to and from a server after that number. Raises as `test` does."""
        with self._explained(server):
            return await self.engine.mcp_protocol(server, after)

    async def accept(self, server: str, digest: str) -> None:
        """Accept a server's tools as they were compared. Raises as `test` does."""
        with self._working_on(server):
            await self.engine.mcp_accept(server, digest)

    @contextmanager
    def _working_on(self, server: str) -> Iterator[None]:
        if server in self._busy:
            raise HTTPException(409, f"the MCP server {server!r} is being worked on already")
        self._busy.add(server)
        try:
            with self._explained(server):
                yield
        finally:
            self._busy.discard(server)

    @contextmanager
    def _explained(self, server: str) -> Iterator[None]:
        try:
            yield
        except KeyError:
            if any(server == status.server for status in self.engine.mcp_status()):
                raise  # our own mistake, not the client's
            raise HTTPException(404, f"there is no MCP server {server[:64]!r}") from None
        except CordboardError as error:
            raise HTTPException(409, str(error)) from error


class AdministrationEndpoints:
    """The routes of this module, over one engine."""

    def __init__(
        self,
        operations: ServerOperations,
        admission: Admission | None,
        check: TokenCheck,
        limits: HttpLimits,
    ) -> None:
        """Without an `admission` there is nothing to drain."""
        self._operations = operations
        self._admission = admission
        self._administration = operations.engine
        self._body_seconds = limits.body_seconds
        self._check = check

    def routes(self) -> list[Route]:
        """Return the routes for the application."""
        reading: dict[str, Handler] = {
            "/mcp/status": self._status,
            "/mcp/tools": self._tools,
            "/tools": tool_list(self._administration),
        }
        changing: dict[str, Handler] = {
            "/mcp/test/{server}": self._test,
            "/mcp/servers/{server}/start": self._moving("start"),
            "/mcp/servers/{server}/stop": self._moving("stop"),
            "/mcp/servers/{server}/restart": self._moving("restart"),
            "/reload": self._reload,
        }
        if self._admission is not None:
            changing["/drain"] = self._draining(self._admission, self._admission.begin_drain)
            changing["/undrain"] = self._draining(self._admission, self._admission.end_drain)
        return [
            *(Route(path, handler, methods=["GET"]) for path, handler in reading.items()),
            *(
                Route(path, self._change(handler), methods=["POST"])
                for path, handler in changing.items()
            ),
        ]

    # Authorisation.

    def _change(self, handler: Handler) -> Handler:
        async def guarded(request: Request) -> Response:
            if refusal := self._check.refusal(request):
                return refusal
            await _check_body(request, self._body_seconds)
            answer = await handler(request)
            log.info("admin_request", path=request.scope["path"], status=answer.status_code)
            return answer

        return guarded

    # Answers.

    async def _status(self, request: Request) -> Response:
        servers = [server_as_json(status) for status in self._administration.mcp_status()]
        return JsonAnswer({"servers": servers})

    async def _tools(self, request: Request) -> Response:
        tools = [dict(tool) for tool in self._administration.mcp_tools()]
        return JsonAnswer(await asyncio.to_thread(list_to_json, "tools", tools))

    async def _test(self, request: Request) -> Response:
        return JsonAnswer(await self._operations.test(request.path_params["server"]))

    def _moving(self, operation: Literal["start", "stop", "restart"]) -> Handler:
        async def moved(request: Request) -> Response:
            return JsonAnswer(await self._operations.move(request.path_params["server"], operation))

        return moved

    def _draining(self, admission: Admission, change: Callable[[], None]) -> Handler:
        async def changed(request: Request) -> Response:
            change()
            since = admission.draining_since
            return JsonAnswer(
                {
                    "draining": since is not None,
                    "since": since.isoformat(timespec="seconds") if since is not None else None,
                    "calls_left": len(admission.calls),
                }
            )

        return changed

    async def _reload(self, request: Request) -> Response:
        report = await self._administration.reload()
        return JsonAnswer(report_as_json(report), status_code=200 if report.applied else 422)


def server_as_json(status: ServerStatus) -> dict[str, Any]:
    """Return a server's state for the answer."""
    return {
        "server": status.server,
        "state": str(status.state),
        "since": iso_time(status.since),
        "pid": status.pid,
        "protocol": status.protocol,
        "capabilities": list(status.capabilities),
        "tools": list(status.tools),
        "quarantined": list(status.quarantined),
        "restarts": status.restarts,
        "breaker": str(status.breaker),
        "breaker_reported_by": list(status.breaker_reported_by),
        "runs_at": status.runs_at,
        "again_at": None if status.again_at is None else iso_time(status.again_at),
        "last_error": status.last_error,
        "stderr": list(status.stderr[-STDERR_LINES:]),
    }


def report_as_json(report: ReloadReport) -> dict[str, Any]:
    """Return the answer to a reload."""
    return {
        "applied": report.applied,
        "generation": report.generation,
        "changed": list(report.changed),
        "deferred": [{"what": item.what, "until": item.until} for item in report.deferred],
        "problems": [
            {
                "file": problem.file,
                "line": problem.line,
                "key": problem.key,
                "message": problem.message,
                "fatal": problem.fatal,
            }
            for problem in report.problems
        ],
    }


def iso_time(seconds: float) -> str:
    """Unix time as ISO 8601 in UTC, to the millisecond: `2026-11-21T15:36:14.250Z`."""
    moment = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


async def _check_body(request: Request, seconds: float) -> None:
    """Accept no body, or a small empty JSON object. Raises `HTTPException`."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind in _FORM_TYPES:
        raise HTTPException(415, "a form is not taken here; send no body, or JSON")
    body = await read_body(request, MAX_BODY, seconds)
    if body.strip() not in (b"", b"{}"):
        raise HTTPException(400, "this takes no parameters; send no body, or {}")
