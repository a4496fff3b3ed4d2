"""Pipelines of cloud parts as the configuration makes them: keys, models by need, a whole turn."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.agents.llm.scripted_model import WEATHER

from cordboard.agent_api.agent import (
    AgentAudio,
    AgentAudioDone,
    AgentEvent,
    AgentSession,
    AgentText,
    CallerText,
    Used,
)
from cordboard.agent_api.dialogue import DialogueSession
from cordboard.agent_api.offline_models import OfflineModels
from cordboard.agent_api.workers import Workers
from cordboard.agents.llm.brain import LlmBrain
from cordboard.agents.making import speech_parts
from cordboard.agents.providers import Providers
from cordboard.audio.format import SLIN_8K
from cordboard.audio.vad import VoiceActivityBank
from cordboard.config.providers import PipelineProvider
from cordboard.config.schema import Config
from cordboard.errors import AgentError, ModelError
from cordboard.vendors.local import models as offline
from cordboard.vendors.local.model_files import ModelFile
from cordboard.vendors.local.models import (
    ALL_MODELS,
    ModelNeeds,
    Need,
    completed,
    load_needed_models,
    needs_of,
)
from cordboard_testkit.emulators.deepgram import socket as deepgram_socket
from cordboard_testkit.emulators.deepgram.listen import DeepgramListenEmulator
from cordboard_testkit.emulators.elevenlabs import speech as elevenlabs_speech
from cordboard_testkit.emulators.elevenlabs.speech import ElevenLabsSpeechEmulator
from cordboard_testkit.emulators.script import Answer, Script
from cordboard_testkit.fake_pipeline import InlineExecutor, LoudnessModel

from .lines import silence, until, voice

HELLO = "Hello, how can I help you?"
ENVIRON = {
    "DEEPGRAM_API_KEY": deepgram_socket.KEY,
    "ELEVENLABS_API_KEY": elevenlabs_speech.KEY,
    "OPENAI_API_KEY": "sk-openai",
}


def config(*providers: dict[str, Any]) -> Config:
    return Config.model_validate(
        {
            "providers": {
                f"p{number}": {"type": "pipeline", **settings}
                for number, settings in enumerate(providers)
            },
            "default_provider": "p0",
            "default_context": "demo",
            "contexts": {"demo": {"prompt": "Be kind.", "greeting": HELLO}},
        }
    )


@pytest.fixture
async def ears() -> AsyncIterator[OfflineModels]:
    """Only what every pipeline needs, with a voice detector that goes by loudness."""
    workers = Workers()
    yield OfflineModels(
        VoiceActivityBank(LoudnessModel(), InlineExecutor()),
        None,
        None,
        ThreadPoolExecutor(1),
        ThreadPoolExecutor(1),
        workers,
    )
    await workers.close()


@pytest.mark.parametrize(
    ("providers", "needs"),
    [
        ([{}], ALL_MODELS),
        ([{"stt": "deepgram"}], ModelNeeds(Need.NO, Need.REQUIRED)),
        ([{"stt": "deepgram", "tts": "openai"}], ModelNeeds(Need.NO, Need.WANTED)),
        ([{"stt": "openai", "tts": "openai"}, {}], ALL_MODELS),
        ([{"tts": "openai"}, {"tts": "deepgram"}], ModelNeeds(Need.REQUIRED, Need.WANTED)),
    ],
)
def test_models_are_needed_where_a_pipeline_has_them(
    providers: list[dict[str, Any]], needs: ModelNeeds
) -> None:
    assert needs_of(config(*providers)) == needs


def test_realtime_agents_want_models_and_need_none() -> None:
    realtime = config({"type": "openai_realtime"})
    assert needs_of(realtime) == ModelNeeds(Need.WANTED, Need.WANTED, Need.WANTED)


@pytest.fixture
def toy_models(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Which models are loaded; a voice that is not installed."""
    loaded: list[str] = []

    def whisper(_: Workers) -> str:
        loaded.append("whisper")
        return "whisper"

    def hibari(_: Workers) -> str:
        raise ModelError("the package hibari-tts is not installed")

    monkeypatch.setattr(offline, "_whisper", whisper)
    monkeypatch.setattr(offline, "_hibari", hibari)
    monkeypatch.setattr(offline, "_silero", LoudnessModel)
    monkeypatch.setattr(offline, "turn_end_model", lambda: (None, ""))
    return loaded


async def test_what_is_not_needed_is_not_loaded_until_it_is(toy_models: list[str]) -> None:
    workers = Workers()
    models = await load_needed_models(workers, ModelNeeds(Need.NO, Need.WANTED))
    assert models is not None
    assert (models.recogniser, models.voice, toy_models) == (None, None, [])
    more = await completed(models, ModelNeeds(Need.REQUIRED))
    assert more.recogniser is not None
    assert toy_models == ["whisper"]
    assert (await completed(more, ModelNeeds(Need.REQUIRED))) is more
    with pytest.raises(ModelError, match="hibari-tts is not installed"):
        await completed(more, ALL_MODELS)
    models.close()
    await workers.close()


