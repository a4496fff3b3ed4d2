"""For how long the event loop is held: a ticker that asks for its turn every millisecond.

The longest time between two of its turns is how long nothing else could run: no frame of any call
was sent meanwhile. The millisecond itself is included, so the figure is never too good. What other
processes take of the processor counts as well.
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
    """Watch the event loop from the inside, as an engine with frames to send would feel it."""
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
            await asyncio.sleep(2 * TICK)  # a hold that has just ended is seen at the next turn
        finally:
            ticker.cancel()


@contextmanager
def _collector_as_in_the_engine() -> Iterator[None]:
    """What was imported is left out of garbage collections (`Engine.start` does so too)."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
