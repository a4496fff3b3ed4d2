"""What the caller said lately, for an agent or a service that was not there to hear it.

While one agent takes over from another, or a connection is opened again, nobody listens: the
caller's frames are kept, and so are those of an utterance that the lost one had begun to hear. The
next one gets them faster than they were spoken, before it hears the caller as they speak.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable

LEAD = 15
"""Frames (0.3 s) before the moment at which the caller began, as an agent tells it."""
FRAME = 0.02
MOST = 400
"""Frames (8 s) that are kept; of a longer utterance, the beginning is lost."""
CATCH_UP = 4
"""Frames that an agent is given for each new one until it has caught up."""


class CallerSound:
    """The caller's frames of one call. An index, a few appends: cheap at 50 frames a second."""

    def __init__(self, most: int = MOST) -> None:
        """`most`: frames that are kept."""
        self._most = most
        self._lately: deque[bytes] = deque(maxlen=most)
        self._wanted: int | None = None
        """How many of the last frames the next agent is to hear; None: none yet."""
        self._behind: deque[bytes] = deque()
        self._wait: Callable[[], bool] = _never

    def keep(self, frame: bytes) -> None:
        """One more frame, whether an agent hears it or not."""
        self._lately.append(frame)
        if self._wanted is not None:
            self._wanted = min(self._wanted + 1, self._most)

    def utterance_begins(self, ago: float) -> None:
        """The caller has begun to say something, so many seconds ago."""
        if self._wanted is None:
            frames = LEAD + math.ceil(min(max(ago, 0.0), self._most * FRAME) / FRAME)
            self._wanted = min(frames, len(self._lately))

    def understood(self) -> None:
        """What they said is in the conversation: nobody has to hear it again."""
        self._wanted = None

    def nobody_listens(self) -> None:
        """From this frame on no agent hears them."""
        if self._wanted is None:
            self._wanted = 0

    def somebody_listens(self, wait: Callable[[], bool] = lambda: False) -> None:
        """The next agent is there: it has to catch up, but not while `wait` says so, for 8 s at
        most."""
        self._wait = wait
        wanted, self._wanted = self._wanted or 0, None
        self._behind = deque(list(self._lately)[len(self._lately) - wanted :])

    def pass_on(self, frame: bytes, hear: Callable[[bytes], None]) -> None:
        """Have the agent hear this frame, after those that it has missed."""
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
