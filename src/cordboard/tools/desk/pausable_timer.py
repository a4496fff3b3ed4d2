"""A timer of the event loop that can stand still: while the caller is being asked, nothing is late.

    timer = PausableTimer(callback)
    timer.start(10.0)
    timer.pause()    # the rest of the time is kept
    timer.resume()

Not for threads; holds no task. Starting it again begins anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class PausableTimer:
    """Calls `callback` once, so many seconds after `start`, pauses not counted."""

    __slots__ = ("_callback", "_handle", "_loop", "_pauses", "_rest")

    def __init__(self, callback: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._callback = callback
        self._handle: asyncio.TimerHandle | None = None
        self._rest: float | None = None
        """Seconds that are left; None = not started, over or stopped."""
        self._pauses = 0

    def start(self, seconds: float) -> None:
        """Begin; in a pause it begins with the end of the pause."""
        self.stop()
        self._rest = max(0.0, seconds)
        if not self._pauses:
            self._go()

    def pause(self) -> None:
        """Stand still until as many `resume` have come."""
        self._pauses += 1
        if self._handle is not None:
            self._rest = max(0.0, self._handle.when() - self._loop.time())
            self._handle.cancel()
            self._handle = None

    def resume(self) -> None:
        """Go on, when this was the last pause."""
        self._pauses -= 1
        if not self._pauses and self._rest is not None:
            self._go()

    def stop(self) -> None:
        """It is not called any more."""
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
