"""Hold music while the caller waits for slow work: a tool of the agent, or the lookups before it.

    off ──work for `music_after_ms`, nothing is said──▶ on ──sound of ours, or the work ends──▶ off

The line plays the music in place of our sound, so the two are never mixed. The first sound of ours
ends the music, and is held until the line has stopped it, so none of that sound is lost. The music
returns once the sound was heard and the work still goes on. Music is no silence: the silence watch
waits. On a line without music (`LineUnsupported`) the caller hears fillers instead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from cordboard.calls import events
from cordboard.calls.floor import Floor
from cordboard.calls.ledger import Ledger
from cordboard.calls.media.playout import Playout
from cordboard.config.conversation import Silence
from cordboard.errors import LineError, LineGone, LineUnsupported

log = structlog.get_logger()

AFTER_SPEECH = 1.5
"""Seconds of silence after a sentence of ours until music comes again."""
LOOK_AGAIN = 0.3
"""Seconds until the next look while the caller speaks, is asked something, or has us on hold."""


class WaitingMusic:
    """The music of one call, from its first work to `ended`."""

    def __init__(
        self,
        settings: Silence,
        play: Callable[[str], Awaitable[None]],
        playout: Playout,
        floor: Floor,
        ledger: Ledger,
        failed: Callable[[str], None],
    ) -> None:
        """`play(music)` begins the line's music (`LineControl.music`), `play("")` ends it. `failed`
        counts an internal error (`Metrics.internal_error`)."""
        self._after = settings.music_after_ms / 1000
        self._music = settings.music
        self._play = play
        self._playout = playout
        self._floor = floor
        self._ledger = ledger
        self._failed = failed
        self._loop = asyncio.get_running_loop()
        self._works_since: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._wanted = False
        self._began: float | None = None
        """Loop time at which the line began to play; None while it does not."""
        self._switching: asyncio.Task[None] | None = None

    @property
    def playing(self) -> bool:
        """True while the caller hears music, or is about to."""
        return self._wanted or self._began is not None

    def works(self, on: bool) -> None:
        """Note that the caller waits for work, or does not any more."""
        if not on:
            self._works_since = None
        elif self._works_since is None:
            self._works_since = self._loop.time()
        self.look()

    def look(self) -> None:
        """Begin or end the music if it is time, or find out when to look again."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        since, floor, now = self._works_since, self._floor, self._loop.time()
        if since is None or not self._after or floor.ending:
            self._want(False)
            return
        if floor.caller_waits:
            self._want(False)
            at = now + LOOK_AGAIN
        elif self._wanted:
            return
        else:
            at = max(since + self._after, self._playout.quiet_at + AFTER_SPEECH)
            if at <= now and floor.caller_speaks:
                at = now + LOOK_AGAIN
        if at <= now:
            self._want(True)
        else:
            self._timer = self._loop.call_at(at, self.look)

    async def ended(self) -> None:
        """End the music with the call; returns when the line has done so."""
        self._after = 0.0
        self.look()
        if self._switching is not None:
            await asyncio.wait((self._switching,))

    def _want(self, on: bool) -> None:
        self._wanted = on
        if on:
            self._playout.before_sound(self._sound_comes)
        if self._switching is None and on != (self._began is not None):
            self._switching = self._loop.create_task(self._switch(), name="waiting-music")

    def _sound_comes(self) -> None:
        """Hold our sound until the music is gone."""
        if self._switching is not None or self._began is not None:
            self._playout.keep("music", True)
        self._want(False)

    async def _switch(self) -> None:
        """Have the line do what is wanted. A task border."""
        try:
            while self._wanted != (self._began is not None):
                await self._switch_once()
        except Exception as error:  # task border: the agent must be heard in any case
            log.exception("waiting_music_failed", error=repr(error))
            self._failed("music")
            self._after, self._wanted, self._began = 0.0, False, None
        self._switching = None
        if not self._wanted:
            self._playout.before_sound(None)
            self._playout.keep("music", False)
            self.look()

    async def _switch_once(self) -> None:
        music = self._music if self._wanted else ""
        try:
            await self._play(music)
        except LineError as error:
            if not isinstance(error, LineUnsupported | LineGone):
                log.warning("no_waiting_music", music=music, error=str(error))
            self._after, self._wanted = 0.0, False
            if self._began is None:
                return
        now = self._loop.time()
        if self._began is None:
            self._began = now
            self._ledger.record(events.MusicBegan(music))
        else:
            played_ms = round((now - self._began) * 1000)
            self._began = None
            self._ledger.record(events.MusicEnded(played_ms))
