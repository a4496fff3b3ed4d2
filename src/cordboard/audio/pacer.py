"""One 20 ms clock for the outgoing audio of every call.

If the telephone exchange plays incoming audio immediately (AudioSocket, RTP), the engine itself
must send one frame every 20 ms. All such outlets share one ``Pacer``: one timer on the event loop,
which calls each outlet's ``tick`` directly. It starts with the first registered outlet and stops
with the last, so an idle engine has no timer.

Promises:

- The schedule is absolute (start + n x interval on ``loop.time()``): it does not drift.
- After a stall, ``tick(count)`` requests the frames that are due, at most ``catch_up``: a
  telephone's jitter buffer absorbs that many. Further missed frames are skipped for good and the
  schedule restarts from now, so that a long stall never becomes a burst. Both are counted.
- An outlet that raises is logged and removed, and its own callback is called; the others continue.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

import structlog

log = structlog.get_logger()

INTERVAL = 0.020
"""Seconds between two ticks: one frame (`cordboard.audio.format.FRAME_MS`)."""


class Outlet(Protocol):
    """Sends one frame of audio per tick."""

    def tick(self, count: int) -> None:
        """Send the next ``count`` frames (1 except just after a stall). Must not block."""


class Pacer:
    """The shared clock. Use from the event loop's thread only."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        interval: float = INTERVAL,
        catch_up: int = 3,
        on_internal_error: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`on_internal_error(where)` is called for failed outlets."""
        if catch_up < 1:
            raise ValueError("catch_up must be at least 1")
        self._loop = loop
        self._interval = interval
        self._catch_up = catch_up
        self._on_internal_error = on_internal_error
        self._outlets: dict[Outlet, Callable[[Exception], None] | None] = {}
        self._round: tuple[Outlet, ...] = ()
        self._timer: asyncio.TimerHandle | None = None
        self._next = 0.0
        self.late_ticks = 0
        """Ticks that came at least one interval late but were made up for."""
        self.skipped_ticks = 0
        """Ticks that were skipped because the stall was too long."""

    @property
    def outlet_count(self) -> int:
        return len(self._outlets)

    @property
    def running(self) -> bool:
        return self._timer is not None

    def register(
        self, outlet: Outlet, on_failed: Callable[[Exception], None] | None = None
    ) -> None:
        """Tick ``outlet`` from the next interval on; ``on_failed`` gets the error that removes it.

        The first outlet is ticked one interval from now. Registering twice raises ValueError.
        """
        if outlet in self._outlets:
            raise ValueError("this outlet is registered already")
        self._outlets[outlet] = on_failed
        self._round = tuple(self._outlets)
        if self._timer is None:
            self._next = self._loop.time() + self._interval
            self._timer = self._loop.call_at(self._next, self._tick)

    def unregister(self, outlet: Outlet) -> None:
        """Stop ticking ``outlet`` at once, even in the middle of a round. Idempotent."""
        if outlet not in self._outlets:
            return
        del self._outlets[outlet]
        self._round = tuple(self._outlets)
        if not self._outlets and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _tick(self) -> None:
        missed = max(0, int((self._loop.time() - self._next) / self._interval + 1e-6))
        count = min(1 + missed, self._catch_up)
        self.late_ticks += count - 1
        self.skipped_ticks += missed + 1 - count
        self._next += (missed + 1) * self._interval
        self._timer = self._loop.call_at(self._next, self._tick)
        for outlet in self._round:
            if outlet not in self._outlets:
                continue
            try:
                outlet.tick(count)
            except Exception as error:  # noqa: BLE001 - border: isolate the other calls
                self._drop(outlet, error)

    def _drop(self, outlet: Outlet, error: Exception) -> None:
        on_failed = self._outlets.get(outlet)
        self.unregister(outlet)
        log.error("audio_outlet_failed", outlet=type(outlet).__name__, exc_info=error)
        self._on_internal_error("audio_outlet")
        if on_failed is not None:
            self._loop.call_soon(on_failed, error)
