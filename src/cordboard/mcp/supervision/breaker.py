"""A circuit breaker: a server that does not answer is not called for a while. Pure: no clock.

    closed ──`failures` in a row unanswered──► open ──`open_ms`──► probing ──answered──► closed
                                                ▲                     │
                                                └──────unanswered─────┘

While it is open, calls are refused at once instead of each waiting for its whole timeout. Then one
call, the probe, is let through; the others are refused until its outcome is known. Any answer
counts as an answer: an error of the tool (`isError`) is not a failure of the server.

Call `admit` before each call and report the outcome with exactly one of `answered`, `unanswered`
and `abandoned`, all with the admission that `admit` returned. A call that is still pending at its
timeout is unanswered; its late answer is reported as that of a further `CALL`.
"""

from __future__ import annotations

from enum import Enum, StrEnum

from cordboard.config.mcp import McpBreaker


class BreakerState(StrEnum):
    """State of the breaker."""

    CLOSED = "closed"
    OPEN = "open"
    PROBING = "probing"
    """The pause is over: the next call, or the one in flight, decides."""


class Admission(Enum):
    """The decision of `Breaker.admit` about a call."""

    CALL = "call"
    PROBE = "probe"
    REFUSED = "refused"


class Breaker:
    """The breaker of one life of one server."""

    def __init__(self, config: McpBreaker, *, probe_first: bool = False) -> None:
        """`probe_first`: begin with a probe, because the previous life's breaker asked for a
        restart."""
        self._config = config
        self._unanswered = 0
        self._open_until: float | None = None
        self.state = BreakerState.PROBING if probe_first else BreakerState.CLOSED
        self._probe_under_way = False

    def refused_for(self, now: float) -> float:
        """Seconds until the next call may be tried, as far as known; 0 if it may be tried now."""
        return max(0.0, (self._open_until or now) - now)

    def admit(self, now: float) -> Admission:
        """Decide about a call at `now`, in seconds of any steady clock."""
        if self.state is BreakerState.CLOSED:
            return Admission.CALL
        if self.state is BreakerState.OPEN and now >= (self._open_until or now):
            self.state = BreakerState.PROBING
            self._probe_under_way = False
        if self.state is BreakerState.OPEN or self._probe_under_way:
            return Admission.REFUSED
        self._probe_under_way = True
        return Admission.PROBE

    def answered(self, admission: Admission) -> bool:
        """Report an answer. Return True if calls pass again from now on."""
        was = self.state
        self.abandoned(admission)
        self._unanswered = 0
        self.state = BreakerState.CLOSED
        return was is not BreakerState.CLOSED

    def unanswered(self, admission: Admission, now: float) -> bool:
        """Report a timeout or a broken call. Return True if calls are refused from now on."""
        self.abandoned(admission)
        self._unanswered += 1
        full = 0 < self._config.failures <= self._unanswered
        probed = admission is Admission.PROBE and self.state is BreakerState.PROBING
        if probed or (full and self.state is BreakerState.CLOSED):
            self.state = BreakerState.OPEN
            self._open_until = now + self._config.open_ms / 1000
            return True
        return False

    def trip(self, now: float) -> bool:
        """Open a closed breaker on other evidence than calls, for `open_ms`. Return True if calls
        are refused from now on."""
        if self.state is not BreakerState.CLOSED or not self._config.failures:
            return False
        self.state = BreakerState.OPEN
        self._open_until = now + self._config.open_ms / 1000
        return True

    def abandoned(self, admission: Admission) -> None:
        """Report a cancelled call or an ended connection: it says nothing about the server."""
        if admission is Admission.PROBE:
            self._probe_under_way = False
