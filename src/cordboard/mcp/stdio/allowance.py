"""Limits a server's output per second, so that a flood does not keep the engine busy. Pure.

A token bucket that holds up to one second's worth: a burst passes, a lasting flood is slowed down
to the rate. The reader pauses for the time that `spend` returns; the pipe fills, and the flooding
server blocks in its own `write`.
"""

from __future__ import annotations


class Allowance:
    """A rate limit per second, of bytes, lines or any other unit."""

    def __init__(self, per_second: float) -> None:
        self._rate = per_second
        self._left = per_second
        self._at: float | None = None

    def spend(self, amount: float, now: float) -> float:
        """Take `amount` at `now` (seconds); return the seconds to pause, usually 0."""
        if self._at is not None:
            self._left = min(self._rate, self._left + (now - self._at) * self._rate)
        self._at = now
        self._left -= amount
        return max(0.0, -self._left / self._rate)
