"""The agent's speech output: turns one text at a time into sound for the caller.

Sentences never mix: a sentence waits until the text before it has been turned into sound. Nothing
begins while the caller is taking a turn. A filler is dropped when other text is being turned into
sound already, or when the caller speaks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from cordboard.agent_api.agent import AgentAudio, AgentSession, AgentText
from cordboard.agent_api.speech import Speech
from cordboard.agent_api.tts import Voice
from cordboard.errors import FailureKind, VoiceError

VOICE_LIMIT = 8.0
"""Seconds until a text's next sound; beyond that the voice has failed."""
POLITE_LIMIT = 4.0
"""Seconds for which an agent with a ready answer lets the caller finish."""


class SpeechOutput:
    """The speech output of one call."""

    def __init__(
        self,
        voice: Voice,
        session: AgentSession,
        floor_is_free: asyncio.Event,
        on_failed: Callable[[str, FailureKind], None],
    ) -> None:
        self._voice = voice
        self._session = session
        self._floor_is_free = floor_is_free
        self._on_failed = on_failed
        self._loop = asyncio.get_running_loop()
        self._speech = asyncio.Lock()
        self.protected = False
        """The current speech is the greeting."""

    async def speak(self, turn: int, text: str, *, greeting: bool = False) -> None:
        """Say a sentence of an answer."""
        async with self._speech:
            await self._wait_for_the_floor()
            await self._voice_it(turn, text, greeting=greeting)

    async def say(self, turn: int, speech: Speech) -> None:
        """Say a sentence of the engine."""
        async with self._speech:
            await self._wait_for_the_floor()
            await self._voice_it(turn, speech.text, speech)

    async def fill(self, turn: int, speech: Speech) -> None:
        """Say a filler, unless another sentence is about to be heard or the caller speaks."""
        if not self._speech.locked() and self._floor_is_free.is_set():
            await self.say(turn, speech)

    async def encourage(self, turn: int, speech: Speech) -> None:
        """Say a continuer in the caller's pause, unless another sentence is being spoken."""
        if not self._speech.locked():
            async with self._speech:
                await self._voice_it(turn, speech.text, speech)

    async def _voice_it(
        self, turn: int, text: str, speech: Speech | None = None, *, greeting: bool = False
    ) -> None:
        session = self._session
        self.protected = greeting
        session.emit(AgentText(turn, text, self._loop.time(), speech))
        try:
            async with asyncio.timeout(VOICE_LIMIT) as limit:
                async for pcm in self._voice.speak(text, rate=session.format.rate):
                    session.emit(AgentAudio(turn, pcm))
                    limit.reschedule(self._loop.time() + VOICE_LIMIT)
        except VoiceError as error:
            if speech is not None:
                speech.cut()
            self._on_failed(f"the voice failed: {error}", error.kind)
        except TimeoutError:
            if speech is not None:
                speech.cut()
            self._on_failed(f"the voice gave no sound for {VOICE_LIMIT:g} s", "stalled")

    async def _wait_for_the_floor(self) -> None:
        if self._floor_is_free.is_set():
            return
        try:
            async with asyncio.timeout(POLITE_LIMIT):
                await self._floor_is_free.wait()
        except TimeoutError:
            return
