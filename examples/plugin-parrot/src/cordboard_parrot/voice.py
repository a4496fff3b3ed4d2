"""The voice: a short tone for each word."""

from __future__ import annotations

import math
import struct
from collections.abc import AsyncIterator, Iterable

WORD_SECONDS = 0.12


def whistle(text: str, pitch: int, rate: int) -> bytes:
    """s16 samples, little-endian."""
    count = max(1, len(text.split())) * int(WORD_SECONDS * rate)
    step = 2 * math.pi * pitch / rate
    return struct.pack(f"<{count}h", *(int(8_000 * math.sin(step * n)) for n in range(count)))


class ParrotVoice:
    """Implements `cordboard.Voice`."""

    def __init__(self, pitch: int) -> None:
        self._pitch = pitch

    async def speak(self, text: str, *, rate: int = 8000) -> AsyncIterator[bytes]:
        yield whistle(text, self._pitch, rate)

    async def prepare(self, texts: Iterable[str], *, rate: int = 8000) -> None:
        """There is nothing to prepare."""
