"""Endpoints of the tools: list, places and reasons, tries, examples, uses."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from itertools import islice
from typing import Any

from pydantic import Field

from cordboard.accounts.rights import Permission
from cordboard.admin.endpoint import UNRECORDED, Ask, Done, Endpoint, Gives, Scope, Takes
from cordboard.admin.history import keeper_of
from cordboard.admin.pace import TRY
from cordboard.admin.trials import TO_TRY, own_trial
from cordboard.agents.tool_places import tool_places, why_not
from cordboard.api.tools import TRY_STATUS, USUAL_DAYS, as_json
from cordboard.chat.tool_examples import ToolExample, now
from cordboard.chat.tool_trial import payload_limits
from cordboard.config.plugins import installed
from cordboard.errors import NotThere, RequestRefused
from cordboard.generation.tool_listing import ToolListing, ToolRow
from cordboard.generation.tool_listing import list_tools as listed_tools
from cordboard.history.tool_uses import RecentUse, recent_uses
from cordboard.observe.tool_usage_files import KEPT_DAYS
from cordboard.tools.masking import MASK
from cordboard.tools.secret_names import secret_names
from cordboard.tools.tool import Effects

MOST_TRY_BYTES = 2 * 1024 * 1024
"""Bytes of a try's body: the desk must be able to receive arguments of a megabyte."""
MOST_NAME = 100
_ID = re.compile("[a-z0-9_-]{1,40}")


class ToolsOf(Takes):
    context: str | None = Field(None, max_length=100)


class ToolFacts(Gives):
    name: str
    """Exposed name; `server.*` for a group that offers nothing."""
    kind: str
    """Empty if unknown."""
    origin: str
    server: str
    effects: str
    """Empty for a tool that is offered nowhere; so is `approval`."""
    approval: str
    description: str
    parameters: dict[str, Any]
    """JSON Schema of the arguments."""
    offered: bool
    """True if any of the contexts asked for has it."""


class Tool(ToolFacts):
    why_not: str
    """Reason why it is not offered; empty when it is."""
    contexts: list[str]
    """Those within the caller's scope that offer it."""


class Tools(Gives):
    context: str | None
    tools: list[Tool]


class Place(Gives):
    context: str
    provider: str
    offered: bool
    why_not: str
    """One sentence; empty when it is offered."""
    notes: list[str]
    """The changes of its schema for this provider."""


class ToolDetails(ToolFacts):
    places: list[Place]
    """Within the caller's scope."""


class PlaceOf(Takes):
    context: str = Field(max_length=100)
    provider: str | None = Field(None, max_length=100)
    """Left out: the context's own."""


class Try(Takes):
    context: str = Field(max_length=100)
    arguments: dict[str, Any] = Field({})
    provider: str | None = Field(None, max_length=100)
    """Show the payload for this kind of agent alone."""
    trial: str | None = Field(None, max_length=64)
    """A trial of the caller's, in place of the configuration in force."""
    approve: bool = False
    """Stands for the caller's yes."""
    confirm: str = Field("", max_length=100)
    """The tool's name once more, for a tool that is not `read_only`."""

    def facts(self) -> dict[str, Any]:
        """Return which arguments were given, up to 50; their values may be secret."""
        names = islice(self.arguments, 50)
        return {"arguments": sorted(names), "approve": self.approve}


class Payload(Gives):
    payload: dict[str, Any]
    """As the provider's model gets it."""
    bytes: int
    """Of the payload as JSON."""
    cut: list[str]
    """Parts that were left out or shortened."""


class Tried(Gives):
    outcome: str
    status: str
    call_id: str
    """Of the ledger of the try."""
    name: str
    message: str
    """Spoken to the caller."""
    data: Any
    """The whole result, before any provider's limits."""
    control: dict[str, Any]
    cut: list[str]
    took_ms: int
    payloads: dict[str, Payload]
    """By kind of provider."""


class Example(Gives):
    id: str
    tool: str
    context: str
    label: str
    arguments: dict[str, Any]
    saved_by: str
    saved_at: str


class Examples(Gives):
    examples: list[Example]
    """Of the contexts within the caller's scope."""


class NewExample(Takes):
    context: str = Field(max_length=100)
    label: str = Field("", max_length=200)
    arguments: dict[str, Any]

    def facts(self) -> dict[str, Any]:
        """Return which arguments were saved, up to 50; their values may be personal."""
        return {"arguments": sorted(islice(self.arguments, 50))}


