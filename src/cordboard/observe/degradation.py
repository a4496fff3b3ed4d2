"""Features that an overloaded engine switches off, in a fixed order, and their return.

    level 0   nothing is switched off
    level 1   no speculative recognition: turns are recognised once, when they are over
    level 2   also no end-of-turn model: silence and text rules decide; and no second recognition
              of a doubtful name
    level 3   also no new calls (the dialplan treats the callers as busy); live ones continue

The engine feeds `OverloadGuard` with the event loop's lag and the time for which work that a caller
waits for would wait for a model thread at present (`Workers.expected_wait`). Overload that lasts
`RAISE_AFTER` raises the level by one; level 3 needs a lag, or a wait that callers do not put up
with (`REFUSING_WAIT`). Calm that lasts `LOWER_AFTER` ends the degradation. If overload returns soon
after, the next calm has to last twice as long, up to `LOWER_AFTER_MOST`, so that an engine at its
limit does not alternate. Between the two thresholds nothing changes (hysteresis). Each feature
holds a `Degradation` and reads it each time: two attributes, no lock, no call. Use from the event
loop's thread only. The module reads no clock: times are arguments.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import inf

import structlog

log = structlog.get_logger()

LEVELS = ("nothing", "speculative recognition", "the end-of-turn model", "new calls")
"""Feature that each level switches off, in addition to those of lower levels."""
WINDOW = 5.0
"""Seconds over which the 99th percentile of the lag is taken."""
LATEST = 1.0
"""Seconds of lag that are looked at for calm."""
RAISE_AFTER = 5.0
"""Seconds of overload before the level is raised."""
LOWER_AFTER = 1.0
"""Seconds of calm that end the degradation: with one evaluation a second, a caller who comes 2 s
after the load finds nothing given up."""
LOWER_AFTER_MOST = 32.0
"""Longest `LOWER_AFTER` of an engine whose overload keeps returning; it is doubled if the level
rises within this time after a recovery."""
MUCH_LAG = 0.05
"""Seconds. Beyond 60 ms of lag, frames of the pacer are lost for good (`audio.pacer`)."""
LITTLE_LAG = 0.02
LONG_WAIT = 1.0
"""Expected wait in seconds of a caller's finished turn, or of an answer, for a thread; twice as
long as the whole answer should take."""
REFUSING_WAIT = 4.0
"""Expected wait in seconds at which new calls are refused: callers hardly wait longer."""
SHORT_WAIT = 0.25


class Degradation:
    """Features allowed at present. Read-only, except for `OverloadGuard`."""

    def __init__(self) -> None:
        self.level = 0
        """0 to 3, see the module."""

    @property
    def allows_speculation(self) -> bool:
        """True if recognition may be tried before the turn is over."""
        return self.level < 1

    @property
    def allows_turn_model(self) -> bool:
        """True if the end-of-turn model may be used."""
        return self.level < 2

    @property
    def allows_second_hearing(self) -> bool:
        """True if a doubtful turn may be recognised again. A question to the caller costs more
        work in the end, but later."""
        return self.level < 2

    @property
    def admits_calls(self) -> bool:
        """True if new calls are taken."""
        return self.level < 3


@dataclass(frozen=True, slots=True)
class Load:
    """Load of the engine, as last evaluated."""

    lag_p99: float = 0.0
    """Lag of the event loop in seconds, 99th percentile of the last `WINDOW`."""
    worker_wait: float = 0.0
    """Expected wait for a model thread in seconds: the longest since the last evaluation."""


class OverloadGuard:
    """Evaluates the load and changes the level."""

    def __init__(
        self, degradation: Degradation, on_level: Callable[[int], None] = lambda _: None
    ) -> None:
        """`on_level(level)` is called at each change (for the metric)."""
        self._degradation = degradation
        self._on_level = on_level
        self._lags: deque[tuple[float, float]] = deque()
        self._wait = 0.0
        self._overloaded_since: float | None = None
        self._calm_since: float | None = None
        self._judged_at = -inf
        self._lower_after = LOWER_AFTER
        self._recovered_at = -inf
        self.load = Load()

    def note_lag(self, now: float, seconds: float) -> None:
        """Add a lag of the event loop. `now`: any clock in seconds that never goes back."""
        self._lags.append((now, seconds))

    def note_wait(self, seconds: float) -> None:
        """Add the expected wait for a thread of work that a caller waits for."""
        self._wait = max(self._wait, seconds)

    def judge(self, now: float) -> None:
        """Change the level when it is time. Call about once a second."""
        while self._lags and self._lags[0][0] < now - WINDOW:
            self._lags.popleft()
        load = self.load = Load(_p99(lag for _, lag in self._lags), self._wait)
        self._wait = 0.0
        latest = _p99(lag for at, lag in self._lags if at >= now - LATEST)
        overloaded = load.lag_p99 > MUCH_LAG or load.worker_wait > LONG_WAIT
        calm = latest < LITTLE_LAG and load.worker_wait < SHORT_WAIT
        self._overloaded_since = _since(self._overloaded_since, overloaded and not calm, now)
        self._calm_since = _since(self._calm_since, calm, max(self._judged_at, now - LATEST))
        self._judged_at = now
        level = self._degradation.level
        if self._lasts(self._overloaded_since, RAISE_AFTER, now) and self._may_raise(load):
            self._overloaded_since = now
            if level == 0:
                soon = now - self._recovered_at < LOWER_AFTER_MOST
                doubled = min(2 * self._lower_after, LOWER_AFTER_MOST)
                self._lower_after = doubled if soon else LOWER_AFTER
            self._move(level + 1)
            log.warning("degraded", level=level + 1, gives_up=LEVELS[level + 1], **self._figures())
        elif level > 0 and self._lasts(self._calm_since, self._lower_after, now):
            self._recovered_at = now
            self._move(0)
            takes_up = list(LEVELS[1 : level + 1])
            log.warning("recovered", level=0, takes_up=takes_up, **self._figures())

    def _may_raise(self, load: Load) -> bool:
        """True if there is a higher level, and the load is enough for it."""
        highest = len(LEVELS) - 1
        if self._degradation.level < highest - 1:
            return True
        refuses = load.lag_p99 > MUCH_LAG or load.worker_wait > REFUSING_WAIT
        return refuses and self._degradation.level < highest

    @staticmethod
    def _lasts(since: float | None, seconds: float, now: float) -> bool:
        return since is not None and now - since >= seconds

    def _move(self, level: int) -> None:
        self._degradation.level = level
        self._on_level(level)

    def _figures(self) -> dict[str, float]:
        return {
            "lag_p99_ms": round(self.load.lag_p99 * 1000, 1),
            "worker_wait_ms": round(self.load.worker_wait * 1000, 1),
        }


def _p99(lags: Iterable[float]) -> float:
    ordered = sorted(lags)
    return ordered[-1 - len(ordered) // 100] if ordered else 0.0


def _since(before: float | None, holds: bool, now: float) -> float | None:
    if not holds:
        return None
    return now if before is None else before
