"""Server processes are begun one after the other, with a breath in between.

Each start blocks the event loop until the child has begun to run its program. One alone takes about
1 ms; twenty at once compete with their elder siblings for the processors and held the loop for 176
to 389 ms, 20 ms apart for 17 to 20, and were all up as soon (two cores, measured). One for all
servers of an engine.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

APART = 0.02
"""Seconds from one start to the next."""


class SpawnTurns:
    """Who may start a process now."""

    def __init__(self, apart: float = APART) -> None:
        self._apart = apart
        self._lock = asyncio.Lock()
        self._next_at = 0.0

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for one's turn, first come first served."""
        loop = asyncio.get_running_loop()
        async with self._lock:
            await asyncio.sleep(max(0.0, self._next_at - loop.time()))
            try:
                yield
            finally:
                self._next_at = loop.time() + self._apart
