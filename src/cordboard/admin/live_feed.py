"""The centre of the live feed: takes each event once, compares the rows, and wakes the viewers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

import structlog

from cordboard.admin.live_calls import LiveCalls
from cordboard.calls.call import Call
from cordboard.calls.events import LedgerEvent

PROTOCOL = "cordboard.live.v1"
TICK_SECONDS = 0.25
"""Time between two frames of rows."""
PARTS = 8
"""Looks for one frame, each at a part of the rows: all at once would hold up the calls' audio."""
PART_SECONDS = 0.005
"""Time between two looks for the same frame."""
BUSY_TICK_SECONDS = 1.0
"""The same while the engine gives up features because of its load."""

log = structlog.get_logger()


class Watcher(Protocol):
    """One connection that watches."""

    wake: asyncio.Event
    """Set when there may be something new."""
    calls: set[str]
    """Ids of the calls that are followed, and were."""

    def close(self) -> None:
        """Let go of all topics."""


class Feed:
    """The live feed of one port."""

    def __init__(
        self,
        calls: Callable[[], Mapping[str, Call]],
        load_level: Callable[[], int],
        internal_error: Callable[[str], None],
    ) -> None:
        """`load_level()` is 0 unless the engine gives up features because of its load."""
        self._load_level = load_level
        self._internal_error = internal_error
        self.live = LiveCalls(calls)
        self.live.on_event = self._woken_by
        self._frames: dict[Any, bytes] = {}
        self._frames_of = -1
        self._states: dict[Any, bytes] = {}
        self._states_of = -1
        self._viewers: set[Watcher] = set()
        self._timer: asyncio.TimerHandle | None = None

    def take(self, call_id: str, at_ms: int, event: LedgerEvent) -> None:
        """Take a ledger's event. Never raises: the ledger drops a listener that does."""
        try:
            self.live.take(call_id, at_ms, event)
        except Exception as error:  # border: a call's event
            log.exception("live_event_failed", error=repr(error))
            self._internal_error("live")

    def second(self) -> int:
        """Return the number of the present second."""
        return int(asyncio.get_running_loop().time())

    def state(self, key: Any, make: Callable[[], bytes]) -> bytes:
        """Return what `make` makes, once in a second for all viewers with the same key."""
        if self._states_of != (now := self.second()):
            self._states_of = now
            self._states.clear()
        if key not in self._states:
            self._states[key] = make()
        return self._states[key]

    def frame(self, key: Any, make: Callable[[], bytes]) -> bytes:
        """Return what `make` makes of the rows, once in a version for all viewers with the same
        key. Frames of the versions before are dropped: rows of other engines make new ones, too."""
        if self._frames_of != (version := self.live.version):
            self._frames_of = version
            self._frames.clear()
        if key not in self._frames:
            self._frames[key] = make()
        return self._frames[key]

    def wake(self) -> None:
        """Let all viewers look for news at once."""
        for viewer in self._viewers:
            viewer.wake.set()

    @contextmanager
    def viewing(self, viewer: Watcher) -> Iterator[None]:
        """Keep a viewer among those that are woken."""
        self._viewers.add(viewer)
        if self._timer is None:
            self._tick()
        try:
            yield
        finally:
            self._viewers.discard(viewer)
            viewer.close()
            if not self._viewers and self._timer is not None:
                self._timer.cancel()
                self._timer = None

    def _woken_by(self, call_id: str) -> None:
        for viewer in self._viewers:
            if call_id in viewer.calls:
                viewer.wake.set()

    def _tick(self, part: int = 0) -> None:
        loop = asyncio.get_running_loop()
        seconds = PART_SECONDS
        if is_last := part == PARTS - 1:
            seconds = TICK_SECONDS if self._load_level() == 0 else BUSY_TICK_SECONDS
        self._timer = loop.call_later(seconds, self._tick, (part + 1) % PARTS)
        try:
            self.live.refresh(part, PARTS)
        except Exception as error:  # border of a timer: the calls and the next rows go on
            log.exception("live_rows_failed", error=repr(error))
            self._internal_error("live")
        if is_last:
            self.wake()
