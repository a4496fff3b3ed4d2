"""How long the agents of a chain may take to start, one after the other. Times in seconds."""

from __future__ import annotations

START_SECONDS = 14.0
"""For all of a chain to start, within what a call waits (`calls.agent_start`). Each provider that
is left has an equal part of what is left of it."""
LONGEST_START = 5.0
"""For one of them while there is another: what works has started within a second or two."""
HOLD_ON = 4.0
"""Until a caller whom nobody has greeted yet is asked to wait."""


def share(seconds: float, others: int) -> float | None:
    """How much of the time that is left an agent may take; None: all of it, and more, as there are
    no others behind it."""
    part = max(1.0, seconds / (1 + others))
    return min(part, LONGEST_START) if others else None
