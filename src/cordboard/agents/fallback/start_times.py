"""Time limits for the agents of a chain to start, one after the other. Times in seconds."""

from __future__ import annotations

START_SECONDS = 14.0
"""Limit for all of a chain to start, within the limit of a call (`calls.agent_start`). Each
remaining provider gets an equal part of the remaining time."""
LONGEST_START = 5.0
"""Limit for one agent while there is another: a working one has started within a second or two."""
HOLD_ON = 4.0
"""Time after which a caller who was not greeted yet is asked to wait."""


def share(seconds: float, others: int) -> float | None:
    """Return the part of the remaining time that an agent may take. None: no limit, because no
    other agent is behind it."""
    part = max(1.0, seconds / (1 + others))
    return min(part, LONGEST_START) if others else None
