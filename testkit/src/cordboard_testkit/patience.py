"""Timeout of the test kit and the tests for an event.

A test waits for events; only a broken engine makes it wait to the end. The time is therefore chosen
for the slowest machine, and is not a measure of speed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

PATIENCE = 60.0
"""Seconds."""


async def until(reached: Callable[[], bool], what: str = "") -> None:
    """Wait for a state without an event of its own: poll every 5 ms.

    Raises `AssertionError` with `what` was waited for.
    """
    try:
        async with asyncio.timeout(PATIENCE):
            while not reached():  # noqa: ASYNC110 - see above
                await asyncio.sleep(0.005)
    except TimeoutError:
        raise AssertionError(f"waited {PATIENCE:g} s for {what or reached}") from None
