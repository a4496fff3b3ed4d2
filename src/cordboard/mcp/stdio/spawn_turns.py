"""Starts server processes one after the other, with a short pause in between.

Each start blocks the event loop until the child has begun to run its program. A single start takes
about 1 ms. Twenty at once compete with the already started ones for the processors and blocked the
loop for 176 to 389 ms; started 20 ms apart they blocked it for 17 to 20 ms and were all ready as
soon (two cores, measured). One instance serves all servers of an engine.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

APART = 0.02
"""Seconds between two starts."""


class SpawnTurns:
    """Serialises process starts, `apart` seconds after each other."""

    def __init__(self, apart: float = APART) -> None:
        self._apart = apart
        self._lock = asyncio.Lock()
        self._next_at = 0.0

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for the next turn, first come first served."""
        loop = asyncio.get_running_loop()
        async with self._lock:
            await asyncio.sleep(max(0.0, self._next_at - loop.time()))
            try:
                yield
            finally:
                self._next_at = loop.time() + self._apart