class Use(Gives):
    call_id: str
    context: str
    provider: str
    at: str
    status: str
    took_ms: int | None
    arguments: dict[str, Any]
    """Without the grant `personal` only the names; the values are `•••`."""
    message: str
    """Spoken to the caller; empty without the grant `personal`."""
    data: dict[str, Any]
    """As the agent got it; empty without the grant `personal`."""
    cut: list[str]
    """Empty without the grant `personal`."""
    source: str


class Uses(Gives):
    uses: list[Use]
    """The newest first, at most 50."""


class UsageOf(Takes):
    days: int = Field(USUAL_DAYS, ge=1, le=KEPT_DAYS)
    context: str | None = Field(None, max_length=100)


class ToolCounts(Gives):
    tool: str
    calls: int
    ok: int
    errors: int
    timeouts: int
    refused: int
    cancelled: int
    cached: int
    """Answers that were used again."""
    p50_ms: int
    p95_ms: int
    longest_ms: int


class ToolTotals(ToolCounts):
    last_day: str


class ToolDay(ToolCounts):
    day: str
    context: str


class Usage(Gives):
    first_day: str
    last_day: str
    context: str | None
    tools: list[ToolTotals]
    rows: list[ToolDay]
    """The same by day and context."""


async def list_tools(ask: Ask) -> Tools:
    """List the tools of every kind, or those of a context; also those not offered, and why."""
    query: ToolsOf = ask.query
    listings = await _listings(ask, _contexts(ask))
    whole = [ask.services.operations.engine.tools()] if _everywhere(ask) else []

    def made() -> Tools:
        rows: dict[tuple[str, ...], ToolRow] = {}
        contexts: dict[tuple[str, ...], list[str]] = {}
        for listing in (*whole, *listings.values()):
            for row in listing.rows:
                which = row.name, row.origin, row.server  # two servers may offer one name
                if which not in rows or (row.offered and not rows[which].offered):
                    rows[which] = row
                if row.offered and listing.context is not None:
                    contexts.setdefault(which, []).append(listing.context)
        tools = [Tool(**asdict(row), contexts=contexts.get(at, [])) for at, row in rows.items()]
        return Tools(context=query.context, tools=tools)

    return await ask.services.run(made)


def _contexts(ask: Ask) -> list[str]:
    """Return the context of the query, or all within the scope. Raises `RequestRefused`."""
    if ask.query.context is None:
        return [name for name in ask.services.config().contexts if ask.who.rights.covers(name)]
    _known_context(ask, ask.query.context)
    return [ask.query.context]


def _everywhere(ask: Ask) -> bool:
    """Return True if the answer is also about tools that no context lists."""
    return ask.query.context is None and ask.who.rights.everywhere


def _known_context(ask: Ask, context: str) -> None:
    """Raise `RequestRefused` 404 for a context that is not there, or outside of the scope."""
    known = [name for name in ask.services.config().contexts if ask.who.rights.covers(name)]
    if context not in known:
        message = f"there is no context {context[:64]!r}; known: {', '.join(known)}"
        raise RequestRefused(404, "not_there", message)


async def show_tool(ask: Ask) -> ToolDetails:
    """Show one tool: its schema, and each context and provider, with the reason where it is not
    offered."""
    config = ask.services.config()
    tool, listings = await _tool_in(ask, _contexts(ask))

    def made() -> ToolDetails:
        places = tool_places(tool, config, listings, installed())
        facts = asdict(tool)
        del facts["why_not"]
        return ToolDetails(
            **facts | {"offered": any(place.offered for place in places)},
            places=[Place(**asdict(place)) for place in places],
        )

    return await ask.services.run(made)


async def why_tool(ask: Ask) -> Place:
    """Say whether a context offers a tool to a provider, and why not."""
    query: PlaceOf = ask.query
    _known_context(ask, query.context)
    tool, listings = await _tool_in(ask, [query.context])
    config, listing = ask.services.config(), listings[query.context]
    place = await ask.services.run(
        why_not, tool, query.context, query.provider, config, listing, installed()
    )
    return Place(**asdict(place))


async def _tool_in(ask: Ask, contexts: Sequence[str]) -> tuple[ToolRow, dict[str, ToolListing]]:
    """Return the tool, and the listings of these contexts. Raises `RequestRefused` 404 for one that
    is unknown, or known outside of the caller's scope alone."""
    name, engine = ask.params["name"], ask.services.operations.engine
    listings = await _listings(ask, contexts)
    rows = [row for listing in listings.values() for row in listing.rows]
    if ask.who.rights.everywhere:
        rows += engine.tools().rows
    found = [row for row in rows if row.name == name]
    if not found:
        raise RequestRefused(404, "not_there", "there is no such tool")
    return next((row for row in found if row.offered), found[0]), listings


