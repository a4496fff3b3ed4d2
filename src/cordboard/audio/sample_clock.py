"""When each sample of an incoming stream was on the line, whatever delays its frames.

A frame can only come late: the network holds it up, Asterisk sends several at once, the event loop
is busy. Each arrival is therefore an upper bound, and the clock follows the earliest arrivals of
the last second: drift and short gaps of the sender move it on. No clock of its own, no audio: a
few comparisons a frame.

Convention (as at the telephones of `cordboard_testkit.timeline`): sample `i` of a frame that was on
the wire at `t` counts as spoken at `t + i / rate`.
"""

from __future__ import annotations

from math import inf

_LATEST = 0.25
"""A frame that is later than this, in seconds, is not late: there was a gap before it."""
_HALF = 0.5
"""Seconds of sound after which the older half of the arrivals is forgotten."""


class SampleClock:
    """Maps sample positions of one stream to loop times in seconds."""

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._taken = 0
        self._earlier = inf
        """Loop time of sample 0 by the earliest arrival of the half second before this one."""
        self._recent = inf
        """The same, of this half second."""
        self._half_ends = 0

    def take(self, samples: int, arrived_at: float) -> None:
        """A frame of so many samples arrived; call it for every frame, in order."""
        origin = arrived_at - self._taken / self._rate
        if self._taken >= self._half_ends:
            self._half_ends = self._taken + int(_HALF * self._rate)
            self._earlier, self._recent = self._recent, origin
        if origin - min(self._earlier, self._recent) > _LATEST:
            self._earlier = self._recent = origin
        elif origin < self._recent:
            self._recent = origin
        self._taken += samples

    def time_of(self, sample: int) -> float:
        """When that sample was on the line. Raises `ValueError` before the first frame."""
        if self._recent == inf:
            raise ValueError("no frame has come yet")
        return min(self._earlier, self._recent) + sample / self._rate
