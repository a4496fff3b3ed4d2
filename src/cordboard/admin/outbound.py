"""Endpoints of outbound calls (`cordboard.outbound.placing`): place one, ask first what the
firewall says about its number, and the do-not-call list. The end of a call is in the history."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Annotated, Any, Concatenate, ParamSpec, TypeVar

from pydantic import Field

from cordboard.accounts.rights import Permission
from cordboard.admin.endpoint import UNRECORDED, Ask, Done, Endpoint, Gives, Scope, Takes
from cordboard.admin.pace import TRY
from cordboard.api.outbound import STATUS
from cordboard.errors import (
    CampaignRefused,
    NotThere,
    OutboundRefused,
    RequestRefused,
    StoreUnavailable,
)
from cordboard.history.masking import masked
from cordboard.outbound.campaigns.making import numbers_to_block
from cordboard.outbound.campaigns.results import iso_time
from cordboard.outbound.campaigns.store import CampaignStore
from cordboard.outbound.placing import MOST_PURPOSE, MOST_REASON, CallWanted, is_for_now

P = ParamSpec("P")
Result = TypeVar("Result")
_Number = Annotated[str, Field(max_length=40)]
"""In E.164, such as +4722000000, or as in `firewall.country`."""


class CallableContext(Gives):
    context: str
    variables: list[str]
    """Names that it declares."""


class OutboundState(Gives):
    enabled: bool
    """False: no call can be placed (`outbound.enabled`)."""
    live: int
    """Outbound calls now, within the caller's scope."""
    max_calls: int
    contexts: list[CallableContext]


class PlaceCall(Takes):
    number: _Number
    context: str = Field(max_length=100)
    message: str = Field("", max_length=1_000)
    """Left to a voicemail after its beep; empty: it is hung up on."""
    keys: list[Annotated[str, Field(pattern=r"^[0-9*#A-Dw]{1,40}$")]] = Field([], max_length=20)
    """Keys for a menu, step by step; empty: it is hung up on."""
    variables: dict[str, Annotated[str, Field(max_length=1_000)]] = Field({}, max_length=50)
    """Variables that the context declares."""
    purpose: str = Field("", max_length=MOST_PURPOSE)
    """Why, for a call-screening service; empty: the context's."""
    despite_block: str = Field("", max_length=MOST_REASON)
    """Reason to call a number on the do-not-call list, for the audit; empty: it is not called."""

    def facts(self) -> dict[str, Any]:
        """Return the masked number, and why it is called although it is blocked."""
        despite = {"despite_block": self.despite_block} if self.despite_block else {}
        return {"number": masked(self.number), "message": bool(self.message), **despite}


class CallPlaced(Gives):
    call_id: str


class PlacedCall(Gives):
    live: bool
    """True while it is dialled or talks, in this engine or another one."""
    outcome: str
    """How it ended, such as `interrupted`: its engine was killed. Empty while it lives."""
    reason: str


class NumberOf(Takes):
    number: _Number
    context: str = Field(max_length=100)


class NumberChecked(Gives):
    number: str
    """In E.164; empty if it cannot be read."""
    country: str
    """ISO 3166 code; empty if it has none."""
    kind: str
    """Its class, such as `mobile`; empty if it cannot be read."""
    allowed: bool
    """False: the firewall refuses it now."""
    rule: str
    why: str
    for_now: bool
    """True if the refusal ends by itself: by hours, or by a cap."""
    blocked: bool
    """True if it is on the do-not-call list: a call needs a reason."""


class PageOfBlocked(Takes):
    limit: int = Field(50, ge=1, le=200)
    cursor: int | None = Field(None, ge=0)
    """`next` of the page before."""


class BlockedNumber(Gives):
    number: str
    """Masked to its last four digits without the grant `personal`."""
    since: str


class BlockedNumbers(Gives):
    numbers: list[BlockedNumber]
    """The newest first."""
    next: int | None
    """Cursor of the next page; null on the last one."""


class NumbersToBlock(Takes):
    numbers: list[_Number] = Field(min_length=1, max_length=1_000)

    def facts(self) -> dict[str, Any]:
        """Return how many there are, and the first ones masked."""
        return {"numbers": len(self.numbers), "first": [*map(masked, self.numbers[:10])]}


class NumbersBlocked(Gives):
    added: int
    """Numbers that are new on the list."""


