"""Endpoints of the tools: list, reasons, tries."""

from __future__ import annotations

from functools import partial
from itertools import islice
from typing import Any

from pydantic import Field

from cordboard.accounts.rights import Permission
from cordboard.admin.endpoint import UNRECORDED, Ask, Endpoint, Gives, Scope, Takes
from cordboard.admin.pace import TRY
from cordboard.api.tools import TRY_STATUS, as_json
from cordboard.chat.tool_trial import payload_limits
from cordboard.errors import NotThere, RequestRefused

MOST_TRY_BYTES = 2 * 1024 * 1024
"""Bytes of a try's body: the desk must be able to receive arguments of a megabyte."""
_TRY = {
    "read_only": Permission.TOOLS_TRY_READ_ONLY,
    "idempotent": Permission.TOOLS_TRY_IDEMPOTENT,
    "destructive": Permission.TOOLS_TRY_DESTRUCTIVE,
}


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
        ask.params["name"], body.context, body.arguments, limits=limits, approve=body.approve
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
    if not ask.who.rights.covers(context) or context not in ask.services.config().contexts:
        return None
    rows = ask.services.operations.engine.tools(context).rows
    offered = {row.name: row.effects for row in rows if row.offered}
    effects = offered.get(ask.params["name"])
    if effects is not None:
        ask.need(_TRY[effects])
    elif not ask.who.rights.may(Permission.TOOLS_TRY_DESTRUCTIVE):
        raise RequestRefused(404, "not_there", "the context does not offer this tool now")
    return str(context)


ENDPOINTS = (
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
