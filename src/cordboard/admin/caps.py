"""The endpoint of the firewall's caps: callers, contexts, trunks and all calls, and their usage."""

from __future__ import annotations

from typing import Literal

from cordboard.accounts.rights import Permission
from cordboard.admin.endpoint import UNRECORDED, Ask, Endpoint, Gives, Scope
from cordboard.firewall.usage import CapUsage


class CapLimits(Gives):
    """Null: no limit."""

    live_calls: int | None
    calls_per_minute: int | None
    calls_per_hour: int | None
    calls_per_day: int | None
    minutes_per_day: float | None
    cost_per_day: float | None


class CapsUsed(Gives):
    live_calls: int
    calls_in_minute: float
    calls_in_hour: float
    calls: int
    """Of the day, as are minutes and cost."""
    minutes: float
    cost: float


class CapRow(Gives):
    direction: Literal["in", "out"]
    scope: Literal["caller", "context", "trunk", "total"]
    name: str
    """The context or trunk, such as `PJSIP/acme`; else empty."""
    caps: CapLimits
    used: CapsUsed | None
    """Null for `caller`: callers are counted one by one, without a name."""


class AllCaps(Gives):
    zone: str
    """Time zone of the day; empty: that of the engine's machine."""
    currency: str
    """Of the costs; empty if there are no prices."""
    rows: list[CapRow]


async def list_caps(ask: Ask) -> AllCaps:
    """Show the caps of the firewall, and what is used of them at this moment. A limited scope sees
    the caps of callers and of its contexts."""
    config, rights = ask.services.config(), ask.who.rights
    rows = [
        _row(each)
        for each in ask.services.caps()
        if each.scope == "caller"
        or (rights.covers(each.name) if each.scope == "context" else rights.everywhere)
    ]
    return AllCaps(zone=config.firewall.zone, currency=config.prices.currency, rows=rows)


def _row(usage: CapUsage) -> CapRow:
    used = usage.used
    shown = CapsUsed(
        live_calls=used.live,
        calls_in_minute=round(used.calls_in_minute, 2),
        calls_in_hour=round(used.calls_in_hour, 2),
        calls=used.calls,
        minutes=round(used.minutes, 2),
        cost=round(used.cost, 6),
    )
    return CapRow(
        direction=usage.direction,
        scope=usage.scope,
        name=usage.name,
        caps=CapLimits.model_validate(usage.caps.model_dump()),
        used=None if usage.scope == "caller" else shown,
    )


ENDPOINTS = (
    Endpoint(
        "GET",
        "/caps",
        may=Permission.CALLS_READ,
        scope=Scope.FILTERED,
        takes=None,
        gives=AllCaps,
        audit=UNRECORDED,
        does=list_caps,
    ),
)
