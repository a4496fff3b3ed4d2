"""The caller's recent sound, for an agent or a service that was not connected to hear it.

During a handover between agents, or while a connection is opened again, no agent listens: the
caller's frames are kept, together with those of an utterance that the lost agent had begun to hear.
The next agent receives them faster than real time before it hears the caller live.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable

LEAD = 15
"""Frames (0.3 s) kept from before the start of speech that an agent reports."""
FRAME = 0.02
MOST = 400
"""Frames (8 s) that are kept; a longer utterance loses its beginning."""
CATCH_UP = 4
"""Frames that an agent receives for each new one until it has caught up."""


class CallerSound:
    """The caller's frames of one call. An index, a few appends: cheap at 50 frames a second."""

    def __init__(self, most: int = MOST) -> None:
        """`most`: frames that are kept."""
        self._most = most
        self._lately: deque[bytes] = deque(maxlen=most)
        self._wanted: int | None = None
        """Number of the last frames that the next agent must hear; None while there are none."""
        self._behind: deque[bytes] = deque()
        self._wait: Callable[[], bool] = _never

    def keep(self, frame: bytes) -> None:
        """Keep one more frame, whether an agent hears it or not."""
        self._lately.append(frame)
        if self._wanted is not None:
            self._wanted = min(self._wanted + 1, self._most)

    def utterance_begins(self, ago: float) -> None:
        """Note that the caller began to speak `ago` seconds ago."""
        if self._wanted is None:
            frames = LEAD + math.ceil(min(max(ago, 0.0), self._most * FRAME) / FRAME)
            self._wanted = min(frames, len(self._lately))

    def understood(self) -> None:
        """Note that the caller's words are in the conversation and need not be heard again."""
        self._wanted = None

    def nobody_listens(self) -> None:
        """Note that no agent hears the caller from this frame on."""
        if self._wanted is None:
            self._wanted = 0

    def somebody_listens(self, wait: Callable[[], bool] = lambda: False) -> None:
        """Note that the next agent is ready. It catches up, but not while `wait()` is true, for 8 s
        at most."""
        self._wait = wait
        wanted, self._wanted = self._wanted or 0, None
        self._behind = deque(list(self._lately)[len(self._lately) - wanted :])

    def pass_on(self, frame: bytes, hear: Callable[[bytes], None]) -> None:
        """Give the agent the frames it has missed, then this one."""
        behind = self._behind
        if not behind:
            hear(frame)
            return
        behind.append(frame)
        if len(behind) <= 2 * self._most and self._wait():
            return
        self._wait = _never
        for _ in range(min(CATCH_UP, len(behind))):
            hear(behind.popleft())


def _never() -> bool:
    return False
