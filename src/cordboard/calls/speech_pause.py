"""When a call may be handed over to another engine: in a pause of speech.

    BUSY      the caller is being asked, enters keys, talks with a person, ...: never
    SPEECH    caller or agent speaks
    BETWEEN   neither speaks, but words are being understood, or an answer is owed
    QUIET     neither speaks, and nothing is owed

A call is handed over when it has been QUIET for a moment. If no such moment comes for long, a
moment between two sentences has to do; and if not even that comes, any moment that is not BUSY.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

QUIET_SECONDS = 0.3
"""Length of the pause before a call is handed over: shorter ones are within a sentence."""
LOOK_SECONDS = 0.05
"""Time between two looks. The end of sound on its way to the caller has no event."""
BETWEEN_SECONDS = 30.0
"""Time after which a moment between two sentences has to do."""
ANYHOW_SECONDS = 180.0
"""Time after which any moment has to do."""


class Rest(IntEnum):
    """How far a call may be handed over now; see above."""

    BUSY = 0
    SPEECH = 1
    BETWEEN = 2
    QUIET = 3


@dataclass(frozen=True, slots=True)
class Patience:
    """Loop times from which less than a pause has to do."""

    between: float
    anyhow: float

    @classmethod
    def of(cls, now: float, deadline: float | None = None) -> Patience:
        """`deadline`: loop time at which the engine ends; None: it has time."""
        if deadline is None:
            return cls(now + BETWEEN_SECONDS, now + ANYHOW_SECONDS)
        left = max(0.0, deadline - now)
        between = min(0.5 * left, BETWEEN_SECONDS)
        return cls(now + between, now + max(between, min(0.75 * left, ANYHOW_SECONDS)))

    def least(self, now: float) -> Rest:
        """Return what is needed now."""
        if now < self.between:
            return Rest.QUIET
        return Rest.BETWEEN if now < self.anyhow else Rest.SPEECH


async def pause_of_speech(rest: Callable[[], Rest], needed: Callable[[float], Rest]) -> Rest:
    """Wait until a call may be handed over; return what it has to stay until the caller has left.
    `rest`: its state now. `needed(now)`: the least that has to do (`Patience.least`)."""
    loop = asyncio.get_running_loop()
    still_since: float | None = None
    while True:
        now = loop.time()
        least = needed(now)
        if rest() < least:
            still_since = None
        elif still_since is None:
            still_since = now
        if least is Rest.SPEECH and still_since is not None:
            return least
        if still_since is not None and now - still_since >= QUIET_SECONDS:
            return least
        await asyncio.sleep(LOOK_SECONDS)
