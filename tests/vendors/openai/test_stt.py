"""OpenAI's transcription against the emulated service."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.agents.pipeline.lines import silence, voice

from cordboard.agent_api.agent import Usage
from cordboard.agent_api.stt import ListenedCall, SpeechHints, listen
from cordboard.errors import RecogniserError
from cordboard.vendors.openai.config import OpenAIStt
from cordboard.vendors.openai.stt import OpenAIRecogniser, transcription_form
from cordboard_testkit.emulators.openai.audio import KEY, OpenAIAudioEmulator
from cordboard_testkit.emulators.script import Answer, Fault, Script

HEARD = "What is the weather in Oslo?"
PCM = voice(HEARD) + silence(200)


@asynccontextmanager
async def recogniser(url: str, key: str = KEY, **more: object) -> AsyncIterator[OpenAIRecogniser]:
    made = OpenAIRecogniser(OpenAIStt(type="openai", base_url=url, **more), key)
    try:
        yield made
    finally:
        await made.close()


async def test_an_utterance_is_transcribed_and_accounted_for() -> None:
    used: list[Usage] = []
    async with (
        OpenAIAudioEmulator(Script((Answer(heard=HEARD),))) as service,
        recogniser(service.url, keywords=("Gardermoen",)) as made,
    ):
        call = listen(made, ListenedCall("c1", used.append))
        heard = await call.transcribe(PCM, SpeechHints(("Oslo",)), speculative=True)
        assert heard.text == HEARD
        assert heard.no_speech == 0.0
        form = service.book.received[0].body
    assert form["file"] == ["<file utterance.wav>"]
    assert form["keywords[]"] == ["Gardermoen", "Oslo"]
    assert form["language"] == ["en"]
    assert service.violations == []
    (usage,) = used
    assert usage.model == "gpt-transcribe"
    assert usage.amounts["input_audio_tokens"] > 0
    assert "seconds" not in usage.amounts  # what is paid by tokens has no price by time


async def test_probabilities_become_the_confidence() -> None:
    async with (
        OpenAIAudioEmulator(Script((Answer(heard=HEARD),))) as service,
        recogniser(service.url, model="gpt-4o-transcribe") as made,
    ):
        assert (await made.transcribe(PCM)).confidence == pytest.approx(0.905, abs=0.001)
    assert service.violations == []


async def test_what_the_service_cannot_answer_in_time_or_at_all_is_not_sent() -> None:
    async with OpenAIAudioEmulator() as service, recogniser(service.url) as made:
        assert (await made.transcribe(silence(60))).text == ""
        call = listen(made, ListenedCall("c1"))
        assert (await call.transcribe(PCM, goes_on=True)).text == ""
    assert service.book.received == []


def test_words_go_into_the_prompt_where_the_model_takes_no_keywords() -> None:
    settings = OpenAIStt(type="openai", model="whisper-1", prompt="At an airport.", language="")
    form = transcription_form(settings, SpeechHints(("Oslo", "Bergen")))
    assert form == {
        "model": "whisper-1",
        "response_format": "json",
        "prompt": "At an airport. Oslo, Bergen",
    }


@pytest.mark.parametrize(
    ("faults", "kind", "asked"),
    [
        ((Fault("connect", "drop"), Fault("connect", "drop")), "dropped", 2),
        ((Fault("connect", "refuse", code=429),), "quota", 1),
        ((Fault("connect", "refuse", code=401),), "auth", 1),
        ((Fault("connect", "refuse", code=400),), "refused", 1),
        ((Fault("answer", "garbage"),), "garbage", 1),
    ],
)
async def test_failures_have_their_kind(faults: tuple[Fault, ...], kind: str, asked: int) -> None:
    async with (
        OpenAIAudioEmulator(Script(faults=faults)) as service,
        recogniser(service.url) as made,
    ):
        with pytest.raises(RecogniserError) as raised:
            await made.transcribe(PCM)
    assert raised.value.kind == kind
    assert service.prompter.connections == asked


async def test_nothing_of_a_key_is_told_that_is_refused() -> None:
    """The service repeats the beginning of it."""
    async with OpenAIAudioEmulator(key="another") as service, recogniser(service.url) as made:
        with pytest.raises(RecogniserError, match=r"does not accept the key \(HTTP 401\)$"):
            await made.transcribe(PCM)
        assert service.violations == [f"401: Incorrect API key provided: {KEY[:8]}***."]


async def test_one_lost_request_is_made_up_for() -> None:
    script = Script((Answer(heard=HEARD),), faults=(Fault("connect", "refuse", code=502),))
    async with OpenAIAudioEmulator(script) as service, recogniser(service.url) as made:
        assert (await made.transcribe(PCM)).text == HEARD


async def test_a_service_that_is_not_there_fails_with_its_kind() -> None:
    async with recogniser("http://127.0.0.1:9/v1") as made:
        with pytest.raises(RecogniserError) as raised:
            await made.transcribe(PCM)
    assert raised.value.kind == "connect"
