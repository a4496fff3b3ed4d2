"""Speech for some parties of a call, apart from its conversation."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Literal, TypeAlias

from cordboard.agent_api.tts import Voice
from cordboard.audio.format import AudioFormat
from cordboard.audio.transcoder import Transcoder
from cordboard.calls.offer import Media
from cordboard.errors import LineError, LineGone, VoiceError

VOICE_LIMIT = 8.0
"""Seconds until the text's next sound; beyond that the voice has failed."""
Hearer: TypeAlias = Literal["human", "operator"]
"""A party that can be spoken to alone: the human of a transfer, the operator of a conference."""
TAIL = 5.0
"""Seconds, beyond the length of a text's sound, within which the text must have been heard."""


async def speak_aside(
    sound: AbstractAsyncContextManager[Media],
    voice: Voice,
    text: str,
    begun: Callable[[], None] = lambda: None,
) -> None:
    """Speak a text by a sound of its own, such as `Party.aside`; return when it was heard. `begun`
    is called when the sound begins. Raises `LineError`."""
    async with sound as media:
        over = _OverOrHeard(media)
        try:
            await _write(media, voice, text, begun)
        except (VoiceError, TimeoutError) as error:
            raise LineError(f"the voice failed: {str(error) or 'no sound'}") from error
        media.mark(over.heard)
        await over.wait(media.queued_ms / 1000 + TAIL)


async def _write(media: Media, voice: Voice, text: str, begun: Callable[[], None]) -> None:
    rate = media.format.rate
    transcoder = Transcoder(AudioFormat("slin", rate), media.format)
    first = True
    async with asyncio.timeout(VOICE_LIMIT) as limit:
        async for pcm in voice.speak(text, rate=rate):
            if first:
                first = False
                media.mark(begun)
            media.write(transcoder.convert(pcm))
            limit.reschedule(asyncio.get_running_loop().time() + VOICE_LIMIT)


class _OverOrHeard:
    """The end of a text: heard whole, or the party is gone."""

    def __init__(self, media: Media) -> None:
        self._done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        media.on_closed(self._gone)

    def heard(self) -> None:
        if not self._done.done():
            self._done.set_result(None)

    def _gone(self, reason: str) -> None:
        if not self._done.done():
            self._done.set_exception(LineGone(f"the sound has ended: {reason}"))
            self._done.exception()  # retrieved, also if it comes before `wait`

    async def wait(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._done
        except TimeoutError:
            raise LineError("they have not heard it") from None
