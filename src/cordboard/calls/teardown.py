"""The teardown of a call, step by step: a failed step does not stop the next ones."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import structlog

from cordboard.calls.offer import LineControl
from cordboard.errors import LineError

log = structlog.get_logger()

STEP_LIMIT = 5.0
"""Timeout in seconds of one step."""
CANCEL_LIMIT = 1.0
"""Seconds that a step has to stop after its timeout."""


async def step(
    name: str,
    work: Coroutine[Any, Any, None],
    trouble: Callable[[str, str], None],
    limit: float = STEP_LIMIT,
) -> None:
    """Run one step in its own task; `trouble(name, message)` is called for failures."""
    task = asyncio.get_running_loop().create_task(work)
    await asyncio.wait((task,), timeout=limit)
    if not task.done():
        task.cancel()
        trouble(name, f"not closed within {limit:g} s")
        await asyncio.wait((task,), timeout=CANCEL_LIMIT)
    elif task.cancelled():
        trouble(name, "closing it was cancelled")
    elif (error := task.exception()) is not None:
        trouble(name, repr(error))


async def give_back(line: LineControl, status: str) -> None:
    """Return the caller to the dialplan; hang up if it does not take them."""
    try:
        await line.decline(status)
    except LineError as error:
        log.warning("decline_failed", status=status, error=str(error))
        await line.hangup("congestion")
