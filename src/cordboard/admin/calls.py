"""Endpoints of the live calls: list, hang up, transfer, take over, join."""

from __future__ import annotations

import datetime
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, Literal

from pydantic import Field

from cordboard.accounts.rights import Permission
from cordboard.admin.endpoint import UNRECORDED, Ask, Done, Endpoint, Gives, Scope, Takes
from cordboard.admin.live_calls import mask_row
from cordboard.calls.call import Call, CallState
from cordboard.calls.transfer.conference import AgentPart
from cordboard.errors import RequestRefused
from cordboard.history.masking import masked

_OVER = (CallState.ENDING, CallState.RECORDED)
_STATES = frozenset(map(str, CallState))


class LiveCall(Gives):
    call_id: str
    context: str
    provider: str
    source: str
    direction: Literal["in", "out"]
    """`out`: the engine placed the call, and the caller is the called one."""
    state: CallState
    started_at: str
    duration_ms: int
    caller_number: str
    """Masked to its last four digits without the grant `personal`."""
    caller_name: str
    """Empty without the grant `personal`."""
    called_number: str
    cost: float | None
    """So far; null if no price is known."""
    node: str = ""
    """Node that has the call; empty without a cluster."""
    unknown_since: str | None = None
    """Time since which the node has not answered; null while it answers."""


class LiveCalls(Gives):
    at: str
    calls: list[LiveCall]


class Transfer(Takes):
    destination: str = Field(max_length=100)
    """A name under `tools.transfer.destinations`: there are no others."""

    def facts(self) -> dict[str, Any]:
        """Return the destination."""
        return {"destination": self.destination}


class ConferenceRequest(Transfer):
    agent: AgentPart = "talks"
    """`quiet`: the agent says nothing until the operator has left."""

    def facts(self) -> dict[str, Any]:
        """Return the destination, and the agent's part."""
        return {"destination": self.destination, "agent": self.agent}


class Hangup(Takes):
    reason: str = Field("", max_length=200)
    """For the ledger."""


async def list_live(ask: Ask) -> LiveCalls:
    """List the calls of this moment, of all engines of the cluster, the oldest first."""
    rights, now = ask.who.rights, datetime.datetime.now().astimezone()
    personal = rights.may(Permission.PERSONAL)
    live = [call for call in ask.services.calls().values() if rights.covers(call.context_name)]
    others = ask.services.others
    node = others.door.node if others is not None else ""
    rows = [_row(call, now, node, personal=personal) for call in live]
    if others is not None:
        await others.look()
        found = ask.services.feed.live.rows_elsewhere(rights)
        rows += [_row_elsewhere(each if personal else mask_row(each), now) for each in found]
    return LiveCalls(
        at=now.isoformat(timespec="milliseconds"),
        calls=sorted(rows, key=lambda row: row.started_at),
    )


async def hang_up(ask: Ask) -> Done:
    """End a call at once. The ledger has the reason `operator_hangup`, and who gave which."""
    live_call(ask).operator.hang_up(ask.body.reason, ask.who.name)
    return Done()


async def transfer(ask: Ask) -> Done:
    """Transfer the caller, once the agent's present sentence is over.

    Answers when the telephone system has taken over; 409 if it has not: the caller is with the
    agent, as is one whom the dialplan hands back later.
    """
    # Blind, whatever the destination's mode: an attended one may take as long as a talk.
    return await _move(ask, lambda call, destination: call.operator.transfer(destination))


async def take_over(ask: Ask) -> Done:
    """Connect the caller with the phone of a destination that has `takeover`; the agent leaves.

    Answers when they talk; 409 if the phone is not answered, and the caller is with the agent.
    """
    who = ask.who.name
    return await _move(ask, lambda call, destination: call.operator.take_over(destination, who))


async def confer(ask: Ask) -> Done:
    """Join a call from the phone of a destination that has `takeover`, as a third party.

    Answers when they hear each other; 409 if the person does not join: the call goes on as it was.
    """
    body: ConferenceRequest = ask.body
    operator, who = live_call(ask).operator, ask.who.name
    try:
        await operator.confer(body.destination, who, quiet=body.agent == "quiet")
    except KeyError:  # the call began with an older configuration
        raise _newer(body.destination) from None
    return Done()


