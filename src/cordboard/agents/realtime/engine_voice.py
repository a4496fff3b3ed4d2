"""The engine's own voice in a realtime agent's call: fillers, questions, farewells.

One sentence at a time, and only while the service is silent: the voice that begins first is heard
to the end.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from cordboard.agent_api.tts import Voice
from cordboard.audio.format import AudioFormat
from cordboard.audio.g711 import linear_to_alaw, linear_to_ulaw


async def spoken(voice: Voice, text: str, audio_format: AudioFormat) -> AsyncIterator[bytes]:
    """Yield the sound of a text in a call's format. Raises `VoiceError`."""
    async for pcm in voice.speak(text, rate=audio_format.rate):
        match audio_format.encoding:
            case "ulaw":
                yield linear_to_ulaw(pcm)
            case "alaw":
                yield linear_to_alaw(pcm)
            case "slin":
                yield pcm
