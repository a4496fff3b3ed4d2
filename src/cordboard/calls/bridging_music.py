"""Hold music for a caller whose engine was lost, until the agent of the next one is ready.

    the call goes on here ── the agent is not ready after AFTER_SECONDS ──> music ── ready ──> none

Most agents are ready sooner: a tenth of a second of music would be worse than the silence.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import structlog

from cordboard.errors import LineError, LineGone

log = structlog.get_logger()

AFTER_SECONDS = 0.5
"""Silence from the moment at which the call goes on here: with the move of the caller before it,
music begins within a second of the loss being noticed."""


class BridgingMusic:
    """The music of one call. Use once: `begin`, then `end`."""

    def __init__(self, play: Callable[[str], Awaitable[None]], music: str) -> None:
        """`play(music)` begins the line's music (`LineControl.music`), `play("")` ends it."""
        self._play = play
        self._music = music
        self._task: asyncio.Task[None] | None = None
        self._began = False

    def begin(self) -> None:
        """Play in a while. Returns at once."""
        self._task = asyncio.get_running_loop().create_task(self._begin(), name="bridging-music")

    async def end(self) -> None:
        """Play no longer; returns when the line is quiet. Idempotent. Raises `LineError`."""
        task, self._task = self._task, None
        if task is None:
            return
        if not self._began:
            task.cancel()
        await asyncio.wait((task,))
        if self._began:
            with suppress(LineGone):
                await self._play("")

    async def _begin(self) -> None:
        await asyncio.sleep(AFTER_SECONDS)
        self._began = True
        try:
            await self._play(self._music)
        except LineError as error:  # the caller has gone, or this line has no music
            log.info("no_bridging_music", error=str(error))
