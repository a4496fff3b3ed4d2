"""ElevenLabs' speech synthesis: `POST /v1/text-to-speech/{voice}/stream`, streamed sound."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

from cordboard.agents.extra_settings import with_extra
from cordboard.agents.pipeline.pcm_stream import PcmStream, UlawStream
from cordboard.agents.pipeline.service_voice import (
    NEXT_SOUND_SECONDS,
    PaidBy,
    ServiceVoice,
)
from cordboard.errors import VoiceError
from cordboard.net.service_http import ServiceHttp
from cordboard.vendors.elevenlabs.config import ElevenLabsTts

BASE_URL = "https://api.elevenlabs.io"
_VOICE_SETTINGS = ("stability", "similarity_boost", "style", "speed", "use_speaker_boost")
_FURTHER = ("apply_text_normalization", "seed")


class ElevenLabsSynthesis:
    """Implements `Synthesis`."""

    paid_by: PaidBy = "characters"

    def __init__(self, settings: ElevenLabsTts, key: str) -> None:
        self._settings = settings
        self.provider = settings.type
        self.model = settings.model_id
        self._http = ServiceHttp(
            "ElevenLabs' speech synthesis",
            settings.base_url or BASE_URL,
            settings.request_headers(key),
            VoiceError,
            connect_seconds=settings.connect_timeout_ms / 1000,
            silence_seconds=NEXT_SOUND_SECONDS,
        )

    async def speak(self, text: str, rate: int) -> AsyncGenerator[bytes, None]:
        """See `Synthesis.speak`. A telephone's 8 kHz is requested as u-law: the line's format, in
        half the bytes; any other rate from 16 kHz, which every account may have."""
        telephone = rate == 8000
        sound = UlawStream() if telephone else PcmStream(16000, rate)
        path = f"/v1/text-to-speech/{self._settings.voice_id}/stream"
        params = {"output_format": "ulaw_8000" if telephone else "pcm_16000"}
        async with self._http.post(path, params=params, json=self.request(text)) as pieces:
            async for piece in pieces:
                yield sound.feed(piece)
        yield sound.flush()

    def request(self, text: str) -> dict[str, Any]:
        """Return the request's parameters."""
        settings = self._settings
        body: dict[str, Any] = {"text": text, "model_id": settings.model_id}
        if settings.language_code:
            body["language_code"] = settings.language_code
        voice = {name: getattr(settings, name) for name in _VOICE_SETTINGS}
        voice = {name: value for name, value in voice.items() if value is not None}
        if voice:
            body["voice_settings"] = voice
        for name in _FURTHER:
            if (value := getattr(settings, name)) is not None:
                body[name] = value
        return with_extra(body, settings.extra)

    async def close(self) -> None:
        await self._http.close()


def elevenlabs_voice(settings: ElevenLabsTts, key: str) -> ServiceVoice:
    """Return the voice, for all calls."""
    return ServiceVoice(ElevenLabsSynthesis(settings, key))
