"""Lag of the event loop: the delay of its timers.

Everything a caller hears passes through one event loop; when something blocks it, all calls stutter
at once. The monitor sets a timer and measures its delay on `time.monotonic`, because uvloop's clock
is rounded to milliseconds and read only once in each round.

The timers keep to a grid, even when they run late. A timer set anew after each block would become
due during the next block, and consecutive blocks of 90 ms would show as 40 ms.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

INTERVAL = 0.05
"""Seconds between measurements: often enough to notice a stutter, and practically free."""


class LoopLagMonitor:
    """Measures one event loop until stopped. It is a timer, not a task: nothing to await."""

    def __init__(
        self,
        on_lag: Callable[[float], None],
        *,
        interval: float = INTERVAL,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        """`on_lag` receives each lag in seconds, such as `LoadMetrics.loop_lag`."""
        self._on_lag = on_lag
        self._interval = interval
        self._loop = loop or asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0
        self.latest = 0.0
        """The last lag, in seconds."""
        self.worst = 0.0
        """The greatest lag since the start, in seconds."""

    def start(self) -> None:
        """Begin measuring. Idempotent."""
        if self._timer is None:
            self._due = time.monotonic()
            self._schedule(self._due)

    def stop(self) -> None:
        """End measuring. Idempotent."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _schedule(self, now: float) -> None:
        """Set the timer for the next moment of the grid that has not passed."""
        missed = max(0.0, now - self._due) // self._interval
        self._due += (1 + missed) * self._interval
        self._timer = self._loop.call_later(max(0.0, self._due - now), self._measure)

    def _measure(self) -> None:
        now = time.monotonic()
        self.latest = max(0.0, now - self._due)
        self.worst = max(self.worst, self.latest)
        self._schedule(now)
        self._on_lag(self.latest)
