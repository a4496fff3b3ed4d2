"""Endpoints of the engine: state, reload, check of the configuration, MCP servers, tools."""

from __future__ import annotations

from functools import partial
from itertools import islice
from typing import Any, Literal

from pydantic import Field

from cordboard.accounts.rights import Permission, Rights
from cordboard.admin.endpoint import UNRECORDED, Ask, Endpoint, Gives, Scope, Takes
from cordboard.admin.pace import CHECK, TRY
from cordboard.admin.services import AdminServices
from cordboard.admin.trials import own_trial
from cordboard.api.administration import report_as_json, server_as_json
from cordboard.api.administration_view import Step
from cordboard.api.tools import TRY_STATUS, as_json
from cordboard.chat.tool_trial import payload_limits
from cordboard.config.changes import changes, needs_restart
from cordboard.config.load import MOST_KIB, ConfigSource, read
from cordboard.config.schema import Config
from cordboard.errors import ConfigError, ConfigProblem, NotThere, RequestRefused
from cordboard.generation.tool_listing import ToolListing
from cordboard.generation.tool_listing import list_tools as listed_tools
from cordboard.tools.known_secrets import KnownSecrets

MOST_TRY_BYTES = 2 * 1024 * 1024
"""Bytes of a try's body: the desk must be able to receive arguments of a megabyte."""
_OUTSIDE = (
    "the value that this takes from outside of the file is not in order; `cordboard check` on the "
    "engine's machine says why"
)
_TRY = {
    "read_only": Permission.TOOLS_TRY_READ_ONLY,
    "idempotent": Permission.TOOLS_TRY_IDEMPOTENT,
    "destructive": Permission.TOOLS_TRY_DESTRUCTIVE,
}


class Component(Gives):
    ready: bool
    required: bool
    detail: str


class EngineState(Gives):
    version: str
    uptime_seconds: float
    active_calls: int
    """Within the caller's scope."""
    max_calls: int
    ready: bool
    components: dict[str, Component]
    details: dict[str, Any]
    """The same facts as in `/health` on the port of the probes, without the calls; empty for a
    scope of some contexts, as they count the calls of all."""


class Problem(Gives):
    file: str
    line: int | None
    key: str
    message: str
    fatal: bool


class Deferred(Gives):
    what: str
    until: str


class Reloaded(Gives):
    applied: bool
    generation: int
    changed: list[str]
    deferred: list[Deferred]
    problems: list[Problem]


class Change(Gives):
    key: str
    takes_effect: Literal["reload", "restart"]
    """`reload`: for the next call after it is published; `restart`: of the engine."""


class Draft(Takes):
    text: str | None = Field(None, max_length=MOST_KIB * 1024)
    """YAML in place of the file's, as long as a file may be; left out: the file as it is now."""


class Checked(Gives):
    in_order: bool
    """False: a reload would refuse it."""
    problems: list[Problem]
    changed: list[Change]
    """Differences from the configuration in force; empty unless it is in order."""


class SetupOf(Takes):
    freepbx: bool = False
    """Give the dialplan for FreePBX's file."""


class Setup(Gives):
    steps: list[Step]


class Server(Gives):
    server: str
    state: str
    since: str
    pid: int | None
    protocol: str
    tools: list[str]
    quarantined: list[str]
    restarts: int
    breaker: str
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


class ToolsOf(Takes):
    context: str | None = Field(None, max_length=100)


class Tools(Gives):
    context: str | None
    tools: list[dict[str, Any]]


class Try(Takes):
    context: str = Field(max_length=100)
    arguments: dict[str, Any] = Field({})
    provider: str | None = Field(None, max_length=100)
    """Show the payload for this kind of agent alone."""
    trial: str | None = Field(None, max_length=64)
    """A trial of the caller's, in place of the configuration in force."""
    approve: bool = False
    """Stands for the caller's yes."""

    def facts(self) -> dict[str, Any]:
        """Return which arguments were given, up to 50; their values may be secret."""
        names = islice(self.arguments, 50)
        return {"arguments": sorted(names), "approve": self.approve}


