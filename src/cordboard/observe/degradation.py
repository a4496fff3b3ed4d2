"""What an overloaded engine gives up, in a stated order, and when it takes it up again.

    level 0   nothing is given up
    level 1   no speculative recognition: turns are recognised once, when they are over
    level 2   besides, no end-of-turn model: silence and text rules decide; and a name in doubt is
              not listened to again
    level 3   besides, no new calls (the dialplan treats the callers as busy); live ones go on

`OverloadGuard` is fed by the engine: how late the event loop runs, how long callers' work waits for
a model thread. Overload that lasts `RAISE_AFTER` gives up one thing more; calm that lasts
`LOWER_AFTER` takes one thing up again. Between the two thresholds nothing changes (hysteresis).
Whoever has something to give up holds a `Degradation` and asks it each time: two attributes, no
lock, no call. Use from the event loop's thread only. No clock in here: times are arguments.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import structlog

log = structlog.get_logger()

LEVELS = ("nothing", "speculative recognition", "the end-of-turn model", "new calls")
"""What is given up at each level, besides what the levels before it give up."""
WINDOW = 5.0
"""Seconds over which the 99th percentile of the lag is taken."""
RAISE_AFTER = 5.0
"""Seconds of overload before one more thing is given up."""
LOWER_AFTER = 30.0
"""Seconds of calm before one thing is taken up again."""
MUCH_LAG = 0.05
"""Seconds. Later than 60 ms, frames of the pacer are lost for good (`audio.pacer`)."""
LITTLE_LAG = 0.02
LONG_WAIT = 0.5
"""Seconds that a caller's finished turn or an answer waits for a thread; as long as the whole
answer should take."""
SHORT_WAIT = 0.1


class Degradation:
    """What may be done at present. Read it, never write it: `OverloadGuard` does."""

    def __init__(self) -> None:
        self.level = 0
        """0 to 3, see the module."""

    @property
    def allows_speculation(self) -> bool:
        """Whether recognition may be tried before the turn is over."""
        return self.level < 1

    @property
    def allows_turn_model(self) -> bool:
        """Whether the end-of-turn model may be asked."""
        return self.level < 2

    @property
    def allows_second_hearing(self) -> bool:
        """Whether a doubtful turn may be listened to again. To ask the caller costs more work in
        the end, but later."""
        return self.level < 2

    @property
    def admits_calls(self) -> bool:
        """Whether new calls are taken."""
        return self.level < 3


@dataclass(frozen=True, slots=True)
class Load:
    """How the engine is doing, as last judged."""

    lag_p99: float = 0.0
    """Seconds that the event loop was late, 99th percentile of the last `WINDOW`."""
    worker_wait: float = 0.0
    """Longest wait for a model thread in the last `WINDOW`, in seconds."""


class OverloadGuard:
    """Judges the load and moves the level."""

    def __init__(
        self, degradation: Degradation, on_level: Callable[[int], None] = lambda _: None
    ) -> None:
        """`on_level(level)` hears of each change (the metric)."""
        self._degradation = degradation
        self._on_level = on_level
        self._lags: deque[tuple[float, float]] = deque()
        self._waits: deque[tuple[float, float]] = deque()
        self._overloaded_since: float | None = None
        self._calm_since: float | None = None
        self.load = Load()

    def note_lag(self, now: float, seconds: float) -> None:
        """The event loop was so late. `now`: any clock in seconds that never goes back."""
        self._lags.append((now, seconds))

    def note_wait(self, now: float, seconds: float) -> None:
        """Work that a caller waits for has been waiting so long for a thread."""
        self._waits.append((now, seconds))

    def judge(self, now: float) -> None:
        """Change the level when it is time. Call it about once a second."""
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
