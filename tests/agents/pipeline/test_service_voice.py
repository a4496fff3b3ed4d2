"""The voices of services against the emulated ones: first sound at once, ended at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass

import numpy as np
import pytest
from tests.agents.pipeline.lines import until

from cordboard.agent_api.agent import Usage
from cordboard.agent_api.tts import PaidVoice
from cordboard.agents.pipeline.pcm_stream import PcmStream
from cordboard.agents.pipeline.service_voice import ServiceVoice
from cordboard.errors import VoiceError
from cordboard.vendors.deepgram.config import DeepgramTts
from cordboard.vendors.deepgram.tts import deepgram_voice
from cordboard.vendors.elevenlabs.config import ElevenLabsTts
from cordboard.vendors.elevenlabs.tts import elevenlabs_voice
from cordboard.vendors.openai.config import OpenAITts
from cordboard.vendors.openai.tts import OpenAISynthesis
from cordboard_testkit.emulators.deepgram import socket as deepgram_socket
from cordboard_testkit.emulators.deepgram.speak import DeepgramSpeakEmulator
from cordboard_testkit.emulators.elevenlabs import speech as elevenlabs_speech
from cordboard_testkit.emulators.elevenlabs.speech import ElevenLabsSpeechEmulator
from cordboard_testkit.emulators.openai import audio as openai_audio
from cordboard_testkit.emulators.openai.audio import OpenAIAudioEmulator
from cordboard_testkit.emulators.script import Fault, Script
from cordboard_testkit.emulators.speech import Beeper
from cordboard_testkit.free_ports import free_port

TEXT = "It is sunny in Oslo."
Emulator = OpenAIAudioEmulator | DeepgramSpeakEmulator | ElevenLabsSpeechEmulator


@dataclass(frozen=True)
class Vendor:
    """How one vendor's voice and its emulator are made."""

    name: str
    emulate: Callable[..., Emulator]
    voice: Callable[..., ServiceVoice]


def _openai(url: str, key: str = openai_audio.KEY, **more: object) -> ServiceVoice:
    return ServiceVoice(OpenAISynthesis(OpenAITts(type="openai", base_url=url, **more), key))


def _deepgram(url: str, key: str = deepgram_socket.KEY, **more: object) -> ServiceVoice:
    return deepgram_voice(DeepgramTts(type="deepgram", base_url=url, **more), key)


def _elevenlabs(url: str, key: str = elevenlabs_speech.KEY, **more: object) -> ServiceVoice:
    return elevenlabs_voice(ElevenLabsTts(type="elevenlabs", base_url=url, **more), key)


VENDORS = [
    Vendor("openai", OpenAIAudioEmulator, _openai),
    Vendor("deepgram", DeepgramSpeakEmulator, _deepgram),
    Vendor("elevenlabs", ElevenLabsSpeechEmulator, _elevenlabs),
]


@pytest.fixture(params=VENDORS, ids=lambda vendor: vendor.name)
def vendor(request: pytest.FixtureRequest) -> Vendor:
    found: Vendor = request.param
    return found


@asynccontextmanager
async def closing(voice: ServiceVoice) -> AsyncIterator[ServiceVoice]:
    try:
        yield voice
    finally:
        await voice.close()


async def said(voice: ServiceVoice, text: str = TEXT, rate: int = 8000) -> bytes:
    return b"".join([piece async for piece in voice.speak(text, rate=rate)])


def loudness(pcm: bytes) -> float:
    samples = np.frombuffer(pcm, "<i2").astype(float)
    return float(np.sqrt((samples**2).mean()))


@pytest.mark.parametrize("rate", [8000, 16000])
async def test_a_text_becomes_its_sound(vendor: Vendor, rate: int) -> None:
    async with vendor.emulate() as service, closing(vendor.voice(service.url)) as voice:
        assert isinstance(voice, PaidVoice)
        pcm = await said(voice, f"**{TEXT}**", rate)
    expected = Beeper().speak(TEXT, rate)
    assert abs(len(pcm) - len(expected)) <= 4 * rate // 1000
    assert loudness(pcm) == pytest.approx(loudness(expected), rel=0.05)
    assert service.spoken == [TEXT]
    assert service.violations == []


async def test_the_first_sound_does_not_wait_for_the_last(vendor: Vendor) -> None:
    stalls = Script(faults=(Fault("sound", "stall"),))
    async with (
        vendor.emulate(stalls) as service,
        closing(vendor.voice(service.url)) as voice,
        aclosing(voice.speak(TEXT)) as pieces,
    ):
        assert await anext(pieces), "though the rest never comes"


