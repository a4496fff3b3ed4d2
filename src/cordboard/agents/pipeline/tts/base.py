"""The door to speech synthesis: what a voice takes and gives, whoever makes it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import Protocol


class Voice(Protocol):
    """Turns text into audio. One instance serves all calls."""

    def speak(self, text: str, *, rate: int = 8000) -> AsyncIterator[bytes]:
        """Audio of ``text``, one chunk of s16 samples at ``rate`` per sentence, each as soon as
        it is ready. Closing the iterator, or cancelling, stops before the next sentence.
        Raises ``VoiceError`` when the engine below fails.
        """

    async def prepare(self, texts: Iterable[str], *, rate: int = 8000) -> None:
        """Render texts ahead (greetings, fillers), so that ``speak`` has them at once."""
