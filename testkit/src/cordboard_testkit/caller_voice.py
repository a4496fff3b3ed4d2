"""Gives a scripted caller its voice: text to 8 kHz samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cordboard_testkit.scenario import ScriptLine
from cordboard_testkit.timeline import RATE, Samples

if TYPE_CHECKING:
    from cordboard.agent_api.tts import Voice


async def render_speech(voice: Voice, text: str) -> Samples:
    """Return `text` as 8 kHz audio, sentence after sentence. Raises the errors of the voice."""
    chunks = [chunk async for chunk in voice.speak(text, rate=RATE)]
    return np.frombuffer(b"".join(chunks), "<i2").astype(np.int16)


async def render_script(voice: Voice, texts: list[str]) -> list[ScriptLine]:
    """Return every line of a script with its audio."""
    return [ScriptLine(text, await render_speech(voice, text)) for text in texts]
