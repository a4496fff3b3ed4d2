"""The way down of a call, step by step: whatever one step does, the next ones come."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import structlog

from cordboard.calls.offer import LineControl
from cordboard.errors import LineError

log = structlog.get_logger()

STEP_LIMIT = 5.0
"""Longest time one step of the clean-up may take."""
CANCEL_LIMIT = 1.0
"""How long a step that took too long may take to stop."""


async def step(
    name: str,
    work: Coroutine[Any, Any, None],
    trouble: Callable[[str, str], None],
    limit: float = STEP_LIMIT,
) -> None:
    """Do one step in a task of its own; `trouble(name, message)` hears what went wrong."""
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
    """Give the caller back to the dialplan; when it does not take them, hang up."""
    try:
        await line.decline(status)
    except LineError as error:
        log.warning("decline_failed", status=status, error=str(error))
        await line.hangup("congestion")