async def _move(ask: Ask, move: Callable[[Call, str], Awaitable[None]]) -> Done:
    """Transfer a caller who talks with the agent, one request at a time."""
    body: Transfer = ask.body
    call, moving = live_call(ask), ask.services.transferring
    if call.state is not CallState.TALKING or call.call_id in moving:
        raise RequestRefused(409, "not_now", "the caller cannot be transferred at this moment")
    moving.add(call.call_id)
    try:
        await move(call, body.destination)
    except KeyError:  # the call began with an older configuration
        raise _newer(body.destination) from None
    finally:
        moving.discard(call.call_id)
    return Done()


def _newer(destination: str) -> RequestRefused:
    return RequestRefused(422, "invalid", f"destination: {destination} is newer than the call")


def context_of_call(ask: Ask) -> str | None:
    call = ask.services.calls().get(ask.params["call_id"])
    return call.context_name if call is not None else None


def _context_of_transfer(ask: Ask) -> str | None:
    return _context_for(ask, ask.services.config().destinations)


def _context_of_takeover(ask: Ask) -> str | None:
    known = ask.services.config().destinations
    return _context_for(ask, [name for name, each in known.items() if each.takeover])


def _context_for(ask: Ask, known: Collection[str]) -> str | None:
    """Return the call's context. Raises `RequestRefused` 422 for a destination that is unknown."""
    context = context_of_call(ask)
    if context is not None and ask.who.rights.covers(context) and ask.body.destination not in known:
        names = ", ".join(known) or "none"
        raise RequestRefused(422, "invalid", f"destination: unknown; known: {names}")
    return context


def live_call(ask: Ask) -> Call:
    """Return the call. Raises `RequestRefused` 409 when it is over or ends meanwhile."""
    call = ask.services.calls().get(ask.params["call_id"])
    if call is None or call.state in _OVER:
        raise RequestRefused(409, "ended", "the call is over")
    return call


def _row_elsewhere(row: Mapping[str, Any], now: datetime.datetime) -> LiveCall:
    """Return the row of another engine's call, from its row in the live feed."""
    state, cost = row["state"], row["cost"]
    begun = datetime.datetime.fromisoformat(row["started_at"])
    same = ("call_id", "context", "provider", "source", "direction", "started_at")
    numbers = ("caller_number", "caller_name", "called_number", "node", "unknown_since")
    return LiveCall(
        **{name: row[name] for name in (*same, *numbers)},
        state=CallState(state) if state in _STATES else CallState.TALKING,
        duration_ms=max(0, round((now - begun).total_seconds() * 1000)),
        cost=float(cost["amount"]) if cost is not None else None,
    )


def _row(call: Call, now: datetime.datetime, node: str, *, personal: bool) -> LiveCall:
    offer = call.offer
    return LiveCall(
        call_id=call.call_id,
        context=call.context_name,
        provider=call.provider_name,
        source=offer.source,
        direction="in" if offer.outbound is None else "out",
        state=call.state,
        started_at=call.started_at.isoformat(timespec="milliseconds"),
        duration_ms=max(0, round((now - call.started_at).total_seconds() * 1000)),
        caller_number=offer.caller_number if personal else masked(offer.caller_number),
        caller_name=offer.caller_name if personal else "",
        called_number=offer.called_number,
        cost=call.cost,
        node=node,
    )


ENDPOINTS = (
    Endpoint(
        "GET",
        "/calls/live",
        may=Permission.CALLS_READ,
        scope=Scope.FILTERED,
        takes=None,
        gives=LiveCalls,
        audit=UNRECORDED,
        does=list_live,
    ),
    Endpoint(
        "POST",
        "/calls/{call_id}/hangup",
        may=Permission.CALLS_CONTROL,
        scope=context_of_call,
        takes=Hangup,
        gives=Done,
        audit="call.hangup",
        does=hang_up,
        repeatable=True,
        forwards=True,
    ),
    Endpoint(
        "POST",
        "/calls/{call_id}/transfer",
        may=Permission.CALLS_CONTROL,
        scope=_context_of_transfer,
        takes=Transfer,
        gives=Done,
        audit="call.transfer",
        does=transfer,
        repeatable=True,
        forwards=True,
    ),
    Endpoint(
        "POST",
        "/calls/{call_id}/takeover",
        may=Permission.CALLS_CONTROL,
        scope=_context_of_takeover,
        takes=Transfer,
        gives=Done,
        audit="call.takeover",
        does=take_over,
        repeatable=True,
        forwards=True,
    ),
    Endpoint(
        "POST",
        "/calls/{call_id}/conference",
        may=Permission.CALLS_CONTROL,
        scope=_context_of_takeover,
        takes=ConferenceRequest,
        gives=Done,
        audit="call.conference",
        does=confer,
        repeatable=True,
        forwards=True,
    ),
)
