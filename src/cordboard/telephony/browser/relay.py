"""A browser call through Asterisk: the page's sound goes to a channel that Asterisk dials.

So an extension's whole way is tried: dialplan, Stasis, codec, and the call that the engine answers
at its end. The relay owns nothing of that call; it is the caller's telephone. When either side
hangs up it ends the other one, and leaves no channel, bridge or socket behind.

Each side has its own clock. Sound that has piled up beyond `MOST_QUEUED_MS`, after a stall or by
drift, is dropped until the pile is gone: a telephone does the same.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import structlog

from cordboard.calls.media.transcode import understood
from cordboard.calls.offer import Media
from cordboard.errors import AsteriskError, LineError, MediaError
from cordboard.telephony.browser.media import BrowserMedia
from cordboard.telephony.dialled import Dialled, DialledLine

Dial: TypeAlias = Callable[[Dialled], Awaitable[DialledLine]]
"""Calls an extension, and returns once it has answered. Raises `LineError`. When it is cancelled or
fails, nothing of the call is left."""
MOST_QUEUED_MS = 300
STEP_SECONDS = 5.0
"""Timeout of each step of the end."""

log = structlog.get_logger()


class Relay:
    """One call. `run` is its whole life."""

    def __init__(self, call_id: str, page: BrowserMedia, dial: Dial, dialled: Dialled) -> None:
        self._call_id = call_id
        self._page = page
        self._dial = dial
        self._dialled = dialled
        loop = asyncio.get_running_loop()
        self._over: asyncio.Future[str] = loop.create_future()
        self._keys: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Relay the sound until either side ends the call. A task border."""
        line: DialledLine | None = None
        reason = "failed"
        self._page.on_closed(self._end)
        try:
            dialling = asyncio.ensure_future(self._dial(self._dialled))
            await asyncio.wait((dialling, self._over), return_when=asyncio.FIRST_COMPLETED)
            if not dialling.done():
                dialling.cancel()
                await asyncio.wait((dialling,))
            if not dialling.cancelled():
                line = dialling.result()
                if not self._over.done():
                    await self._connect(line)
                reason = await self._over
        except (LineError, MediaError, AsteriskError) as error:
            log.warning("browser_call_not_dialled", call_id=self._call_id, error=str(error))
            reason = "unanswered"
        except Exception:  # task border: both sides must still be ended
            log.exception("browser_relay_failed", call_id=self._call_id)
        finally:
            await self._clear(line, reason)

    def _end(self, reason: str) -> None:
        if not self._over.done():
            self._over.set_result(reason)

    async def _connect(self, line: DialledLine) -> None:
        page = self._page
        media = understood(await line.open_media((page.format,)), (page.format,))
        media.on_closed(lambda _: self._end("hangup"))
        page.on_audio(_into(media))
        page.on_dtmf(lambda key: self._press(line, key))
        media.on_audio(_into(page))
        page.claim(self._call_id)  # only now: until here it rings

    def _press(self, line: DialledLine, key: str) -> None:
        task = asyncio.get_running_loop().create_task(self._pressed(line, key))
        self._keys.add(task)
        task.add_done_callback(self._keys.discard)

    async def _pressed(self, line: DialledLine, key: str) -> None:
        try:
            await line.dtmf(key)
        except LineError as error:
            log.warning("browser_key_lost", call_id=self._call_id, error=str(error))

    async def _clear(self, line: DialledLine | None, reason: str) -> None:
        for task in tuple(self._keys):
            task.cancel()
        steps = [line.hangup, line.release] if line is not None else []
        for step in steps:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(STEP_SECONDS):
                    try:
                        await step()
                    except LineError as error:
                        log.warning("browser_relay_end", call_id=self._call_id, error=str(error))
        self._page.hang_up(reason)
        await self._page.close()


def _into(media: Media) -> Callable[[bytes], None]:
    """Return what writes sound to a media, without letting it pile up."""

    def pass_on(sound: bytes) -> None:
        if media.queued_ms <= MOST_QUEUED_MS:
            media.write(sound)

    return pass_on
