"""A timer of the event loop with pauses, so that nothing times out while the caller is asked.

    timer = PausableTimer(callback)
    timer.start(10.0)
    timer.pause()    # keeps the remaining time
    timer.resume()

Not thread-safe; holds no task. A second `start` begins anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class PausableTimer:
    """Calls `callback` once, the given seconds after `start`; pauses do not count."""

    __slots__ = ("_callback", "_handle", "_loop", "_pauses", "_rest")

    def __init__(self, callback: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._callback = callback
        self._handle: asyncio.TimerHandle | None = None
        self._rest: float | None = None
        """Remaining seconds; None = not started, over or stopped."""
        self._pauses = 0

    def start(self, seconds: float) -> None:
        """Start the timer; during a pause it starts when the pause ends."""
        self.stop()
        self._rest = max(0.0, seconds)
        if not self._pauses:
            self._go()

    def pause(self) -> None:
        """Stop the clock until `resume` has been called equally often."""
        self._pauses += 1
        if self._handle is not None:
            self._rest = max(0.0, self._handle.when() - self._loop.time())
            self._handle.cancel()
            self._handle = None

    def resume(self) -> None:
        """Continue after the last of several pauses."""
        self._pauses -= 1
        if not self._pauses and self._rest is not None:
            self._go()

    def stop(self) -> None:
        """Stop for good, without calling the callback."""
        self._rest = None
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _go(self) -> None:
        rest = self._rest
        if rest is not None:
            self._handle = self._loop.call_later(rest, self._fire)

    def _fire(self) -> None:
        self._handle = None
        self._rest = None
        self._callback()
