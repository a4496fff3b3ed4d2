"""The end-of-turn model's judgement of the melody before a pause.

The model may fail; the call continues, and words and silence decide.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import structlog

from cordboard.agent_api.agent import INTERNAL, AgentSession, AgentTrouble

TurnOdds = Callable[[bytes], Awaitable[float]]
"""The end-of-turn model: s16 at 8 kHz of the utterance so far to the probability, 0..1, that the
turn is over."""

log = structlog.get_logger()


async def odds_of(pcm: bytes, turn_odds: TurnOdds, session: AgentSession) -> float | None:
    """Return the model's answer; None when it fails, which is logged and counted."""
    try:
        return await turn_odds(pcm)
    except Exception as error:  # border: the words decide without the model
        log.error("turn_model_failed", call_id=session.call_id, exc_info=error)
        session.emit(AgentTrouble(INTERNAL, f"end-of-turn model: {error!r}"))
        return None
