"""Sound for the recognisers' tests: it is fed as fast as it is taken."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from cordboard.agent_api.stt import Listening
from cordboard_testkit.emulators.speech import Beeper

FRAME = 320


def voice(words: str) -> bytes:
    """Tones as long as the words are, at 8 kHz."""
    return Beeper().speak(words, 8000)


def silence(ms: int) -> bytes:
    return bytes(16 * ms)


async def feed(listening: Listening, pcm: bytes) -> None:
    """In frames, with time for the answers."""
    for at in range(0, len(pcm), FRAME):
        listening.hear(pcm[at : at + FRAME])
        await asyncio.sleep(0)


async def until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)