async def _listings(ask: Ask, contexts: Sequence[str]) -> dict[str, ToolListing]:
    listings: dict[str, ToolListing] = {}
    for context in contexts:
        listings[context] = ask.services.operations.engine.tools(context)
        await asyncio.sleep(0)  # a listing takes a moment, and calls run meanwhile
    return listings


async def try_tool(ask: Ask) -> Tried:
    """Run a tool as an agent of the context would, with all its effects, without a call."""
    body: Try = ask.body
    try:
        limits = payload_limits(body.provider)
    except NotThere:
        known = ", ".join(payload_limits(None))
        raise RequestRefused(422, "invalid", f"provider: expected one of {known}") from None
    name, rights = ask.params["name"], ask.who.rights
    report = await ask.services.trials.run(
        name,
        body.context,
        body.arguments,
        limits=limits,
        approve=body.approve,
        trial=own_trial(ask, body.trial),
        effects=[
            effects
            for effects, permission in TO_TRY.items()
            if rights.may(permission) and (effects is Effects.READ_ONLY or body.confirm == name)
        ],
    )
    answer = await ask.services.run(as_json, report)
    if report.outcome != "run":
        raise RequestRefused(TRY_STATUS[report.outcome], report.outcome, answer["error"])
    return await ask.services.run(partial(Tried, outcome=report.outcome, **answer))


def _context_of_try(ask: Ask) -> str | None:
    """Return the context, if it has the tool. Raises `RequestRefused` 403 for a caller who may not
    run a tool with such effects, 409 without the confirmation that it needs, and 404 if the effects
    of a tool that is not offered are unknown: its server may come back before the try."""
    name, context = ask.params["name"], ask.body.context
    if not ask.who.rights.covers(context):
        return None
    try:
        rows = _listed(ask, context).rows
    except NotThere:
        return None
    offered = {row.name: Effects(row.effects) for row in rows if row.offered}
    effects = offered.get(name)
    if effects is None:
        if not ask.who.rights.may(Permission.TOOLS_TRY_DESTRUCTIVE):
            raise RequestRefused(404, "not_there", "the context does not offer this tool now")
        return str(context)
    ask.need(TO_TRY[effects])
    if effects is not Effects.READ_ONLY and ask.body.confirm != name:
        message = f"the tool is {effects}: give its name once more as `confirm`"
        raise RequestRefused(409, "needs_confirmation", message)
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


async def list_examples(ask: Ask) -> Examples:
    """List the saved arguments of a tool."""
    found = ask.services.examples.of_tool(ask.params["name"])
    covers = ask.who.rights.covers
    shown = [Example(**asdict(each)) for each in found if covers(each.context)]
    return Examples(examples=shown)


async def show_example(ask: Ask) -> Example:
    """Show saved arguments of a tool."""
    return Example(**asdict(_example(ask)))


async def save_example(ask: Ask) -> Example:
    """Save arguments of a tool, in place of those with that id. Secrets are refused."""
    body: NewExample = ask.body
    name, example_id = ask.params["name"], ask.params["example_id"]
    if not _ID.fullmatch(example_id) or len(name) > MOST_NAME:
        raise RequestRefused(422, "invalid", "id: expected 1 to 40 of a-z, 0-9, - and _")
    example = ToolExample(
        example_id, name, body.context, body.label, body.arguments, ask.who.name, now()
    )
    specs = ask.services.operations.engine.tools(body.context).specs
    secret = next((secret_names(spec) for spec in specs if spec.name == name), None)
    if secret is None:  # which of its arguments are secret is not known
        raise RequestRefused(409, "not_offered", "the context does not offer this tool now")
    await ask.services.run(ask.services.examples.put, example, secret)
    return Example(**asdict(example))


async def remove_example(ask: Ask) -> Done:
    """Remove saved arguments of a tool."""
    example = _example(ask)
    await ask.services.run(ask.services.examples.remove, example.tool, example.id)
    return Done()


def _example(ask: Ask) -> ToolExample:
    found = ask.services.examples.find(ask.params["name"], ask.params["example_id"])
    if found is None:
        raise RequestRefused(404, "not_there", "there is no such example")
    return found


