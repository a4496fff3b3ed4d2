"""The fillers of slow tools: one at a time, never over or into anybody's voice.

The desk decides that a filler is due, this whether and when it is said. With several tools at work
that is the first one's; whoever wants one `APART` seconds after another tool's would only say a
second one. One that falls due while the agent is heard, or soon after the conversation's own
filler, waits until there has been silence for as long; while the caller speaks or is being asked
something, until they have finished. If the tool has answered by then, it is not said at all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

APART = 2.0
"""Seconds from a filler, or from the agent's speech, within which another one is only noise."""


class ToolFillers:
    """The tools' fillers of one call."""

    def __init__(
        self,
        say: Callable[[str, str], None],
        queued_ms: Callable[[], int],
        floor_is_free: Callable[[], bool],
    ) -> None:
        """`say(ask_id, text)`; `queued_ms`: sound the caller has yet to hear; `floor_is_free`: the
        caller neither speaks nor is being asked something."""
        self._loop = asyncio.get_running_loop()
        self._say = say
        self._queued_ms = queued_ms
        self._floor_is_free = floor_is_free
        self._filled_at = -APART
        self._quiet_from = -APART
        """The agent was heard until then, as far as that delays a filler."""
        self._waiting: tuple[str, str] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def wanted(self, ask_id: str, text: str) -> None:
        """A tool is slow: say this, when it fits."""
        if self._loop.time() - self._filled_at < APART or self._waiting is not None:
            return
        self._waiting = ask_id, text
        self.look()

    def filled(self) -> None:
        """The conversation says a filler of its own: a tool's comes so much later."""
        self._quiet_from = max(self._quiet_from, self._loop.time() + APART)
        self.look()

    def answered(self, ask_id: str) -> None:
        """The tool needs no filler any more."""
        if self._waiting is not None and self._waiting[0] == ask_id:
            self._drop()

    def look(self) -> None:
        """Something has changed: perhaps it fits now."""
        if self._waiting is None:
            return
        self._stop()
        now, queued = self._loop.time(), self._queued_ms() / 1000
        if queued > 0:
            self._quiet_from = now + queued + APART
        if not self._floor_is_free():
            return  # we are told when it is
        if now >= self._quiet_from - 1e-3:
            ask_id, text = self._waiting
            self._filled_at = now
            self._drop()
            self._say(ask_id, text)
        else:
            self._timer = self._loop.call_at(self._quiet_from, self.look)

    def close(self) -> None:
        """Nothing is said any more."""
        self._drop()

    def _drop(self) -> None:
        self._waiting = None
        self._stop()

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