async def test_who_stops_listening_ends_the_request(vendor: Vendor) -> None:
    async with (
        vendor.emulate(piece_seconds=0.03) as service,
        closing(vendor.voice(service.url)) as voice,
    ):
        used: list[Usage] = []
        async with aclosing(voice.for_call(used.append).speak(TEXT)) as pieces:  # type: ignore[type-var]
            await anext(pieces)
        if isinstance(service, DeepgramSpeakEmulator):
            await until(lambda: len(service.texts("Clear")) == 1)
        else:
            await until(lambda: service.cut_off == 1)
        after = await said(voice, "And now?")
    whole = len(Beeper().speak(TEXT, 8000)) / 16000
    if vendor.name == "openai":
        assert 0 < used[0].amounts["seconds"] < whole / 2
    else:
        assert used[0].amounts == {"characters": len(TEXT)}
    expected = len(Beeper().speak("And now?", 8000))
    assert abs(len(after) - expected) <= 64  # nothing of the first text is left in it
    assert service.violations == []


async def test_a_cancelled_sentence_is_not_spoken_on(vendor: Vendor) -> None:
    async with (
        vendor.emulate(piece_seconds=0.03) as service,
        closing(vendor.voice(service.url)) as voice,
    ):
        first = asyncio.Event()

        async def speak() -> None:
            async for _ in voice.speak(TEXT):
                first.set()

        task = asyncio.create_task(speak())
        await first.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        if isinstance(service, DeepgramSpeakEmulator):
            await until(lambda: len(service.texts("Clear")) == 1)
        else:
            await until(lambda: service.cut_off == 1)


async def test_what_was_prepared_is_there_at_once_and_costs_nothing(vendor: Vendor) -> None:
    used: list[Usage] = []
    async with vendor.emulate() as service, closing(vendor.voice(service.url)) as voice:
        await voice.prepare([TEXT])
        again = b"".join([piece async for piece in voice.for_call(used.append).speak(TEXT)])
        fresh = b"".join([piece async for piece in voice.for_call(used.append).speak("No.")])
    assert service.spoken == [TEXT, "No."]
    assert len(again) > len(fresh) > 0
    (usage,) = used
    assert usage.provider == vendor.name
    if vendor.name == "openai":
        assert usage.amounts == {"seconds": pytest.approx(len(fresh) / 16000)}
    else:
        assert usage.amounts == {"characters": 3}


async def test_the_cache_is_bounded(vendor: Vendor) -> None:
    async with vendor.emulate() as service, closing(vendor.voice(service.url)) as made:
        voice = ServiceVoice(made._synthesis, cache_bytes=12_000)
        await voice.prepare(["One two.", "Three four.", "Five six."])
        assert 0 < voice.cached_bytes <= 12_000
        await said(voice, "One two.")
    assert service.spoken.count("One two.") == 2


@pytest.mark.parametrize("do", ["drop", "refuse"])
async def test_what_fails_before_the_first_sound_is_tried_again(vendor: Vendor, do: str) -> None:
    fault = Fault("connect", do, code=503)  # type: ignore[arg-type]
    async with (
        vendor.emulate(Script(faults=(fault,))) as service,
        closing(vendor.voice(service.url)) as voice,
    ):
        assert await said(voice)
    assert service.prompter.connections == 2


async def test_two_failures_are_one_too_many(vendor: Vendor) -> None:
    faults = (Fault("connect", "refuse", code=429), Fault("connect", "refuse", code=429))
    async with (
        vendor.emulate(Script(faults=faults)) as service,
        closing(vendor.voice(service.url)) as voice,
    ):
        with pytest.raises(VoiceError) as raised:
            await said(voice)
    assert raised.value.kind == "quota"
    assert service.prompter.connections == 2


async def test_what_breaks_off_in_its_sound_is_not_begun_again(vendor: Vendor) -> None:
    fault = Fault("sound", "drop", after=3)
    async with (
        vendor.emulate(Script(faults=(fault,)), piece_seconds=0.02) as service,
        closing(vendor.voice(service.url)) as voice,
    ):
        pieces = voice.speak(TEXT)
        assert await anext(pieces)
        with pytest.raises(VoiceError) as raised:
            b"".join([piece async for piece in pieces])
    assert raised.value.kind == "dropped"
    assert service.prompter.connections == 1


async def test_a_service_that_falls_silent_is_given_up(vendor: Vendor) -> None:
    fault = Fault("answer", "stall")
    async with (
        vendor.emulate(Script(faults=(fault, fault))) as service,
        closing(vendor.voice(service.url)) as made,
    ):
        voice = ServiceVoice(made._synthesis, first_sound_seconds=0.15)
        with pytest.raises(VoiceError) as raised:
            await said(voice)
    assert raised.value.kind == "stalled"


