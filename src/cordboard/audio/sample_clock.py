"""Estimates when each sample of an incoming stream was on the line, despite delayed frames.

A frame can only come late: the network delays it, Asterisk sends several at once, the event loop is
busy. So each arrival is an upper bound, and the clock follows the earliest arrivals of the last
second; drift and short gaps of the sender move it. It has no time source of its own and keeps no
audio; a frame costs a few comparisons.

Convention (as in the telephones of `cordboard_testkit.timeline`): sample `i` of a frame that was on
the wire at `t` counts as spoken at `t + i / rate`.
"""

from __future__ import annotations

from math import inf

_LATEST = 0.25
"""Seconds of delay beyond which a frame counts as following a gap instead."""
_HALF = 0.5
"""Seconds of sound after which the older half of the arrivals is dropped."""


class SampleClock:
    """Maps sample positions of one stream to loop times in seconds."""

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._taken = 0
        self._earlier = inf
        """Loop time of sample 0 by the earliest arrival of the previous half second."""
        self._recent = inf
        """Loop time of sample 0 by the earliest arrival of the current half second."""
        self._half_ends = 0

    def take(self, samples: int, arrived_at: float) -> None:
        """Record the arrival of a frame of `samples` samples; call it for every frame, in order."""
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
        """Return when that sample was on the line. Raises `ValueError` before the first frame."""
        if self._recent == inf:
            raise ValueError("no frame has arrived yet")
        return min(self._earlier, self._recent) + sample / self._rate
