"""Work that a cancelled task must finish."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


async def see_through(work: Coroutine[Any, Any, None]) -> None:
    """Do a short piece of work to its end, even when the task that awaits it is cancelled.

    The cancellation is not lost: it is raised when the work is done.
    """
    task = asyncio.ensure_future(work)
    cancelled = False
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            cancelled = True
    task.result()
    if cancelled:
        raise asyncio.CancelledError
