"""The interface of speech synthesis, the same for all voices."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from typing import Protocol, runtime_checkable

from cordboard.agent_api.agent import Usage


@runtime_checkable
class Voice(Protocol):
    """Turns text into audio. One instance serves all calls."""

    def speak(self, text: str, *, rate: int = 8000) -> AsyncIterator[bytes]:
        """Yield the audio of ``text``, s16 samples at ``rate`` in chunks (a sentence, or less),
        each as soon as it is ready. Closing the iterator, or cancelling, stops the rest. Raises
        ``VoiceError`` when the engine below fails.
        """

    async def prepare(self, texts: Iterable[str], *, rate: int = 8000) -> None:
        """Render texts ahead (greetings, fillers), so that ``speak`` has them at once."""


@runtime_checkable
class HasVoice(Protocol):
    """An agent with a voice that can speak apart from its conversation."""

    def own_voice(self) -> Voice | None:
        """Return the agent's voice, or the engine's where the agent's speaks in its session alone;
        None if there is neither now."""


@runtime_checkable
class PaidVoice(Voice, Protocol):
    """A voice that costs money."""

    def for_call(self, used: Callable[[Usage], None]) -> Voice:
        """Return the same voice, which reports its usage to `used`, on the event loop."""