async def test_a_service_that_is_not_there_is_named_once(vendor: Vendor) -> None:
    async with closing(vendor.voice(f"http://127.0.0.1:{free_port()}")) as voice:
        with pytest.raises(VoiceError) as raised:
            await said(voice)
    assert raised.value.kind == "connect"
    named = {"openai": "OpenAI", "deepgram": "Deepgram", "elevenlabs": "ElevenLabs"}[vendor.name]
    reason = str(raised.value)
    assert reason.startswith(named)
    assert reason.count(named) == 1
    assert reason.endswith(" cannot be reached (connection refused)")


async def test_a_wrong_key_is_told_and_not_tried_again(vendor: Vendor) -> None:
    async with (
        vendor.emulate() as service,
        closing(vendor.voice(service.url, "very-secret-key")) as voice,
    ):
        with pytest.raises(VoiceError) as raised:
            await said(voice)
        await voice.prepare([TEXT])  # nothing is raised: it may be better later
    assert raised.value.kind == "auth"
    assert "very-secret-key" not in str(raised.value)


@pytest.mark.parametrize(
    ("vendor", "more"),
    [
        (VENDORS[0], {"model": "tts-nonsense"}),
        (VENDORS[0], {"voice": "nobody"}),
        (VENDORS[0], {"extra": {"emotion": "glad"}}),
        (VENDORS[1], {"model": "nonsense"}),
        (VENDORS[1], {"extra": {"voice": "thalia"}}),
        (VENDORS[2], {"voice_id": "nobody"}),
        (VENDORS[2], {"model_id": "eleven_nonsense"}),
        (VENDORS[2], {"extra": {"voice_settings": {"mood": 1}}}),
    ],
    indirect=["vendor"],
)
async def test_what_the_service_does_not_have_is_refused(
    vendor: Vendor, more: dict[str, object]
) -> None:
    async with vendor.emulate() as service, closing(vendor.voice(service.url, **more)) as voice:
        with pytest.raises(VoiceError) as raised:
            await said(voice)
    assert raised.value.kind == "refused"
    assert service.prompter.connections == 1


async def test_settings_reach_the_service_by_the_vendors_names() -> None:
    async with (
        OpenAIAudioEmulator() as service,
        closing(_openai(service.url, voice="voice_1", instructions="Calmly.", speed=1.2)) as voice,
    ):
        await said(voice)
        body = service.book.received[0].body
    assert body == {
        "model": "gpt-4o-mini-tts",
        "input": TEXT,
        "voice": {"id": "voice_1"},
        "response_format": "pcm",
        "instructions": "Calmly.",
        "speed": 1.2,
    }
    async with (
        ElevenLabsSpeechEmulator() as eleven,
        closing(
            _elevenlabs(
                eleven.url,
                stability=0.4,
                language_code="en",
                extra={"voice_settings": {"style": 0}},
            )
        ) as voice,
    ):
        await said(voice)
        asked = eleven.book.received[0]
    assert asked.query == {"output_format": "ulaw_8000"}
    assert asked.body == {
        "text": TEXT,
        "model_id": "eleven_flash_v2_5",
        "language_code": "en",
        "voice_settings": {"stability": 0.4, "style": 0},
    }


async def test_deepgram_sentences_share_a_connection_and_calls_do_not() -> None:
    async with (
        DeepgramSpeakEmulator(piece_seconds=0.01) as service,
        closing(_deepgram(service.url)) as voice,
    ):
        await said(voice, "One.")
        await said(voice, "Two.")
        assert service.connections == 1
        await asyncio.gather(said(voice, "Three four."), said(voice, "Five six."))
        assert service.connections == 2
    assert sorted(service.spoken) == ["Five six.", "One.", "Three four.", "Two."]


async def test_deepgram_flushes_no_more_often_than_it_may() -> None:
    async with DeepgramSpeakEmulator() as service, closing(_deepgram(service.url)) as voice:
        for number in range(25):
            assert await said(voice, f"{number}.")
    assert service.violations == []
    assert service.connections == 2


@pytest.mark.parametrize("size", [1, 7, 333, 4801])
def test_sound_in_pieces_of_any_size_is_resampled_as_one(size: int) -> None:
    pcm = Beeper().speak("Hello there", 24000)
    stream = PcmStream(24000, 8000)
    pieces = [stream.feed(pcm[at : at + size]) for at in range(0, len(pcm), size)]
    whole = PcmStream(24000, 8000)
    assert b"".join([*pieces, stream.flush()]) == whole.feed(pcm) + whole.flush()
