"""Apology and transfer of a caller when no agent is left to serve them.

A failed agent may not be able to apologise: the engine's own voice does. Where the context names a
destination (`on_failure`), the caller is transferred there; otherwise the call ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import structlog

from cordboard.agent_api.speech import Speech
from cordboard.audio.format import AudioFormat
from cordboard.calls.call_control import CallControl
from cordboard.calls.conversation import Conversation
from cordboard.calls.ending import TOO_LONG, heard_out
from cordboard.config.schema import Config
from cordboard.errors import AgentError, LineError

log = structlog.get_logger()

TROUBLE = "I am sorry, something went wrong on our side. Please call again later. Goodbye."
STOPPING = "I am sorry, this line is closing now. Please call again later. Goodbye."
STALLED_LIMIT = 3.0
"""Seconds within which a failed agent must begin its apology, where the engine has no voice."""
VOICE_LIMIT = 5.0
"""Timeout in seconds of the engine's voice for the whole apology, which is rendered beforehand."""


def sentences(config: Config) -> Iterator[str]:
    """Yield the last sentences of calls that cannot continue."""
    yield from (TROUBLE, STOPPING, TOO_LONG)


class FailureApology:
    """The apology of one call. Does not end the call: its owner does."""

    def __init__(
        self,
        apology: Callable[[AudioFormat], Awaitable[bytes]] | None,
        line: CallControl,
        destination: str | None,
        trouble: Callable[[str, str], None],
    ) -> None:
        """`apology` returns the sound of `TROUBLE`, empty when there is no voice for it.
        `trouble(where, message)` is called for failures here."""
        self._apology = apology
        self._line = line
        self._destination = destination
        self._trouble = trouble

    async def speak(self, conversation: Conversation, audio_format: AudioFormat) -> bool:
        """Say without an agent that there is none; False when there is no voice for it."""
        words = await self._words(audio_format)
        if words:
            conversation.say_without_agent(Speech(TROUBLE, "apology"), words)
            await heard_out(conversation)
        return bool(words)

    async def _words(self, audio_format: AudioFormat) -> bytes:
        """Return the apology's sound; empty where there is no voice, or it fails too."""
        if self._apology is None:
            return b""
        try:
            async with asyncio.timeout(VOICE_LIMIT):
                return await self._apology(audio_format)
        except (AgentError, TimeoutError) as error:
            self._trouble("apology", str(error) or f"no sound within {VOICE_LIMIT:g} s")
            return b""

    async def apologise(self, conversation: Conversation, audio_format: AudioFormat) -> None:
        """Apologise for the failed agent, if need be with its own voice, and transfer the
        caller."""
        if not await self.speak(conversation, audio_format):
            await self._speak_by_agent(conversation)
        await self.pass_on()

    async def pass_on(self) -> None:
        """Transfer the caller, which ends the call, if the context names a destination."""
        if self._destination is None:
            return
        try:
            await self._line.transfer_after_speech(self._destination, by="engine", attended=False)
        except LineError as error:
            self._trouble("on_failure", str(error))

    async def _speak_by_agent(self, conversation: Conversation) -> None:
        """Have the agent speak, as far as it still can, with a short timeout."""
        conversation.speech.say(Speech(TROUBLE, "apology"))
        await heard_out(conversation, STALLED_LIMIT)
        if conversation.playout.speaking:
            await heard_out(conversation)
