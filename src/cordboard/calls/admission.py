"""Whether a caller is taken in, and how one who is not is turned away.

Nobody is turned away without the dialplan having its say: the caller goes back to it, unanswered,
with `CORDBOARD_STATUS` set to the word of `DIALPLAN_STATUS` (see docs/load.md for what it can do).
Each reason is counted as `ai_agent_refused_offers_total{reason=...}`.
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
"""What the dialplan is told, by the reason: `busy` will pass, `unavailable` may not."""


def reason_to_refuse(
    *, draining: bool, live_calls: int, max_calls: int, degradation: Degradation
) -> str:
    """Why the next caller cannot be taken in; empty when they can."""
    if draining:
        return DRAINING
    if live_calls >= max_calls:
        return BUSY
    return "" if degradation.admits_calls else OVERLOADED


async def turn_away(offer: Offer, reason: str, internal_error: Callable[[str], None]) -> None:
    """Give a caller back to the dialplan and let the line go. Whatever fails is logged; what should
    not have is counted too (`internal_error(where)`)."""
    line = offer.control
    for step in (partial(give_back, line, DIALPLAN_STATUS[reason]), line.release):
        try:
            async with asyncio.timeout(STEP_LIMIT):
                await step()
        except Exception as error:  # noqa: BLE001 - task border: nobody could do better
            log.error("refusal_failed", call_id=offer.call_id, error=repr(error))
            if not isinstance(error, (LineError, TimeoutError)):
                internal_error("refusal")
