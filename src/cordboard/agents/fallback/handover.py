"""The sentence between two agents, in the engine's own voice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from cordboard.agent_api.tts import Voice
from cordboard.audio.format import AudioFormat
from cordboard.audio.transcoder import Transcoder
from cordboard.errors import VoiceError

log = structlog.get_logger()

LIMIT = 4.0
"""Timeout of the voice in seconds."""


async def say_bridge(
    voice: Voice, text: str, target: AudioFormat, write: Callable[[bytes], None]
) -> None:
    """Write the text as sound; only part of it, or nothing, when the voice fails."""
    source = AudioFormat("slin", target.rate)
    transcoder = Transcoder(source, target)
    try:
        async with asyncio.timeout(LIMIT):
            async for pcm in voice.speak(text, rate=target.rate):
                write(transcoder.convert(pcm))
    except (VoiceError, TimeoutError) as error:
        log.warning("bridging_phrase_failed", error=repr(error))