class Tried(Gives):
    outcome: str
    status: str
    call_id: str
    """Of the ledger of the try."""
    name: str
    message: str
    data: Any
    control: dict[str, Any]
    cut: list[str]
    took_ms: int
    payloads: dict[str, Any]


async def state(ask: Ask) -> EngineState:
    """Show whether calls can be answered, and why not."""
    return state_for(ask.services, ask.who.rights)


def state_for(services: AdminServices, rights: Rights) -> EngineState:
    """Return the state of the engine as callers with these rights see it."""
    view = services.view
    components = view.readiness()
    counts, details = view.counts(), dict(view.health()) if rights.everywhere else {}
    calls = services.calls().values()
    for name in ("active_calls", "components", *counts):
        details.pop(name, None)
    return EngineState(
        version=counts["version"],
        uptime_seconds=counts["uptime_seconds"],
        active_calls=sum(rights.covers(call.context_name) for call in calls),
        max_calls=counts["max_calls"],
        ready=all(each.ready for each in components.values() if each.required),
        components={
            name: Component(ready=each.ready, required=each.required, detail=each.detail)
            for name, each in components.items()
        },
        details=details,
    )


async def reload(ask: Ask) -> Reloaded:
    """Read the configuration file again and put it into force; a bad file changes nothing."""
    return Reloaded(**report_as_json(await ask.services.operations.engine.reload()))


async def check(ask: Ask) -> Checked:
    """Check a configuration, with file, line and key of each problem. Nothing is changed."""
    body: Draft = ask.body
    source = ask.services.source
    if source is None:
        raise RequestRefused(409, "no_file", "this engine was not started from a file")
    return await ask.services.run(_checked, source, body.text, ask.services.config())


def _checked(source: ConfigSource, text: str | None, in_force: Config) -> Checked:
    """Check a text, or the file. A draft may name any variable and file of the engine's, so no
    problem quotes a value of theirs, or a part of it."""
    is_draft, environment = text is not None, KnownSecrets(source.environ.values())
    try:
        loaded = source.load() if text is None else read(text, source.path, source.environ)
    except ConfigError as error:
        problems = [_problem(each, environment, is_draft) for each in error.problems]
        return Checked(in_order=False, problems=problems, changed=[])
    keys = changes(in_force, loaded.config)
    return Checked(
        in_order=True,
        problems=[_problem(each, environment, is_draft) for each in loaded.problems],
        changed=[
            Change(key=key, takes_effect="restart" if needs_restart(key) else "reload")
            for key in keys
        ],
    )


def _problem(problem: ConfigProblem, environment: KnownSecrets, is_draft: bool) -> Problem:
    hidden = is_draft and problem.from_outside
    return Problem(
        file=problem.file,
        line=problem.line,
        key=problem.key,
        message=_OUTSIDE if hidden else environment.text(problem.message),
        fatal=problem.fatal,
    )


async def check_setup(ask: Ask) -> Setup:
    """Check the set-up: Asterisk, ports, voices, disk; with the lines that mend it.

    Nothing is changed. One check at a time.
    """
    services, query = ask.services, ask.query
    if services.source is None:
        raise RequestRefused(409, "no_file", "this engine was not started from a file")
    if services.checking_setup.locked():
        headers = {"Retry-After": "2"}
        raise RequestRefused(503, "busy", "the set-up is being checked", headers=headers)
    async with services.checking_setup:
        steps = await services.setup(services.source, query.freepbx)
    return Setup(steps=list(steps))


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


async def list_tools(ask: Ask) -> Tools:
    """List the tools of every kind, or those of a context; also those not offered, and why.

    Without a context only for callers whose scope is every context.
    """
    query: ToolsOf = ask.query
    if query.context is None and not ask.who.rights.everywhere:
        raise RequestRefused(422, "invalid", "context: give one of those within your scope")
    known = [name for name in ask.services.config().contexts if ask.who.rights.covers(name)]
    if query.context is not None and query.context not in known:
        message = f"there is no context {query.context[:64]!r}; known: {', '.join(known)}"
        raise RequestRefused(404, "not_there", message)
    listing = ask.services.operations.engine.tools(query.context)
    return await ask.services.run(lambda: Tools(**listing.as_json()))


