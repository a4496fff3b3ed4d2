"""The caller's line, as the other parties of their call see it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from typing import Any

import structlog

from cordboard.errors import AsteriskError, LineError
from cordboard.telephony.asterisk.ari import AriClient
from cordboard.telephony.asterisk.media_path import MediaPath

log = structlog.get_logger()

ENTRY_SECONDS = 2.0
"""Longest time from making a channel to its StasisStart: before, Asterisk refuses to dial or move
it."""
_GONE = (404, 409)
"""Statuses of operations on a channel or bridge that is gone, or music that does not play."""


@dataclass(frozen=True, slots=True)
class CallerSide:
    """The caller's line, as the other parties of their call see it."""

    ari: AriClient
    path: MediaPath
    app: str
    channel_id: str
    bridge_id: str
    """The bridge with the agent's media."""
    prefix: str
    """The beginning of the ids of everything that belongs to the call."""
    name: str
    number: str
    strand: Callable[[str], None]
    """Called with the path of what must be removed once Asterisk is reachable."""
    watch: Callable[[Iterable[str]], None]
    """Called with the ids of channels: their events must come to the line."""
    closed: Callable[[object], None]
    """Called with a party that is closed."""

    async def remove(self, path: str) -> None:
        """Remove something that may be gone already; later, if Asterisk cannot be reached now."""
        try:
            await self.ari.request("DELETE", path)
        except AsteriskError as error:
            if error.status == 0:
                self.strand(path)  # perhaps it was done: the next try will show
            elif error.status not in _GONE:
                log.warning("not_removed", path=path, error=str(error))


async def together(*requests: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Send requests at once: ARI handles those of one websocket in order. Raises the first
    error."""
    try:
        async with asyncio.TaskGroup() as group:
            for request in requests:
                group.create_task(request())
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from failures


async def within(event: asyncio.Event, otherwise: str) -> None:
    """Wait for a channel to enter our application. Raises `LineError`."""
    try:
        async with asyncio.timeout(ENTRY_SECONDS):
            await event.wait()
    except TimeoutError:
        raise LineError(otherwise) from None
