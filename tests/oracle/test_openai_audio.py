"""OpenAI's own SDK as the judge: of the emulated audio services, and of what is sent to them."""

from __future__ import annotations

import io
from typing import Any, get_type_hints

import openai
import pytest
from pydantic import TypeAdapter

from cordboard.agent_api.stt import SpeechHints
from cordboard.vendors.openai.config import OpenAIStt, OpenAITts
from cordboard.vendors.openai.stt import as_wav, transcription_form
from cordboard.vendors.openai.tts import OpenAISynthesis
from cordboard_testkit.emulators.openai.audio import KEY, OpenAIAudioEmulator
from cordboard_testkit.emulators.script import Answer, Script
from cordboard_testkit.emulators.speech import Beeper

HEARD = "What is the weather in Oslo?"
WAV = as_wav(Beeper().speak(HEARD, 8000))


def sdk(service: OpenAIAudioEmulator, key: str = KEY) -> Any:
    return openai.AsyncOpenAI(api_key=key, base_url=service.url, max_retries=0)


@pytest.mark.parametrize(
    ("model", "more"),
    [
        ("gpt-transcribe", {"keywords": ["Oslo", "Bergen"]}),
        ("gpt-4o-transcribe", {"include": ["logprobs"], "prompt": "At an airport."}),
        ("whisper-1", {"temperature": 0.2}),
    ],
)
async def test_the_sdk_transcribes(model: str, more: dict[str, Any]) -> None:
    async with OpenAIAudioEmulator(Script((Answer(heard=HEARD),))) as service, sdk(service) as api:
        told = await api.audio.transcriptions.create(
            model=model, file=("a.wav", io.BytesIO(WAV)), language="en", **more
        )
        form = service.book.received[0].body
    assert told.text == HEARD
    assert told.usage.type == ("duration" if model == "whisper-1" else "tokens")
    assert bool(told.logprobs) == ("include" in more)
    assert not told.model_extra
    assert not told.usage.model_extra
    assert service.violations == []
    # By the SDK's own names, ours are: a list has brackets.
    settings = OpenAIStt(type="openai", model=model)
    ours = transcription_form(settings, SpeechHints(tuple(more.get("keywords", ()))))
    assert {"keywords[]", "include[]"} & form.keys() == {"keywords[]", "include[]"} & ours.keys()


async def test_the_sdk_speaks() -> None:
    async with OpenAIAudioEmulator() as service, sdk(service) as api:
        request = api.audio.speech.with_streaming_response.create(
            model="gpt-4o-mini-tts",
            voice="marin",
            input="Hello there",
            response_format="pcm",
            instructions="Calmly.",
            speed=1.0,
        )
        async with request as response:
            sound = b"".join([piece async for piece in response.iter_bytes()])
    assert sound == Beeper().speak("Hello there", 24000)
    assert service.violations == []


@pytest.mark.parametrize(
    ("more", "error"),
    [
        ({"model": "tts-9"}, openai.NotFoundError),
        ({"voice": "nobody"}, openai.BadRequestError),
        ({"input": "a" * 5000}, openai.BadRequestError),
        ({"speed": 9.0}, openai.BadRequestError),
        ({"extra_body": {"emotion": "glad"}}, openai.BadRequestError),
        ({"model": "tts-1", "instructions": "Calmly."}, openai.BadRequestError),
    ],
)
async def test_speech_that_the_service_refuses_is_refused(
    more: dict[str, Any], error: type[Exception]
) -> None:
    wanted = {"model": "gpt-4o-mini-tts", "voice": "marin", "input": "Hi", "response_format": "pcm"}
    async with OpenAIAudioEmulator() as service, sdk(service) as api:
        with pytest.raises(error):
            await api.audio.speech.create(**(wanted | more))
    assert len(service.violations) == 1


@pytest.mark.parametrize(
    ("more", "error"),
    [
        ({"model": "whisper-9"}, openai.NotFoundError),
        ({"file": ("a.txt", io.BytesIO(b"a"))}, openai.BadRequestError),
        ({"file": ("a.wav", io.BytesIO(b"RIFF"))}, openai.BadRequestError),
        ({"file": ("a.wav", io.BytesIO(as_wav(bytes(160))))}, openai.BadRequestError),
        ({"keywords": ["Oslo"], "model": "whisper-1"}, openai.BadRequestError),
    ],
)
async def test_sound_that_the_service_refuses_is_refused(
    more: dict[str, Any], error: type[Exception]
) -> None:
    wanted = {"model": "gpt-transcribe", "file": ("a.wav", io.BytesIO(WAV))}
    async with OpenAIAudioEmulator() as service, sdk(service) as api:
        with pytest.raises(error):
            await api.audio.transcriptions.create(**(wanted | more))
    assert len(service.violations) == 1


async def test_a_wrong_key_is_refused() -> None:
    async with OpenAIAudioEmulator() as service, sdk(service, "wrong") as api:
        with pytest.raises(openai.AuthenticationError):
            await api.audio.speech.create(model="tts-1", voice="alloy", input="Hi")


def test_what_our_parts_send_is_the_sdks_own() -> None:
    from openai.types.audio.speech_create_params import SpeechCreateParams
    from openai.types.audio.transcription_create_params import TranscriptionCreateParamsBase

    settings = OpenAITts(type="openai", voice="voice_1", instructions="Calmly.", speed=1.2)
    body = OpenAISynthesis(settings, KEY).request("Hello")
    assert TypeAdapter(SpeechCreateParams).validate_python(body) == body
    assert body.keys() <= get_type_hints(SpeechCreateParams).keys()
    known = get_type_hints(TranscriptionCreateParamsBase).keys()
    for model in ("gpt-transcribe", "gpt-4o-transcribe", "whisper-1"):
        stt = OpenAIStt(type="openai", model=model, prompt="At an airport.", temperature=0)
        form = transcription_form(stt, SpeechHints(("Oslo",)))
        assert {name.removesuffix("[]") for name in form} <= known
