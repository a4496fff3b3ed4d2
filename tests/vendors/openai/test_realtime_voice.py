"""OpenAI's voice over Realtime, against the emulated service."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest
import structlog
from pydantic import SecretStr, ValidationError
from tests.agents.pipeline.lines import until

from cordboard.agent_api.agent import Usage
from cordboard.agent_api.provider import Parts
from cordboard.agents.making import make
from cordboard.agents.pipeline.service_voice import ServiceVoice
from cordboard.errors import VoiceError
from cordboard.vendors.openai.config import OpenAITts
from cordboard_testkit.emulators.openai.realtime import OpenAIRealtimeEmulator
from cordboard_testkit.emulators.script import Fault, Script
from cordboard_testkit.emulators.speech import Beeper

TEXT = "It is sunny in Oslo."
MODEL = "gpt-realtime-2.1-mini"


@asynccontextmanager
async def speaking(
    *faults: Fault, pace: float = 50.0, **settings: Any
) -> AsyncIterator[tuple[OpenAIRealtimeEmulator, ServiceVoice]]:
    script = Script(faults=faults, thinking_ms=1)
    async with OpenAIRealtimeEmulator(script, speed=pace) as service:
        values = {"type": "openai", "base_url": service.url, "model": MODEL, **settings}
        section = OpenAITts.model_validate(values)
        voice = make("tts", section, Parts(service.key))
        assert isinstance(voice, ServiceVoice)
        try:
            yield service, voice
        finally:
            await voice.close()


async def said(voice: ServiceVoice, text: str = TEXT, rate: int = 8000) -> bytes:
    return b"".join([piece async for piece in voice.speak(text, rate=rate)])


@pytest.mark.parametrize("rate", [8000, 16000, 24000])
async def test_a_text_becomes_its_sound_and_its_tokens_are_reported(rate: int) -> None:
    used: list[Usage] = []
    async with speaking(instructions="Calmly.", speed=1.2) as (service, made):
        voice = made.for_call(used.append)
        pcm = b"".join([piece async for piece in voice.speak(f"**{TEXT}**", rate=rate)])
        assert not service.violations
        (session,) = service.of_type("session.update")
        (create,) = service.of_type("response.create")
    assert abs(len(pcm) - len(Beeper().speak(TEXT, rate))) <= 4 * rate // 1000
    output = session["session"]["audio"]["output"]
    assert output["format"]["type"] == ("audio/pcmu" if rate == 8000 else "audio/pcm")
    assert (output["voice"], output["speed"]) == ("marin", 1.2)
    assert session["session"]["audio"]["input"] == {"turn_detection": None}
    wanted = create["response"]
    assert (wanted["conversation"], wanted["input"]) == ("none", [])
    assert wanted["output_modalities"] == ["audio"]
    assert wanted["instructions"].startswith("Calmly.")
    assert wanted["instructions"].endswith(TEXT)
    (usage,) = used
    assert (usage.provider, usage.model) == ("openai", MODEL)
    assert usage.amounts["output_audio_tokens"] == len(pcm) / 2 / rate // 0.05


async def test_sentences_share_a_connection_and_calls_do_not() -> None:
    async with speaking() as (service, voice):
        await said(voice, "One.")
        await said(voice, "Two.")
        assert service.connections == 1
        await asyncio.gather(said(voice, "Three four."), said(voice, "Five six."))
        assert service.connections == 2


async def test_a_sentence_that_is_given_up_is_cancelled_and_still_accounted_for() -> None:
    used: list[Usage] = []
    async with speaking(pace=4.0) as (service, voice):
        async with aclosing(voice.for_call(used.append).speak(TEXT)) as pieces:  # type: ignore[type-var]
            await anext(pieces)
        await until(lambda: len(used) == 1)
        assert service.of_type("response.cancel")
        after = await said(voice, "And now?")
        assert service.connections == 1
        assert not service.violations
    assert len(after) == len(Beeper().speak("And now?", 8000))  # nothing of the first is left


async def test_a_sentence_that_is_given_up_before_it_begins_is_cancelled_too() -> None:
    async with speaking(pace=4.0) as (service, voice):
        task = asyncio.create_task(said(voice))
        await until(lambda: bool(service.of_type("response.create")))
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await until(lambda: bool(service.of_type("response.cancel")))
        assert await said(voice, "And now?")
        assert not service.violations


async def test_other_words_are_logged_and_not_kept() -> None:
    async with speaking(Fault("request", "misread")) as (service, voice):
        with structlog.testing.capture_logs() as logs:
            await said(voice)
            await said(voice)
            await said(voice)
        (told,) = [entry for entry in logs if entry["event"] == "voice_said_other_words"]
        assert (told["text"], told["said"]) == (TEXT, f"Of course! {TEXT}")
        assert len(service.of_type("response.create")) == 2  # the second one is kept


@pytest.mark.parametrize(
    "fault",
    [
        Fault("request", "write"),
        Fault("request", "error", code="rate_limit_exceeded"),
        Fault("request", "error", code="server_error"),
        Fault("connect", "refuse", code=503),
        Fault("setup", "drop"),
    ],
    ids=lambda fault: f"{fault.when} {fault.do} {fault.code}",
)
async def test_what_fails_before_the_first_sound_is_tried_again(fault: Fault) -> None:
    async with speaking(fault) as (service, voice):
        assert await said(voice)
        assert service.connections == 2


@pytest.mark.parametrize(
    ("faults", "settings", "kind"),
    [
        ([Fault("request", "error", code="rate_limit_exceeded")] * 2, {}, "quota"),
        ([Fault("request", "error", code="insufficient_quota")] * 2, {}, "quota"),
        ([Fault("sound", "drop")], {}, "dropped"),
        ([], {"voice": "nobody"}, "refused"),
        ([], {"model": "gpt-realtime-9"}, "refused"),
        ([], {"extra": {"mood": "glad"}}, "refused"),
    ],
)
async def test_each_failure_has_its_kind(
    faults: list[Fault], settings: dict[str, Any], kind: str
) -> None:
    async with speaking(*faults, **settings) as (_, voice):
        with pytest.raises(VoiceError) as raised:
            await said(voice)
    assert raised.value.kind == kind
    assert str(raised.value).count("OpenAI") == 1


async def test_a_wrong_key_is_told_without_it() -> None:
    async with OpenAIRealtimeEmulator() as service:
        section = OpenAITts(type="openai", base_url=service.url, model=MODEL)
        voice = make("tts", section, Parts("sk-very-secret"))
        with pytest.raises(VoiceError) as raised:
            await said(voice)
        await voice.close()
        assert service.connections == 1
    assert raised.value.kind == "auth"
    assert "very-secret" not in str(raised.value)


async def test_a_service_that_falls_silent_is_given_up() -> None:
    async with speaking(Fault("setup", "stall"), Fault("setup", "stall")) as (_, made):
        voice = ServiceVoice(made._synthesis, first_sound_seconds=0.15)
        with pytest.raises(VoiceError) as raised:
            await said(voice)
    assert raised.value.kind == "stalled"


async def test_a_deployment_at_azure_speaks_whatever_its_name() -> None:
    async with OpenAIRealtimeEmulator(azure=True, deployments={"my-voice": MODEL}) as service:
        section = OpenAITts(
            type="openai",
            base_url=service.url,
            headers={"api-key": SecretStr(service.key)},
            model="my-voice",
            interface="realtime",
        )
        voice = make("tts", section, Parts(""))
        assert await said(voice)
        await voice.close()
        assert not service.violations


def test_the_interface_of_a_voice() -> None:
    speech = OpenAITts(type="openai", interface="speech")
    assert (speech.chosen_model, speech.over_realtime) == ("gpt-4o-mini-tts", False)
    realtime = OpenAITts(type="openai", interface="realtime", base_url="https://a.example")
    assert (realtime.chosen_model, realtime.over_realtime) == (MODEL, True)
    assert not OpenAITts(type="openai", interface="speech", model=MODEL).over_realtime


def test_the_model_that_is_left_out() -> None:
    own = OpenAITts(type="openai")
    assert (own.paid_models, own.over_realtime) == ((MODEL,), True)
    assert own.end_of(MODEL) == ""
    compatible = OpenAITts(type="openai", base_url="http://127.0.0.1:8880/v1")
    assert (compatible.chosen_model, compatible.over_realtime) == ("gpt-4o-mini-tts", False)
    assert OpenAITts(type="openai", model="tts-1").end_of("tts-1") == "2027-01-06"
    with pytest.raises(ValidationError, match="over Realtime at most"):
        OpenAITts(type="openai", speed=2)
    assert OpenAITts(type="openai", model="tts-1", speed=2).speed == 2