async def test_a_pipeline_without_the_extra_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(offline, "SILERO_VAD", ModelFile("silero==1", "no_such_package", "a", "0"))
    workers = Workers()
    with pytest.raises(ModelError) as raised:
        await load_needed_models(workers, ModelNeeds())
    await workers.close()
    assert "also one of cloud parts, needs ears" in str(raised.value)
    wanted = ModelNeeds(Need.WANTED, Need.WANTED, Need.WANTED)
    workers = Workers()
    assert await load_needed_models(workers, wanted) is None, "realtime agents do without"
    await workers.close()
    assert "pip install 'cordboard[local]'" in str(raised.value)


@pytest.mark.parametrize(
    ("settings", "variable"),
    [
        ({"stt": "deepgram", "tts": "openai"}, "DEEPGRAM_API_KEY"),
        ({"stt": "deepgram_flux", "tts": "openai"}, "DEEPGRAM_API_KEY"),
        ({"stt": "openai", "tts": "deepgram"}, "OPENAI_API_KEY"),
        ({"stt": "deepgram", "tts": "elevenlabs"}, "ELEVENLABS_API_KEY"),
    ],
)
async def test_a_missing_key_is_told_by_the_name_of_its_variable(
    ears: OfflineModels, settings: dict[str, str], variable: str
) -> None:
    provider = PipelineProvider.model_validate({"type": "pipeline", **settings})
    environ = {name: key for name, key in ENVIRON.items() if name != variable}
    with pytest.raises(AgentError, match=variable) as raised:
        speech_parts(provider, ears, environ)
    assert raised.value.kind == "auth"
    await speech_parts(provider, ears, ENVIRON).close()


async def test_a_turn_through_the_services(ears: OfflineModels) -> None:
    """Prepared greeting, a question recognised, an answer spoken, both accounted for."""
    events: list[AgentEvent] = []
    heard = Script((Answer(heard="What is the weather?"),))
    async with DeepgramListenEmulator(heard) as listen, ElevenLabsSpeechEmulator() as speak:
        settings = {
            "stt": {"type": "deepgram", "base_url": listen.url},
            "tts": {"type": "elevenlabs", "base_url": speak.url, "headers": {"X-Team": "blue"}},
        }
        providers = Providers(config(settings), ears, environ=ENVIRON)
        await providers.prepare({"demo": (HELLO,)})
        agent = providers.open("demo", "p0")
        session = AgentSession("c1", "demo", "", HELLO, (), SLIN_8K, events.append, lambda: False)
        await agent.start(session)
        await until(lambda: AgentAudioDone(0) in events)
        assert speak.spoken == [HELLO]
        assert speak.book.received[0].headers["x-team"] == "blue"
        assert not [event for event in events if isinstance(event, Used)]
        pcm = voice("What is the weather?") + silence(1500)
        for at in range(0, len(pcm), 320):
            agent.hear(pcm[at : at + 320])
            await asyncio.sleep(0.005)
        await until(lambda: AgentAudioDone(1) in events)
        await agent.close()
        for reloaded in (Providers(config(settings), ears, environ=ENVIRON) for _ in range(2)):
            reloaded.warm("demo", (), providers)  # the first never comes into force
        reloaded.begin()
        await reloaded.prepare({"demo": (HELLO,)})
        assert speak.spoken.count(HELLO) == 1
        await providers.close()
        await reloaded.close()
    (text,) = [event for event in events if isinstance(event, CallerText)]
    assert text.text == "What is the weather?"
    answers = [event for event in events if isinstance(event, AgentText)]
    assert len(answers) > 1
    assert sum(len(event.pcm) for event in events if isinstance(event, AgentAudio)) > 16_000
    used = {event.usage.provider for event in events if isinstance(event, Used)}
    assert used == {"deepgram", "elevenlabs"}


async def test_a_model_that_is_not_the_contexts_own_has_its_tools_built_ahead(
    ears: OfflineModels, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the dialplan's word, as a fallback, or for a writer: the event loop has to build none."""
    models = [{"brain": {"type": "openai_chat", "model": name}} for name in ("one", "two")]
    providers = Providers(config(*models), ears, environ=ENVIRON)
    await asyncio.to_thread(providers.warm, "demo", (WEATHER,))
    built: list[object] = []
    unused: Any = None
    monkeypatch.setattr("cordboard.agents.llm.brain.for_provider_list", built.append)
    for name in ("p0", "p1"):
        providers.brain("demo", name).open(DialogueSession("", (WEATHER,), unused))
    assert built == []
    await providers.close()


async def test_a_trial_shares_unchanged_parts_and_closes_its_own_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The calls go on with the parts in force, also while a reload passes these on."""

    def made(*names: str) -> Providers:
        models = [{"brain": {"type": "openai_chat", "model": name}} for name in names]
        return Providers(config(*models), None, environ=ENVIRON)

    closed: list[object] = []
    in_force, trial, successor = made("one", "two"), made("one", "three"), made("one", "four")

    async def close(brain: LlmBrain) -> None:
        closed.append(brain)

    monkeypatch.setattr(LlmBrain, "close", close)
    await asyncio.to_thread(trial.warm_aside, "demo", (), in_force)
    shared = in_force.brain("demo", "p0")
    assert trial.brain("demo", "p0") is shared
    assert trial.brain("demo", "p1") is not in_force.brain("demo", "p1")
    await asyncio.to_thread(successor.warm, "demo", (), in_force)
    successor.begin()
    await in_force.close()
    await trial.close()
    assert closed == [in_force.brain("demo", "p1"), trial.brain("demo", "p1")]
    await successor.close()
    assert shared in closed
