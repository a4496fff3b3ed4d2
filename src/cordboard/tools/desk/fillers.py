"""Fillers while a tool is slow: their sentences and times.

The first comes after the tool's threshold, or earlier where the call wants it; another after each
`repeat_ms` more. At most `MAX_WITHOUT_PROGRESS` are spoken, and one more for each progress report
of the tool. No sentence is spoken twice in a row in a call if there is another to choose.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from cordboard.tools.tool import Filler

MAX_WITHOUT_PROGRESS = 3
"""Fillers without progress; a fourth would add nothing for a caller who has waited through
three."""


class PausableTimer:
    """Calls `callback` once, the given seconds after `start`; pauses do not count, so that nothing
    times out while the caller is asked. Not thread-safe; holds no task. A second `start` begins
    anew.
    """

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


class FillerChoice:
    """The filler sentences of one call, in turns."""

    def __init__(self) -> None:
        self._next: dict[tuple[str, ...], int] = {}
        self._last = ""

    def next(self, messages: tuple[str, ...]) -> str:
        """Return the next sentence; `messages` is not empty."""
        place = self._next.get(messages, 0)
        if messages[place] == self._last:
            place = self._after(messages, place)
        self._last = messages[place]
        self._next[messages] = (place + 1) % len(messages)
        return self._last

    def _after(self, messages: tuple[str, ...], place: int) -> int:
        """Return the next place with another sentence; the same place when there is none."""
        for step in range(1, len(messages)):
            other = (place + step) % len(messages)
            if messages[other] != self._last:
                return other
        return place


class FillerTimer:
    """Timer of the fillers for one run of a tool."""

    def __init__(self, filler: Filler, say: Callable[[], None]) -> None:
        """`say` is called each time a filler is due."""
        self._loop = asyncio.get_running_loop()
        self._filler = filler
        self._say = say
        self._timer = PausableTimer(self._due)
        self._said = 0
        self._allowed = MAX_WITHOUT_PROGRESS
        self._next_at: float | None = None
        """Earliest loop time of the next filler, once only progress can trigger one."""

    def start(self, delay: Callable[[float], float]) -> None:
        """Start the timer when the tool begins. `delay(threshold)`: seconds to the first filler."""
        if self._filler.threshold_ms > 0 and self._filler.messages:
            self._timer.start(delay(self._filler.threshold_ms / 1000))

    def progress(self) -> None:
        """Allow one more filler: the tool is still at work."""
        self._allowed += 1
        if self._next_at is not None:
            self._timer.start(self._next_at - self._loop.time())
            self._next_at = None

    def pause(self) -> None:
        """Stop the timer while the caller is asked a question."""
        self._timer.pause()

    def resume(self) -> None:
        """Continue after the last of several pauses."""
        self._timer.resume()

    def stop(self) -> None:
        """Stop for good: the tool has ended."""
        self._timer.stop()
        self._next_at = None

    def _due(self) -> None:
        self._said += 1
        if self._filler.repeat_ms > 0:
            repeat = self._filler.repeat_ms / 1000
            if self._said < self._allowed:
                self._timer.start(repeat)
            else:
                self._next_at = self._loop.time() + repeat
        self._say()
