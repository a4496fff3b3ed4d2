"""OpenAI's speech synthesis: `POST /audio/speech`, streamed raw sound at 24 kHz."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

from cordboard.agents.extra_settings import with_extra
from cordboard.agents.pipeline.pcm_stream import PcmStream
from cordboard.agents.pipeline.service_voice import (
    NEXT_SOUND_SECONDS,
    PaidBy,
)
from cordboard.errors import VoiceError
from cordboard.net.service_http import ServiceHttp
from cordboard.vendors.openai.config import OpenAITts

BASE_URL = "https://api.openai.com/v1"
NATIVE_RATE = 24000
"""Sample rate of `response_format: pcm`: s16, little-endian."""
MOST_CHARACTERS = 4096
_OWN_VOICE = "voice_"
_WITHOUT_INSTRUCTIONS = _PAID_BY_TEXT = ("tts-1", "tts-1-hd")


class OpenAISynthesis:
    """Implements `Synthesis`."""

    def __init__(self, settings: OpenAITts, key: str) -> None:
        self._settings = settings
        self.provider = settings.type
        self.model = settings.chosen_model
        # The later models are billed by tokens of sound, which are not reported; they follow its
        # length.
        by_text = self.model in _PAID_BY_TEXT
        self.paid_by: PaidBy = "characters" if by_text else "seconds"
        self._http = ServiceHttp(
            "OpenAI's speech synthesis",
            settings.base_url or BASE_URL,
            settings.request_headers(key),
            VoiceError,
            connect_seconds=settings.connect_timeout_ms / 1000,
            silence_seconds=NEXT_SOUND_SECONDS,
        )

    async def speak(self, text: str, rate: int) -> AsyncGenerator[bytes, None]:
        """See `Synthesis.speak`."""
        sound = PcmStream(NATIVE_RATE, rate)
        async with self._http.post("/audio/speech", json=self.request(text)) as pieces:
            async for piece in pieces:
                yield sound.feed(piece)
        yield sound.flush()

    def request(self, text: str) -> dict[str, Any]:
        """Return the request's parameters."""
        settings = self._settings
        own = settings.voice.startswith(_OWN_VOICE)
        body: dict[str, Any] = {
            "model": self.model,
            "input": text[:MOST_CHARACTERS],
            "voice": {"id": settings.voice} if own else settings.voice,
            "response_format": "pcm",
        }
        if settings.instructions and self.model not in _WITHOUT_INSTRUCTIONS:
            body["instructions"] = settings.instructions
        if settings.speed != 1.0:
            body["speed"] = settings.speed
        return with_extra(body, settings.extra)

    async def close(self) -> None:
        await self._http.close()
