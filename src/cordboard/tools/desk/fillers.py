"""What is said while a tool is slow: which sentence, and when.

The first comes after the tool's threshold, another after each `repeat_ms` more. At most
`MAX_WITHOUT_PROGRESS` are said, and one more for each time that the tool says it is still at work.
No sentence is said twice running in a call as long as there is another to choose.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from cordboard.tools.desk.pausable_timer import PausableTimer
from cordboard.tools.tool import Filler

MAX_WITHOUT_PROGRESS = 3
"""Whoever has been asked for patience so often without a sign of life hears nothing new in a
fourth time."""


class FillerChoice:
    """The sentences of one call's fillers, in turns."""

    def __init__(self) -> None:
        self._next: dict[tuple[str, ...], int] = {}
        self._last = ""

    def next(self, messages: tuple[str, ...]) -> str:
        """The sentence to be said now; `messages` is not empty."""
        place = self._next.get(messages, 0)
        if messages[place] == self._last:
            place = self._after(messages, place)
        self._last = messages[place]
        self._next[messages] = (place + 1) % len(messages)
        return self._last

    def _after(self, messages: tuple[str, ...], place: int) -> int:
        """The next place with another sentence; the same when there is none."""
        for step in range(1, len(messages)):
            other = (place + step) % len(messages)
            if messages[other] != self._last:
                return other
        return place


class FillerTimer:
    """When a filler is due, for one run of a tool."""

    def __init__(self, filler: Filler, say: Callable[[], None]) -> None:
        """`say` is called each time a filler is due."""
        self._loop = asyncio.get_running_loop()
        self._filler = filler
        self._say = say
        self._timer = PausableTimer(self._due)
        self._said = 0
        self._allowed = MAX_WITHOUT_PROGRESS
        self._next_at: float | None = None
        """Loop time before which no other may come, when only progress can bring one."""

    def start(self) -> None:
        """The tool begins."""
        if self._filler.threshold_ms > 0 and self._filler.messages:
            self._timer.start(self._filler.threshold_ms / 1000)

    def progress(self) -> None:
        """The tool is still at work: one more may be said."""
        self._allowed += 1
        if self._next_at is not None:
            self._timer.start(self._next_at - self._loop.time())
            self._next_at = None

    def pause(self) -> None:
        """The caller is being asked something: no filler talks into that."""
        self._timer.pause()

    def resume(self) -> None:
        """Go on, when it was the last pause."""
        self._timer.resume()

    def stop(self) -> None:
        """The tool has ended."""
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