class NumberToUnblock(Takes):
    number: _Number

    def facts(self) -> dict[str, Any]:
        """Return the masked number."""
        return {"number": masked(self.number)}


async def with_campaigns(
    ask: Ask,
    work: Callable[Concatenate[CampaignStore, P], Result],
    *args: P.args,
    **kwargs: P.kwargs,
) -> Result:
    """Work on the campaigns' file in a thread. Raises `StoreUnavailable`."""
    path = ask.services.outbound.campaigns

    def opened() -> Result:
        try:
            with closing(CampaignStore(path)) as store:
                return work(store, *args, **kwargs)
        except sqlite3.Error as error:
            raise StoreUnavailable(f"the campaigns' file cannot be used: {error}") from error

    return await ask.services.run(opened)


async def has_campaigns(ask: Ask) -> bool:
    """Return True if the campaigns' file is there: it is not made by a look at it."""
    path = ask.services.outbound.campaigns
    return await ask.services.run(path.exists)


async def outbound_state(ask: Ask) -> OutboundState:
    """Show whether the engine may call, how much it calls now, and the contexts that can talk."""
    config, rights, live = ask.services.config(), ask.who.rights, ask.services.outbound.live
    if not rights.everywhere:
        placed = [call for call in ask.services.calls().values() if call.offer.outbound is not None]
        live = sum(rights.covers(call.context_name) for call in placed)
    return OutboundState(
        enabled=config.outbound.enabled,
        live=live,
        max_calls=config.outbound.max_calls,
        contexts=[
            CallableContext(context=name, variables=list(context.variables))
            for name, context in config.contexts.items()
            if rights.covers(name)
        ],
    )


async def place_call(ask: Ask) -> CallPlaced:
    """Call a number, and let a context talk. The call goes on by itself.

    `firewall` of the configuration decides which numbers may be called and when, `outbound` how
    many at a time. A number on the do-not-call list is called only with a reason.
    """
    body: PlaceCall = ask.body
    wanted = CallWanted(
        body.number,
        body.context,
        body.message,
        tuple(body.keys),
        dict(body.variables),
        ask.attempt.id if ask.attempt is not None else "",
        despite_block=body.despite_block,
        purpose=body.purpose,
    )
    try:
        call_id = await ask.services.outbound.place(wanted)
    except OutboundRefused as error:
        await ask.record_failure(error.reason)
        raise _refused(error) from None
    return CallPlaced(call_id=call_id)


async def show_placed_call(ask: Ask) -> PlacedCall:
    """Show whether a single call lives, or how it ended, also if it never began to talk and is not
    in the history."""
    with _known_calls():
        result = await ask.services.outbound.state(ask.params["call_id"])
    if result is None:
        return PlacedCall(live=True, outcome="", reason="")
    return PlacedCall(live=False, outcome=result.outcome, reason=result.reason)


async def _context_of_placed(ask: Ask) -> str | None:
    """Find the single call that the path names; the scope of an endpoint."""
    with _known_calls():
        return await ask.services.outbound.context_of(ask.params["call_id"]) or None


@contextmanager
def _known_calls() -> Iterator[None]:
    try:
        yield
    except KeyError:
        raise NotThere("there is no such outbound call") from None
    except OutboundRefused as error:
        raise _refused(error) from None


async def check_number(ask: Ask) -> NumberChecked:
    """Say what the firewall and the do-not-call list say about a number now. Nothing is dialled."""
    body: NumberOf = ask.body
    try:
        judged = await ask.services.outbound.judge(body.number, body.context)
    except OutboundRefused as error:
        raise _refused(error) from None
    read, decision = judged.number, judged.decision
    return NumberChecked(
        number=read.text if read is not None else "",
        country=read.country if read is not None else "",
        kind=read.kind if read is not None else "",
        allowed=decision.allowed,
        rule=decision.rule,
        why=decision.why,
        for_now=is_for_now(decision),
        blocked=judged.blocked,
    )


def _refused(error: OutboundRefused) -> RequestRefused:
    field = ""
    if error.reason in ("not_allowed", "not_now", "do_not_call"):  # keys have rules of their own
        field = "keys" if str(error).startswith("keys.") else "number"
    return RequestRefused(STATUS[error.reason], error.reason, str(error), at=_at(error, field))