def _context_of_example(ask: Ask) -> str | None:
    found = ask.services.examples.find(ask.params["name"], ask.params["example_id"])
    return found.context if found is not None else None


def _context_of_new_example(ask: Ask) -> str | None:
    """Return the context; None for one outside of the scope, also of the example to replace."""
    before = _context_of_example(ask)
    if before is not None and not ask.who.rights.covers(before):
        return None
    context = str(ask.body.context)
    return context if context in ask.services.config().contexts else None


async def tool_uses(ask: Ask) -> Uses:
    """List the last 50 real uses of a tool, within the scope; needs `calls.index`."""
    services, rights = ask.services, ask.who.rights
    keeper = keeper_of(ask)
    contexts = frozenset(name for name in services.config().contexts if rights.covers(name))
    found = await services.run(
        recent_uses,
        ask.params["name"],
        keeper.store,
        keeper.directory,
        None if rights.everywhere else contexts,
        keeper.vault,
    )
    personal = rights.may(Permission.PERSONAL)
    return Uses(uses=[_use(each, personal=personal) for each in found])


def _use(recent: RecentUse, *, personal: bool) -> Use:
    call, use = recent.call, recent.use
    return Use(
        call_id=call.id,
        context=call.context,
        provider=call.provider,
        at=recent.at,
        status=use.status,
        took_ms=recent.took_ms,
        arguments=dict(use.arguments) if personal else dict.fromkeys(use.arguments, MASK),
        message=use.message if personal else "",
        data=dict(use.sent) if personal else {},
        cut=use.cut if personal else [],
        source=use.source,
    )


async def tool_usage(ask: Ask) -> Usage:
    """Count the uses of the tools in calls of the last days, with waits and failures."""
    query: UsageOf = ask.query
    if query.context is not None:
        _known_context(ask, query.context)
    covers = ask.who.rights.covers
    told = await ask.services.usage.report(query.days, query.context, covers)
    return Usage(
        first_day=told["from"],
        last_day=told["to"],
        context=told["context"],
        tools=[ToolTotals(**each) for each in told["tools"]],
        rows=[ToolDay(**each) for each in told["rows"]],
    )


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
    Endpoint(
        "GET",
        "/tools/{name}",
        may=Permission.TOOLS_READ,
        scope=Scope.FILTERED,
        takes=None,
        asks=ToolsOf,
        gives=ToolDetails,
        audit=UNRECORDED,
        does=show_tool,
    ),
    Endpoint(
        "GET",
        "/tools/{name}/why",
        may=Permission.TOOLS_READ,
        scope=Scope.FILTERED,
        takes=None,
        asks=PlaceOf,
        gives=Place,
        audit=UNRECORDED,
        does=why_tool,
    ),
    Endpoint(
        "GET",
        "/tools/{name}/uses",
        may=Permission.TOOLS_READ,
        scope=Scope.FILTERED,
        takes=None,
        gives=Uses,
        audit=UNRECORDED,
        does=tool_uses,
    ),
    Endpoint(
        "GET",
        "/tool-usage",
        may=Permission.TOOLS_READ,
        scope=Scope.FILTERED,
        takes=None,
        asks=UsageOf,
        gives=Usage,
        audit=UNRECORDED,
        does=tool_usage,
    ),
    Endpoint(
        "GET",
        "/tools/{name}/examples",
        may=Permission.TOOLS_TRY_READ_ONLY,
        scope=Scope.FILTERED,
        takes=None,
        gives=Examples,
        audit=UNRECORDED,
        does=list_examples,
    ),
    Endpoint(
        "GET",
        "/tools/{name}/examples/{example_id}",
        may=Permission.TOOLS_TRY_READ_ONLY,
        scope=_context_of_example,
        takes=None,
        gives=Example,
        audit=UNRECORDED,
        does=show_example,
    ),
    Endpoint(
        "PUT",
        "/tools/{name}/examples/{example_id}",
        may=Permission.TOOLS_TRY_READ_ONLY,
        scope=_context_of_new_example,
        takes=NewExample,
        gives=Example,
        audit="tool.example.save",
        does=save_example,
        most_bytes=64 * 1024,
    ),
    Endpoint(
        "DELETE",
        "/tools/{name}/examples/{example_id}",
        may=Permission.TOOLS_TRY_READ_ONLY,
        scope=_context_of_example,
        takes=None,
        gives=Done,
        audit="tool.example.remove",
        does=remove_example,
    ),
)
