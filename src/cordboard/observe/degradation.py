"""Features that an overloaded engine switches off, in a fixed order, and their return.

    level 0   nothing is switched off
    level 1   no speculative recognition: turns are recognised once, when they are over
    level 2   also no end-of-turn model: silence and text rules decide; and no second recognition
              of a doubtful name
    level 3   also no new calls (the dialplan treats the callers as busy); live ones continue

The engine feeds `OverloadGuard` with the event loop's lag and the time that callers' work waits for
a model thread. Overload that lasts `RAISE_AFTER` raises the level by one; calm that lasts
`LOWER_AFTER` lowers it by one. Between the two thresholds nothing changes (hysteresis). Each
feature holds a `Degradation` and reads it each time: two attributes, no lock, no call. Use from the
event loop's thread only. The module reads no clock: times are arguments.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import structlog

log = structlog.get_logger()

LEVELS = ("nothing", "speculative recognition", "the end-of-turn model", "new calls")
"""Feature that each level switches off, in addition to those of lower levels."""
WINDOW = 5.0
"""Seconds over which the 99th percentile of the lag is taken."""
RAISE_AFTER = 5.0
"""Seconds of overload before the level is raised."""
LOWER_AFTER = 30.0
"""Seconds of calm before the level is lowered."""
MUCH_LAG = 0.05
"""Seconds. Beyond 60 ms of lag, frames of the pacer are lost for good (`audio.pacer`)."""
LITTLE_LAG = 0.02
LONG_WAIT = 0.5
"""Wait in seconds of a caller's finished turn, or of an answer, for a thread; as long as the whole
answer should take."""
SHORT_WAIT = 0.1


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
    """Longest wait for a model thread in the last `WINDOW`, in seconds."""


class OverloadGuard:
    """Evaluates the load and changes the level."""

    def __init__(
        self, degradation: Degradation, on_level: Callable[[int], None] = lambda _: None
    ) -> None:
        """`on_level(level)` is called at each change (for the metric)."""
        self._degradation = degradation
        self._on_level = on_level
        self._lags: deque[tuple[float, float]] = deque()
        self._waits: deque[tuple[float, float]] = deque()
        self._overloaded_since: float | None = None
        self._calm_since: float | None = None
        self.load = Load()

    def note_lag(self, now: float, seconds: float) -> None:
        """Add a lag of the event loop. `now`: any clock in seconds that never goes back."""
        self._lags.append((now, seconds))

    def note_wait(self, now: float, seconds: float) -> None:
        """Add the wait for a thread of work that a caller waits for."""
        self._waits.append((now, seconds))

    def judge(self, now: float) -> None:
        """Change the level when it is time. Call about once a second."""
        for samples in (self._lags, self._waits):
            while samples and samples[0][0] < now - WINDOW:
                samples.popleft()
        lags = sorted(lag for _, lag in self._lags)
        load = self.load = Load(
            lag_p99=lags[-1 - len(lags) // 100] if lags else 0.0,
            worker_wait=max((wait for _, wait in self._waits), default=0.0),
        )
        overloaded = load.lag_p99 > MUCH_LAG or load.worker_wait > LONG_WAIT
        calm = load.lag_p99 < LITTLE_LAG and load.worker_wait < SHORT_WAIT
        self._overloaded_since = _since(self._overloaded_since, overloaded, now)
        self._calm_since = _since(self._calm_since, calm, now)
        level = self._degradation.level
        if self._lasts(self._overloaded_since, RAISE_AFTER, now) and level + 1 < len(LEVELS):
            self._overloaded_since = now
            self._move(level + 1)
            log.warning("degraded", level=level + 1, gives_up=LEVELS[level + 1], **self._figures())
        elif self._lasts(self._calm_since, LOWER_AFTER, now) and level > 0:
            self._calm_since = now
            self._move(level - 1)
            log.warning("recovered", level=level - 1, takes_up=LEVELS[level], **self._figures())

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


def _since(before: float | None, holds: bool, now: float) -> float | None:
    if not holds:
        return None
    return now if before is None else before