async def list_blocked(ask: Ask) -> BlockedNumbers:
    """List the numbers that are not called, the newest first."""
    limit, personal = ask.query.limit, ask.who.rights.may(Permission.PERSONAL)
    if not await has_campaigns(ask):
        return BlockedNumbers(numbers=[], next=None)
    rows = await with_campaigns(ask, CampaignStore.blocked, limit + 1, ask.query.cursor)
    return BlockedNumbers(
        numbers=[
            BlockedNumber(
                number=row["number"] if personal else masked(row["number"]),
                since=iso_time(row["since"]),
            )
            for row in rows[:limit]
        ],
        next=rows[limit - 1]["row"] if len(rows) > limit else None,
    )


async def block_numbers(ask: Ask) -> NumbersBlocked:
    """Put numbers on the do-not-call list; if one cannot be read, none.

    It counts at once, for all campaigns and single calls.
    """
    numbers = await _in_e164(ask, ask.body.numbers, "numbers")
    return NumbersBlocked(added=await with_campaigns(ask, CampaignStore.block, numbers))


async def unblock_number(ask: Ask) -> Done:
    """Take a number off the do-not-call list: it may be called again."""
    numbers = await _in_e164(ask, [ask.body.number], "number")
    for number in numbers if await has_campaigns(ask) else ():
        if await with_campaigns(ask, CampaignStore.unblock, number):
            return Done()
    raise NotThere("the number is not on the do-not-call list")


async def _in_e164(ask: Ask, written: list[str], field: str) -> list[str]:
    """Return numbers in E.164, read in a thread: a thousand would hold up the calls' audio. Raises
    `RequestRefused`."""
    country = ask.services.config().firewall.country
    try:
        return await ask.services.run(numbers_to_block, written, country)
    except CampaignRefused as error:
        raise invalid(error, field) from None


def invalid(error: CampaignRefused, field: str) -> RequestRefused:
    """Return the refusal of a body. `field` is the one that is wrong; empty if it is none."""
    return RequestRefused(422, "invalid", str(error), at=_at(error, field))


def _at(error: Exception, field: str) -> list[dict[str, str]]:
    return [{"key": field, "message": str(error)}] if field else []


def context_of_body(ask: Ask) -> str | None:
    """Return the context that a body names, if it is there; the scope of an endpoint."""
    name: str = ask.body.context
    return name if name in ask.services.config().contexts else None


_LIST = "/do-not-call"
ENDPOINTS = (
    Endpoint(
        "GET",
        "/outbound",
        may=Permission.CALLS_READ,
        scope=Scope.FILTERED,
        takes=None,
        gives=OutboundState,
        audit=UNRECORDED,
        does=outbound_state,
    ),
    Endpoint(
        "GET",
        "/outbound/calls/{call_id}",
        may=Permission.CALLS_READ,
        scope=_context_of_placed,
        takes=None,
        gives=PlacedCall,
        audit=UNRECORDED,
        does=show_placed_call,
    ),
    Endpoint(
        "POST",
        "/calls",
        may=Permission.CALLS_PLACE,
        scope=context_of_body,
        takes=PlaceCall,
        gives=CallPlaced,
        audit="call.place",
        does=place_call,
        pace=TRY,
        repeatable=True,
    ),
    Endpoint(
        "POST",
        "/calls/check-number",
        may=Permission.CALLS_PLACE,
        scope=context_of_body,
        takes=NumberOf,
        gives=NumberChecked,
        audit=UNRECORDED,
        does=check_number,
    ),
    Endpoint(
        "GET",
        _LIST,
        may=Permission.CALLS_READ,
        scope=Scope.ALL,
        takes=None,
        asks=PageOfBlocked,
        gives=BlockedNumbers,
        audit=UNRECORDED,
        does=list_blocked,
    ),
    Endpoint(
        "POST",
        _LIST,
        may=Permission.CALLS_PLACE,
        scope=Scope.NONE,
        takes=NumbersToBlock,
        gives=NumbersBlocked,
        audit="do_not_call.add",
        does=block_numbers,
    ),
    Endpoint(
        "POST",
        f"{_LIST}/remove",
        may=Permission.CALLS_PLACE,
        scope=Scope.ALL,
        takes=NumberToUnblock,
        gives=Done,
        audit="do_not_call.remove",
        does=unblock_number,
        elevated=True,
    ),
)
