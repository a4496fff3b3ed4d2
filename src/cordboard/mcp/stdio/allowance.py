"""How much of a server's output is read each second: a flood must not keep the engine busy. Pure.

A bucket that fills steadily up to one second's worth: a burst passes, a lasting flood is slowed
down to the rate. Whoever reads pauses for as long as `spend` says; the pipe fills, and the flooding
server waits in its own `write`.
"""

from __future__ import annotations


class Allowance:
    """So much per second, of bytes or lines or whatever is counted."""

    def __init__(self, per_second: float) -> None:
        self._rate = per_second
        self._left = per_second
        self._at: float | None = None

    def spend(self, amount: float, now: float) -> float:
        """Take something out at `now` (seconds); returns for how long to pause, usually 0."""
        if self._at is not None:
            self._left = min(self._rate, self._left + (now - self._at) * self._rate)
        self._at = now
        self._left -= amount
        return max(0.0, -self._left / self._rate)
