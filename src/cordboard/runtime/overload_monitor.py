"""Load monitor of an engine: the event loop's lag, the workers' queue, and the degradation level.

Each engine has one. It samples the event loop's lag 20 times a second and evaluates it once a
second (`cordboard.observe.degradation`). The first seconds after the start are ignored, because
models and servers are still warming up.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import Any

from cordboard.agent_api.workers import Priority, Workers
from cordboard.observe.degradation import LEVELS, Degradation, OverloadGuard
from cordboard.observe.loop_lag import LoopLagMonitor, LoopWatchdog
from cordboard.observe.metrics import Metrics

JUDGE_INTERVAL = 1.0
"""Seconds between two evaluations."""
SETTLING = 5.0
"""Seconds after the start in which lag does not count as overload."""


class OverloadMonitor:
    """Watches one event loop and its workers."""

    def __init__(
        self,
        metrics: Metrics,
        workers: Callable[[], Workers | None],
        on_measured: Callable[[], None],
        on_judged: Callable[[], None],
        *,
        sheds: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`on_measured` is called at each measurement, `on_judged` after each evaluation. Without
        `sheds` lag never counts as overload, as during the start."""
        self.degradation = Degradation()
        """Features that are off because of overload; read-only."""
        self.watchdog = LoopWatchdog(metrics.load.loop_blocked)
        """Logs code that blocks the loop; starts once the engine has started."""
        self._metrics = metrics
        self._workers = workers
        self._on_measured = on_measured
        self._on_judged = on_judged
        self._sheds = sheds
        self._clock = clock
        self._overload = OverloadGuard(self.degradation, metrics.load.degradation_level)
        self._lag = LoopLagMonitor(self.measure)
        self._judged_at = 0.0
        self._settled_at = math.inf

    def start(self) -> None:
        """Begin to measure."""
        self._lag.start()

    def stop(self) -> None:
        """Stop measuring."""
        self._lag.stop()

    def started(self) -> None:
        """Note that the engine has started: lag soon counts as overload."""
        if self._sheds:
            self._settled_at = self._clock() + SETTLING

    def measure(self, lag: float) -> None:
        """Take one lag of the loop, in seconds."""
        self._metrics.load.loop_lag(lag)
        now = self._clock()
        settled = now >= self._settled_at
        if settled:
            self._overload.note_lag(now, lag)
        workers = self._workers()
        if workers is not None:
            running = sum(workers.running(priority) for priority in Priority)
            self._metrics.load.workers_busy(running)
            for priority in Priority:
                self._metrics.load.worker_queue(priority.value, workers.queued(priority))
            if settled:
                self._overload.note_wait(workers.expected_wait())
        if now - self._judged_at >= JUDGE_INTERVAL:
            self._judged_at = now
            self._overload.judge(now)
            self._on_judged()
        self._on_measured()

    def health(self) -> Mapping[str, Any]:
        """Return the monitor's part of `/health`."""
        load = self._overload.load
        return {
            "event_loop_lag_ms": {
                "latest": round(self._lag.latest * 1000, 2),
                "worst": round(self._lag.worst * 1000, 2),
                "p99": round(load.lag_p99 * 1000, 2),
                "times_blocked": self.watchdog.incidents,
                "longest_blocked": round(self.watchdog.longest * 1000),
            },
            "degradation": {
                "level": self.degradation.level,
                "given_up": list(LEVELS[1 : self.degradation.level + 1]),
                "worker_wait_ms": round(load.worker_wait * 1000),
            },
        }
