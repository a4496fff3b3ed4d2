"""ElevenLabs' own SDK as the judge: of the emulated speech synthesis, and of what is sent to it."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from cordboard.vendors.elevenlabs.config import ElevenLabsTts
from cordboard.vendors.elevenlabs.tts import ElevenLabsSynthesis
from cordboard_testkit.emulators.elevenlabs.speech import KEY, VOICE, ElevenLabsSpeechEmulator
from cordboard_testkit.emulators.speech import Beeper

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@asynccontextmanager
async def sdk(service: ElevenLabsSpeechEmulator, key: str = KEY) -> AsyncIterator[Any]:
    import httpx
    from elevenlabs.client import AsyncElevenLabs

    async with httpx.AsyncClient() as http:
        yield AsyncElevenLabs(base_url=service.url, api_key=key, httpx_client=http)


async def test_the_sdk_speaks() -> None:
    from elevenlabs import VoiceSettings

    async with ElevenLabsSpeechEmulator() as service, sdk(service) as api:
        pieces = api.text_to_speech.stream(
            VOICE,
            text="Hello there",
            model_id="eleven_flash_v2_5",
            output_format="pcm_16000",
            voice_settings=VoiceSettings(stability=0.4, speed=1.1),
            language_code="en",
        )
        sound = b"".join([piece async for piece in pieces])
    assert sound == Beeper().speak("Hello there", 16000)
    assert service.violations == []


@pytest.mark.parametrize(
    ("voice", "more", "status"),
    [
        ("nobody", {}, 404),
        (VOICE, {"model_id": "eleven_9"}, 400),
        (VOICE, {"output_format": "mp3_44100_128"}, 403),
        (VOICE, {"text": ""}, 422),
    ],
)
async def test_what_the_service_refuses_is_refused(
    voice: str, more: dict[str, Any], status: int
) -> None:
    from elevenlabs.core.api_error import ApiError

    wanted: dict[str, Any] = {"text": "Hi", "output_format": "ulaw_8000"}
    async with ElevenLabsSpeechEmulator() as service, sdk(service) as api:
        with pytest.raises(ApiError) as raised:
            async for _ in api.text_to_speech.stream(voice, **(wanted | more)):
                pass
    assert raised.value.status_code == status
    assert len(service.violations) == 1


async def test_a_wrong_key_is_refused() -> None:
    from elevenlabs.core.api_error import ApiError

    async with ElevenLabsSpeechEmulator() as service, sdk(service, "wrong") as api:
        with pytest.raises(ApiError) as raised:
            async for _ in api.text_to_speech.stream(VOICE, text="Hi"):
                pass
    assert raised.value.status_code == 401


def test_what_our_voice_sends_is_the_sdks_own() -> None:
    from elevenlabs.text_to_speech.client import AsyncTextToSpeechClient
    from elevenlabs.types import VoiceSettings

    settings = ElevenLabsTts(
        type="elevenlabs",
        language_code="en",
        stability=0.4,
        similarity_boost=0.7,
        style=0.1,
        speed=1.1,
        use_speaker_boost=True,
        apply_text_normalization="off",
        seed=7,
    )
    body = ElevenLabsSynthesis(settings, KEY).request("Hello")
    assert body.keys() <= inspect.signature(AsyncTextToSpeechClient.stream).parameters.keys()
    voice = VoiceSettings.model_validate(body["voice_settings"])
    assert not voice.model_extra
    assert voice.model_dump(exclude_none=True) == body["voice_settings"]
