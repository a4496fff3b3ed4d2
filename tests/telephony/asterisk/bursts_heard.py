"""Waits for the bursts of a test, as the fixture `bursts` makes them, at the end of a line."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from cordboard_testkit.correlation import came_through
from cordboard_testkit.patience import PATIENCE
from cordboard_testkit.timeline import RATE, Samples

BURST = 3 * RATE // 10
"""Samples from one burst to the next."""


async def burst_came(said: Samples, heard: Callable[[], Samples], *, alike: float = 0.9) -> None:
    """Wait until one burst of `said` has come through whole. A stall of the machine may cost the
    others. Compares in a thread: the engine in this event loop goes on meanwhile."""
    parts = [said[at : at + BURST] for at in range(0, len(said), BURST)]

    def came(sound: Samples) -> bool:
        return any(came_through(part, sound, alike=alike) for part in parts)

    async with asyncio.timeout(PATIENCE):
        while not await asyncio.to_thread(came, heard()):  # noqa: ASYNC110 - frames tell nobody
            await asyncio.sleep(0.1)
