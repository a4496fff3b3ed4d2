"""Measures blocks of the event loop: a ticker that schedules its turn every millisecond.

In the longest time between two of its turns nothing else could run: no frame of any call
was sent. The millisecond itself is included, so the figure is never too good. Processor time of
other processes counts as well.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field

TICK = 0.001
SETTLE = 0.05
"""Seconds of ticks before anything is measured."""


@dataclass(slots=True)
class Gaps:
    """The times between two turns of the ticker, in seconds."""

    seconds: list[float] = field(default_factory=list)

    @property
    def longest(self) -> float:
        return max(self.seconds)


@asynccontextmanager
async def ticking() -> AsyncIterator[Gaps]:
    """Watch the event loop from the inside, as an engine with frames to send would see it."""
    gaps = Gaps()

    async def tick() -> None:
        last = time.perf_counter()
        while True:
            await asyncio.sleep(TICK)
            now = time.perf_counter()
            gaps.seconds.append(now - last)
            last = now

    ticker = asyncio.create_task(tick())
    with _collector_as_in_the_engine():
        await asyncio.sleep(SETTLE)
        gaps.seconds.clear()
        try:
            yield gaps
            await asyncio.sleep(2 * TICK)  # a block that has just ended shows at the next turn
        finally:
            ticker.cancel()


@contextmanager
def _collector_as_in_the_engine() -> Iterator[None]:
    """Imported objects are excluded from garbage collections (`Engine.start` does so too)."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
