"""Decides whether a caller is admitted, and gives a refused caller back to the dialplan.

A refused call always returns to the dialplan, unanswered, with `CORDBOARD_STATUS` set to the value
of `DIALPLAN_STATUS` (see docs/load.md for what the dialplan can do). Each reason is counted as
`ai_agent_refused_offers_total{reason=...}`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial

import structlog

from cordboard.calls.bare_calls import BARE_BUDGET, BARE_BUSY, BARE_RATE
from cordboard.calls.offer import Offer
from cordboard.calls.teardown import STEP_LIMIT, give_back
from cordboard.errors import LineError
from cordboard.observe.degradation import Degradation

log = structlog.get_logger()

BUSY, OVERLOADED, DRAINING = "busy", "overloaded", "draining"
NO_AGENT, INTERNAL_ERROR = "no_agent", "internal_error"
DIALPLAN_STATUS: Mapping[str, str] = {
    BUSY: "busy",
    OVERLOADED: "busy",
    DRAINING: "unavailable",
    NO_AGENT: "unavailable",
    INTERNAL_ERROR: "unavailable",
    BARE_BUSY: "busy",
    BARE_RATE: "busy",
    BARE_BUDGET: "busy",
}
"""Status for the dialplan, by reason: `busy` is temporary, `unavailable` may not be."""


def reason_to_refuse(
    *, draining: bool, live_calls: int, max_calls: int, degradation: Degradation
) -> str:
    """Return why the next caller cannot be admitted; empty if they can."""
    if draining:
        return DRAINING
    if live_calls >= max_calls:
        return BUSY
    return "" if degradation.admits_calls else OVERLOADED


async def turn_away(offer: Offer, reason: str, internal_error: Callable[[str], None]) -> None:
    """Give a caller back to the dialplan and release the line. Failures are logged; unexpected ones
    are also counted (`internal_error(where)`)."""
    line = offer.control
    for step in (partial(give_back, line, DIALPLAN_STATUS[reason]), line.release):
        try:
            async with asyncio.timeout(STEP_LIMIT):
                await step()
        except Exception as error:  # noqa: BLE001 - task border: there is no better handler
            log.error("refusal_failed", call_id=offer.call_id, error=repr(error))
            if not isinstance(error, (LineError, TimeoutError)):
                internal_error("refusal")
