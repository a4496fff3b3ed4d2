"""How long this caller pauses within a turn, learned from pauses that were no ends. Pure."""

from __future__ import annotations

MARGIN_MS = 150
"""The silence is made longer than the pause that was seen by so much."""
FORGOTTEN = 0.75
"""What is left of the learned time after each turn that ended as it should."""
CUT_OFF_MS = 1_500
"""A caller who speaks again so soon after the last word had only paused: the turn was cut."""
_LEAST_MS = 20


class LearnedPause:
    """One caller's habit, in milliseconds on top of the profile's `silence_ms`."""

    def __init__(self, silence_ms: int, most_ms: int) -> None:
        self._silence_ms = silence_ms
        self._most_ms = most_ms
        self._extra_ms = 0.0

    @property
    def extra_ms(self) -> int:
        return int(self._extra_ms)

    def resumed(self, pause_ms: int) -> None:
        """The caller went on after so much silence within a turn, or right after its end."""
        wanted = min(pause_ms + MARGIN_MS - self._silence_ms, self._most_ms)
        self._extra_ms = max(self._extra_ms, wanted)

    def turn_ended(self) -> None:
        """A turn is over; its pauses weigh less in the next ones."""
        self._extra_ms *= FORGOTTEN
        if self._extra_ms < _LEAST_MS:
            self._extra_ms = 0.0
