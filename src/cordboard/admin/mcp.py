"""Endpoints of the MCP servers: state, stderr, messages, operation, accepted tools."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Literal

from pydantic import Field

from cordboard.accounts.rights import Permission, Rights
from cordboard.admin.endpoint import UNRECORDED, Ask, Done, Endpoint, Gives, Scope, Takes
from cordboard.admin.services import AdminServices
from cordboard.api.administration import iso_time, server_as_json


class Server(Gives):
    server: str
    state: str
    since: str
    pid: int | None
    protocol: str
    capabilities: list[str]
    """As MCP names them; empty unless it is ready."""
    tools: list[str]
    quarantined: list[str]
    restarts: int
    breaker: str
    breaker_reported_by: list[str]
    """Other engines of the cluster whose breaker of it is open."""
    runs_at: str
    """Engine of the cluster that runs it for this one; empty: this engine."""
    again_at: str | None
    """Next start by itself, during the pause after a failure."""
    last_error: str
    stderr: list[str]
    """Empty for a scope of some contexts: it may be about the calls of all."""


class Servers(Gives):
    servers: list[Server]


class ServerTest(Gives):
    server: str
    ok: bool
    error: str
    took_ms: int
    protocol: str
    tools: list[str]
    stderr: list[str]


class After(Takes):
    after: int = Field(0, ge=0)
    """Number of the last item that the caller knows."""


class StderrTail(Gives):
    server: str
    last: int
    """Number of the last line: `after` of the next request."""
    lost: int
    """Lines after the known one that are not kept any more."""
    lines: list[str]


class Message(Gives):
    at: str
    direction: Literal["sent", "received"]
    kind: Literal["request", "notification", "answer", "error"]
    id: str
    method: str
    content: str
    """JSON of the parameters, result or error; a value that was left out is `…`."""
    cut: bool


class ProtocolTail(Gives):
    server: str
    last: int
    lost: int
    messages: list[Message]


class ServerLock(Gives):
    name: str
    state: Literal["same", "changed", "new", "gone", "unseen"]
    """`new`: nothing of it was accepted yet; `gone`: it is no longer in the configuration;
    `unseen`: it has not listed its tools yet."""
    diff: list[str]
    digest: str
    """Names what was compared: for `POST /mcp/lock/accept`."""


class Lock(Gives):
    mode: Literal["off", "warn", "enforce"]
    servers: list[ServerLock]


class Acceptance(Takes):
    server: str = Field(max_length=100)
    digest: str = Field(pattern="^[0-9a-f]{64}$")
    """Of the comparison that was seen (`GET /mcp/lock`)."""

    def facts(self) -> dict[str, Any]:
        """Return both."""
        return {"server": self.server, "digest": self.digest}


async def list_servers(ask: Ask) -> Servers:
    """List the MCP servers: state, tools, restarts, last error, last lines of stderr."""
    return servers_for(ask.services, ask.who.rights)


def servers_for(services: AdminServices, rights: Rights) -> Servers:
    """Return the MCP servers as callers with these rights see them."""
    found = services.operations.engine.mcp_status()
    rows = [server_as_json(status) for status in found]
    if not rights.everywhere:
        rows = [row | {"stderr": []} for row in rows]
    return Servers(servers=[Server(**row) for row in rows])


async def test_server(ask: Ask) -> ServerTest:
    """Request a handshake and the tools from an MCP server; start it aside if need be."""
    return ServerTest(**await ask.services.operations.test(ask.params["server"]))


async def start_server(ask: Ask) -> Server:
    """Begin to start an MCP server that is stopped or was given up."""
    return await _moved(ask, "start")


async def stop_server(ask: Ask) -> Server:
    """Stop an MCP server until it is started again."""
    return await _moved(ask, "stop")


async def restart_server(ask: Ask) -> Server:
    """Stop an MCP server and begin to start it again."""
    return await _moved(ask, "restart")


async def _moved(ask: Ask, operation: Literal["start", "stop", "restart"]) -> Server:
    return Server(**await ask.services.operations.move(ask.params["server"], operation))


async def server_stderr(ask: Ask) -> StderrTail:
    """Show the last 200 lines of a server's stderr, or those after a known one."""
    server = ask.params["server"]
    tail = ask.services.operations.stderr(server, ask.query.after)
    return StderrTail(server=server, last=tail.last, lost=tail.lost, lines=list(tail.items))


async def server_protocol(ask: Ask) -> ProtocolTail:
    """Show the last 200 messages between the engine and a server, or those after a known one.

    Secrets are masked, and long contents cut. Arguments are words of callers.
    """
    server = ask.params["server"]
    tail = await ask.services.operations.protocol(server, ask.query.after)
    messages = [Message(**asdict(each) | {"at": iso_time(each.at)}) for each in tail.items]
    return ProtocolTail(server=server, last=tail.last, lost=tail.lost, messages=messages)


async def show_lock(ask: Ask) -> Lock:
    """Compare the tools that the servers list with the accepted ones (`mcp.lock`)."""
    compared = await ask.services.operations.engine.mcp_lock()
    return Lock(
        mode=ask.services.config().mcp.lock,
        servers=[
            ServerLock(name=each.server, state=each.state, diff=list(each.diff), digest=each.digest)
            for each in compared
        ],
    )


async def accept_tools(ask: Ask) -> Done:
    """Accept a server's tools as they were shown; new calls get them at once.

    409 `conflict` if they, or the file, have changed since.
    """
    body: Acceptance = ask.body
    await ask.services.operations.accept(body.server, body.digest)
    return Done()


_CONTROL = Permission.MCP_CONTROL

ENDPOINTS = (
    Endpoint(
        "GET",
        "/mcp",
        may=Permission.MCP_READ,
        scope=Scope.NONE,
        takes=None,
        gives=Servers,
        audit=UNRECORDED,
        does=list_servers,
    ),
    *(
        Endpoint(
            "POST",
            f"/mcp/{{server}}/{act}",
            may=_CONTROL,
            scope=Scope.NONE,
            takes=None,
            gives=ServerTest if act == "test" else Server,
            audit=f"mcp.{act}",
            does=does,
        )
        for act, does in (
            ("test", test_server),
            ("start", start_server),
            ("stop", stop_server),
            ("restart", restart_server),
        )
    ),
    Endpoint(
        "GET",
        "/mcp/{server}/stderr",
        may=Permission.MCP_READ,
        scope=Scope.ALL,
        takes=None,
        asks=After,
        gives=StderrTail,
        audit=UNRECORDED,
        does=server_stderr,
    ),
    Endpoint(
        "GET",
        "/mcp/{server}/protocol",
        may=Permission.PERSONAL,
        scope=Scope.ALL,
        takes=None,
        asks=After,
        gives=ProtocolTail,
        audit=UNRECORDED,
        does=server_protocol,
    ),
    Endpoint(
        "GET",
        "/mcp/lock",
        may=Permission.MCP_READ,
        scope=Scope.NONE,
        takes=None,
        gives=Lock,
        audit=UNRECORDED,
        does=show_lock,
    ),
    Endpoint(
        "POST",
        "/mcp/lock/accept",
        may=Permission.MCP_ACCEPT,
        scope=Scope.NONE,
        takes=Acceptance,
        gives=Done,
        audit="mcp.accept",
        does=accept_tools,
    ),
)
