"""Changes of the do-not-call list, and which of two is in force."""

from __future__ import annotations

from dataclasses import dataclass

ADVANTAGE = 10.0
"""Seconds by which a block may be older than an unblock, and still wins: clocks of machines
differ."""
_STEP = 0.001
UNBLOCK_SECONDS = 30 * 86_400
"""Time for which it is known that a number was taken off the list. An engine that was away for
longer keeps the number on its own."""


@dataclass(frozen=True, slots=True)
class BlockChange:
    """The newest change of one number, in E.164."""

    number: str
    at: float
    """Unix time of the change, by the clock of its engine."""
    blocked: bool

    @property
    def order(self) -> tuple[float, bool]:
        """Of two changes the one with the greater order is in force."""
        return (self.at + (ADVANTAGE if self.blocked else 0.0), self.blocked)

    def after(self, known: BlockChange | None) -> BlockChange:
        """Return this change as one that was made with the knowledge of another: it wins, whatever
        the clocks say."""
        if known is None or self.order > known.order:
            return self
        at = known.order[0] - (ADVANTAGE if self.blocked else 0.0) + _STEP
        return BlockChange(self.number, at, self.blocked)
