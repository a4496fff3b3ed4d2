"""Lag of the event loop: the delay of its timers; and a watchdog for code that blocks it.

Everything a caller hears passes through one event loop; when something blocks it, all calls stutter
at once. The monitor sets a timer and measures its delay on `time.monotonic`, because uvloop's clock
is rounded to milliseconds and read only once in each round.

The timers keep to a grid, even when they run late. A timer set anew after each block would become
due during the next block, and consecutive blocks of 90 ms would show as 40 ms.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
import traceback
from collections.abc import Callable

import structlog

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


log = structlog.get_logger()

BEAT = 0.1
"""Seconds between two beats of the loop."""
BLOCKED_AFTER = 0.5
"""Seconds without a beat that count as blocked: half a second of silence on every call."""
STACK_DEPTH = 12
"""Innermost frames that are logged."""


class LoopWatchdog:
    """Watches one event loop from `start` to `stop`. Create it inside the running loop.

    The loop cannot report itself that it is blocked. It beats (`time.monotonic`, from a timer on
    the loop), and this thread checks the beat: without one for `blocked_after`, it logs the stack
    of the loop's thread, once per incident, and after the incident its duration, without the stack.
    The stack is taken while the loop is blocked, so its last lines are the culprit.
    """

    def __init__(
        self,
        on_blocked: Callable[[], None] = lambda: None,
        *,
        blocked_after: float = BLOCKED_AFTER,
        beat: float = BEAT,
    ) -> None:
        """`on_blocked()` is called on the loop once for each incident, when it is over."""
        self._loop = asyncio.get_running_loop()
        self._thread_id = threading.get_ident()
        self._on_blocked = on_blocked
        self._blocked_after = blocked_after
        self._beat = beat
        self._last_beat = time.monotonic()
        self._reported: float | None = None
        """The last beat before the present incident, once that is reported."""
        self._stopped = threading.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._thread: threading.Thread | None = None
        self.incidents = 0
        """Number of incidents."""
        self.longest = 0.0
        """Seconds of the longest incident."""

    def start(self) -> None:
        """Start the thread. Call once, in the loop's thread."""
        self._thread_id = threading.get_ident()
        self._beats()
        self._thread = threading.Thread(target=self._watch, name="cordboard-watchdog", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread and wait for its end, which is immediate. Idempotent."""
        self._stopped.set()
        if self._timer is not None:
            self._timer.cancel()
        if self._thread is not None:
            self._thread.join()

    def _beats(self) -> None:
        now = time.monotonic()
        reported, self._reported = self._reported, None
        held = now - self._last_beat
        self._last_beat = now
        self._timer = self._loop.call_later(self._beat, self._beats)
        if reported is not None:
            self.incidents += 1
            self.longest = max(self.longest, held)
            log.error("event_loop_was_blocked", seconds=round(held, 2))
            self._on_blocked()

    def _watch(self) -> None:
        while not self._stopped.wait(self._blocked_after / 4):
            beat = self._last_beat
            held = time.monotonic() - beat
            if held > self._blocked_after + self._beat and self._reported is None:
                stack = self._stack()
                if beat == self._last_beat:  # the loop has not continued meanwhile
                    self._reported = beat
                    log.error("event_loop_blocked", seconds=round(held, 2), at=stack)

    def _stack(self) -> list[str]:
        frame = sys._current_frames().get(self._thread_id)
        if frame is None:
            return []
        found = traceback.extract_stack(frame)[-STACK_DEPTH:]
        return [f"{each.filename}:{each.lineno} {each.name}" for each in found]