async def try_tool(ask: Ask) -> Tried:
    """Run a tool as an agent of the context would, with all its effects, without a call."""
    body: Try = ask.body
    try:
        limits = payload_limits(body.provider)
    except NotThere:
        known = ", ".join(payload_limits(None))
        raise RequestRefused(422, "invalid", f"provider: expected one of {known}") from None
    report = await ask.services.trials.run(
        ask.params["name"],
        body.context,
        body.arguments,
        limits=limits,
        approve=body.approve,
        trial=own_trial(ask, body.trial),
    )
    answer = await ask.services.run(as_json, report)
    if report.outcome != "run":
        raise RequestRefused(TRY_STATUS[report.outcome], report.outcome, answer["error"])
    return await ask.services.run(partial(Tried, outcome=report.outcome, **answer))


def _context_of_try(ask: Ask) -> str | None:
    """Return the context, if it has the tool. Raises `RequestRefused` 403 for a caller who may not
    run a tool with such effects, and 404 if those of a tool that is not offered are unknown: its
    server may come back before the try."""
    context = ask.body.context
    if not ask.who.rights.covers(context):
        return None
    try:
        rows = _listed(ask, context).rows
    except NotThere:
        return None
    offered = {row.name: row.effects for row in rows if row.offered}
    effects = offered.get(ask.params["name"])
    if effects is not None:
        ask.need(_TRY[effects])
    elif not ask.who.rights.may(Permission.TOOLS_TRY_DESTRUCTIVE):
        raise RequestRefused(404, "not_there", "the context does not offer this tool now")
    return str(context)


def _listed(ask: Ask, context: str) -> ToolListing:
    """Return the tools of the context, or of the trial that the try is for. Raises `NotThere`."""
    trial = own_trial(ask, ask.body.trial)
    if trial is None:
        if context not in ask.services.config().contexts:
            raise NotThere(f"there is no context {context}")
        return ask.services.operations.engine.tools(context)
    if context != trial.context:
        raise NotThere(f"the trial is of the context {trial.context}")
    made = trial.generation
    return listed_tools(made.config, made.fleet, made.catalogue, context)


_CONTROL = Permission.MCP_CONTROL

ENDPOINTS = (
    Endpoint(
        "GET",
        "/engine",
        may=Permission.ENGINE_READ,
        scope=Scope.NONE,
        takes=None,
        gives=EngineState,
        audit=UNRECORDED,
        does=state,
    ),
    Endpoint(
        "POST",
        "/engine/reload",
        may=Permission.ENGINE_CONTROL,
        scope=Scope.NONE,
        takes=None,
        gives=Reloaded,
        audit="engine.reload",
        does=reload,
    ),
    Endpoint(
        "POST",
        "/config/check",
        may=Permission.CONFIG_DRAFT,
        scope=Scope.NONE,
        takes=Draft,
        gives=Checked,
        audit=UNRECORDED,
        does=check,
        pace=CHECK,
        most_bytes=2 * 1024 * 1024,
    ),
    Endpoint(
        "GET",
        "/engine/setup",
        may=Permission.CONFIG_DRAFT,
        scope=Scope.NONE,
        takes=None,
        asks=SetupOf,
        gives=Setup,
        audit=UNRECORDED,
        does=check_setup,
    ),
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
        "/tools",
        may=Permission.TOOLS_READ,
        scope=Scope.FILTERED,
        takes=None,
        asks=ToolsOf,
        gives=Tools,
        audit=UNRECORDED,
        does=list_tools,
    ),
    Endpoint(
        "POST",
        "/tools/{name}/try",
        may=Permission.TOOLS_TRY_READ_ONLY,
        scope=_context_of_try,
        takes=Try,
        gives=Tried,
        audit="tool.try",
        does=try_tool,
        pace=TRY,
        most_bytes=MOST_TRY_BYTES,
    ),
)
