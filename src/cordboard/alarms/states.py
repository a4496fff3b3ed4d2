"""The state of one alarm, with a pause before red and before green. Pure.

    quiet ──holds──▶ rising ──for `after`──▶ firing ──passed──▶ falling ──for `clear`──▶ quiet
      ▲                │                       ▲                   │
      └────passed──────┘                       └──────holds────────┘

`firing` and `falling` are red: a notice was sent. While it is unknown whether the condition holds
(the index is being made, the clock was set), no alarm changes, and its pause begins anew.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum


class Stage(StrEnum):
    QUIET = "quiet"
    RISING = "rising"
    """The condition holds, but not for long enough."""
    FIRING = "firing"
    FALLING = "falling"
    """The condition has passed, but not for long enough."""


RED = (Stage.FIRING, Stage.FALLING)


@dataclass(frozen=True, slots=True)
class State:
    """The state of one alarm."""

    stage: Stage = Stage.QUIET
    since: float = 0.0
    """Beginning of the stage or of its pause, in monotonic seconds; infinite while unknown."""

    @property
    def is_red(self) -> bool:
        """True while the alarm fires, and until its end is certain."""
        return self.stage in RED


def step(state: State, holds: bool | None, now: float, after: float, clear: float) -> State:
    """Return the next state. `holds` is None if it is not known; `after` and `clear` are the pauses
    in seconds."""
    if holds is None:
        return replace(state, since=math.inf)
    if state.since == math.inf:
        state = replace(state, since=now)
    stage, waited = state.stage, now - state.since
    if holds:
        if stage is Stage.QUIET:
            return State(Stage.RISING if after > 0 else Stage.FIRING, now)
        if stage is Stage.RISING:
            return State(Stage.FIRING, now) if waited >= after else state
        return State(Stage.FIRING, now) if stage is Stage.FALLING else state
    if stage is Stage.RISING:
        return State(Stage.QUIET, now)
    if stage is Stage.FIRING:
        return State(Stage.FALLING if clear > 0 else Stage.QUIET, now)
    if stage is Stage.FALLING:
        return State(Stage.QUIET, now) if waited >= clear else state
    return state
