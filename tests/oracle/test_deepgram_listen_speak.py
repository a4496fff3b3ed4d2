"""Deepgram's own SDK as the judge: of the emulated `listen` and `speak`, and of what we send."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Mapping
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from cordboard.agent_api.stt import ListenedCall
from cordboard.vendors.deepgram.config import DeepgramFluxStt, DeepgramStt, DeepgramTts
from cordboard.vendors.deepgram.flux import DeepgramFluxRecogniser
from cordboard.vendors.deepgram.stt import DeepgramRecogniser
from cordboard.vendors.deepgram.tts import deepgram_voice
from cordboard_testkit.emulators.deepgram.listen import DeepgramListenEmulator
from cordboard_testkit.emulators.deepgram.models import MODELS, VOICES
from cordboard_testkit.emulators.deepgram.socket import KEY, DeepgramSocketEmulator
from cordboard_testkit.emulators.deepgram.speak import DeepgramSpeakEmulator
from cordboard_testkit.emulators.script import Answer, Script
from cordboard_testkit.emulators.speech import Beeper

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

HEARD = "What is the weather in Oslo?"
SOUND = Beeper().speak(HEARD, 8000) + bytes(16 * 500)
ALL_STT = {
    "language": "en",
    "keyterms": ["Oslo"],
    "numerals": True,
    "profanity_filter": True,
    "mip_opt_out": True,
}
ALL_FLUX = {
    "model": "flux-general-multi",
    "language_hints": ["en", "nb"],
    "keyterms": ["Oslo"],
    "eot_threshold": 0.8,
    "eager_eot_threshold": 0.5,
    "eot_timeout_ms": 4000,
    "mip_opt_out": True,
}


def sdk(service: DeepgramSocketEmulator, key: str = KEY) -> Any:
    from deepgram import AsyncDeepgramClient
    from deepgram.environment import DeepgramClientEnvironment

    url = service.url.replace("http", "ws")
    there = DeepgramClientEnvironment(
        base=service.url, production=url, agent=url, agent_rest=service.url
    )
    return AsyncDeepgramClient(api_key=key, environment=there)


def exact(message: BaseModel) -> None:
    """Nothing is missing, and nothing is there that the SDK does not know."""
    type(message).model_validate_json(message.model_dump_json(exclude_none=True))
    nothing_more(message)


def nothing_more(value: object) -> None:
    if isinstance(value, BaseModel):
        assert not value.model_extra, f"{type(value).__name__}: {value.model_extra}"
        for name in type(value).model_fields:
            nothing_more(getattr(value, name))
    elif isinstance(value, list):
        for item in value:
            nothing_more(item)


def known_parameters(connect: Any) -> set[str]:
    return set(inspect.signature(connect).parameters)


def sent_as(model: type[BaseModel], message: Mapping[str, Any]) -> None:
    parsed = model.model_validate_json(json.dumps(message))
    assert json.loads(parsed.model_dump_json(exclude_unset=True)) == message
    assert not parsed.model_extra


async def test_the_sdk_listens_with_nova() -> None:
    from deepgram.listen.v1.types.listen_v1metadata import ListenV1Metadata
    from deepgram.listen.v1.types.listen_v1results import ListenV1Results
    from deepgram.listen.v1.types.listen_v1speech_started import ListenV1SpeechStarted

    async with DeepgramListenEmulator(Script((Answer(heard=HEARD),))) as service:
        connecting = sdk(service).listen.v1.connect(
            model="nova-3",
            encoding="linear16",
            sample_rate="8000",
            interim_results="true",
            vad_events="true",
            endpointing="false",
        )
        messages: list[Any] = []
        async with connecting as connection, asyncio.timeout(60):
            await connection.send_keep_alive()
            await connection.send_media(SOUND)
            await connection.send_finalize()
            while not (messages and getattr(messages[-1], "from_finalize", None)):
                messages.append(await connection.recv())
            await connection.send_close_stream()
            messages.append(await connection.recv())
    assert isinstance(messages[-1], ListenV1Metadata)
    assert any(isinstance(message, ListenV1SpeechStarted) for message in messages)
    results = [message for message in messages if isinstance(message, ListenV1Results)]
    assert {result.is_final for result in results} == {True, False}
    assert results[-1].channel.alternatives[0].transcript == HEARD
    for message in messages:
        exact(message)
    assert service.violations == []


async def test_the_sdk_listens_with_flux() -> None:
    from deepgram.listen.v2.types.listen_v2turn_info import ListenV2TurnInfo

    async with DeepgramListenEmulator(Script((Answer(heard=HEARD),))) as service:
        connecting = sdk(service).listen.v2.connect(
            model="flux-general-en",
            encoding="linear16",
            sample_rate="8000",
            eager_eot_threshold="0.5",
        )
        messages: list[Any] = []
        async with connecting as connection, asyncio.timeout(60):
            await connection.send_media(SOUND)
            while not (messages and getattr(messages[-1], "event", "") == "EndOfTurn"):
                messages.append(await connection.recv())
            await connection.send_configure({"type": "Configure", "keyterms": ["Oslo"]})
            messages.append(await connection.recv())
            await connection.send_close_stream()
    turns = [message for message in messages if isinstance(message, ListenV2TurnInfo)]
    events = [turn.event for turn in turns]
    assert events.index("StartOfTurn") < events.index("EagerEndOfTurn") < events.index("EndOfTurn")
    assert turns[-1].transcript == HEARD
    assert turns[-1].trigger == "model"
    assert messages[0].type == "Connected"
    assert messages[-1].type == "ConfigureSuccess"
    for message in messages:
        exact(message)
    assert [message.sequence_id for message in messages] == list(range(len(messages)))


async def test_the_sdk_speaks_and_takes_back() -> None:
    from deepgram.speak.v1.types import SpeakV1Text

    async with DeepgramSpeakEmulator(piece_seconds=0.01) as service:
        connecting = sdk(service).speak.v1.connect(
            model="aura-2-thalia-en", encoding="linear16", sample_rate="8000"
        )
        async with connecting as connection, asyncio.timeout(60):
            metadata = await connection.recv()
            await connection.send_text(SpeakV1Text(text="Hello there"))
            await connection.send_flush()
            sound = b""
            while isinstance(message := await connection.recv(), bytes):
                sound += message
            await connection.send_text(SpeakV1Text(text="This is never said to its end"))
            await connection.send_flush()
            assert isinstance(await connection.recv(), bytes)
            await connection.send_clear()
            while isinstance(cleared := await connection.recv(), bytes):
                pass
            await connection.send_close()
    assert sound == Beeper().speak("Hello there", 8000)
    assert (metadata.type, message.type, cleared.type) == ("Metadata", "Flushed", "Cleared")
    for told in (metadata, message, cleared):
        exact(told)


@pytest.mark.parametrize(
    ("version", "more", "status"),
    [
        ("v1", {"model": "nova-3"}, 401),
        ("v1", {"model": "nonsense"}, 400),
        ("v1", {"model": "nova-9"}, 400),
        ("v1", {"model": "nova-2", "keyterm": "Oslo"}, 400),
        ("v1", {"model": "nova-3", "smart_format": "yes"}, 400),
        ("v2", {"model": "nova-3"}, 400),
        ("v2", {"model": "flux-general-en", "eot_threshold": "0.2"}, 400),
        ("v2", {"model": "flux-general-en", "language_hint": "en"}, 400),
        ("v2", {"model": "flux-general-en", "eager_eot_threshold": "0.85"}, 400),
    ],
)
async def test_what_the_service_refuses_is_refused(
    version: str, more: dict[str, str], status: int
) -> None:
    from deepgram.core.api_error import ApiError

    async with DeepgramListenEmulator() as service:
        client = sdk(service, "wrong" if status == 401 else KEY)
        listen = getattr(client.listen, version)
        with pytest.raises(ApiError) as raised:
            async with listen.connect(encoding="linear16", sample_rate="8000", **more):
                pass
    assert raised.value.status_code == status
    assert len(service.violations) == 1


@pytest.mark.parametrize(
    ("more", "status"),
    [
        ({}, 401),
        ({"model": "aura-2-nobody-en"}, 400),
        ({"encoding": "mp3"}, 400),
        ({"encoding": "mulaw", "sample_rate": "24000"}, 400),
        ({"speed": "9"}, 400),
    ],
)
async def test_a_voice_that_the_service_refuses_is_refused(
    more: dict[str, str], status: int
) -> None:
    from deepgram.core.api_error import ApiError

    wanted = {"model": "aura-2-thalia-en", "encoding": "linear16", "sample_rate": "8000", **more}
    async with DeepgramSpeakEmulator() as service:
        client = sdk(service, "wrong" if status == 401 else KEY)
        with pytest.raises(ApiError) as raised:
            async with client.speak.v1.connect(**wanted):
                pass
    assert raised.value.status_code == status
    assert len(service.violations) == 1


def test_the_emulators_know_the_sdks_voices_and_models() -> None:
    from deepgram.types.listen_v1model import ListenV1Model
    from deepgram.types.speak_v1model import SpeakV1Model

    assert set(get_args(get_args(SpeakV1Model)[0])) == VOICES
    assert set(get_args(get_args(ListenV1Model)[0])) == MODELS


async def test_what_cannot_be_parsed_ends_the_connection() -> None:
    from deepgram.listen.v1.types.listen_v1error import ListenV1Error

    async with DeepgramListenEmulator() as service:
        connecting = sdk(service).listen.v1.connect(
            model="nova-3", encoding="linear16", sample_rate="8000"
        )
        async with connecting as connection, asyncio.timeout(60):
            await connection._send({"type": "KeepAlive", "please": True})
            error = await connection.recv()
    assert isinstance(error, ListenV1Error)
    exact(error)
    assert service.close_codes == [1008]


async def test_a_client_that_falls_silent_is_left() -> None:
    async with DeepgramListenEmulator(idle_seconds=0.1) as service:
        connecting = sdk(service).listen.v1.connect(
            model="nova-3", encoding="linear16", sample_rate="8000"
        )
        async with connecting as connection, asyncio.timeout(60):
            await connection._websocket.wait_closed()
    assert service.close_codes == [1011]


async def test_what_our_recognisers_send_is_the_sdks_own() -> None:
    from deepgram.listen.v1.client import AsyncV1Client
    from deepgram.listen.v1.types.listen_v1close_stream import ListenV1CloseStream
    from deepgram.listen.v1.types.listen_v1finalize import ListenV1Finalize
    from deepgram.listen.v1.types.listen_v1keep_alive import ListenV1KeepAlive
    from deepgram.listen.v2.client import AsyncV2Client
    from deepgram.listen.v2.types.listen_v2close_stream import ListenV2CloseStream

    types: dict[str, type[BaseModel]] = {
        "Finalize": ListenV1Finalize,
        "KeepAlive": ListenV1KeepAlive,
        "CloseStream": ListenV1CloseStream,
    }
    async with DeepgramListenEmulator(Script((Answer(heard=HEARD),) * 2)) as service:
        url = service.url
        nova = DeepgramStt(type="deepgram", base_url=url, endpointing=0, **ALL_STT)
        flux = DeepgramFluxStt(type="deepgram_flux", base_url=url, **ALL_FLUX)
        for recogniser in (DeepgramRecogniser(nova, KEY), DeepgramFluxRecogniser(flux, KEY)):
            call = recogniser.open(ListenedCall("c1"))
            call.hear(SOUND)
            assert (await call.transcribe(SOUND)).text == HEARD
            await call.close()
        await asyncio.sleep(0.05)
    assert service.violations == []
    v1, v2 = service.queries
    assert v1.keys() <= known_parameters(AsyncV1Client.connect)
    assert v2.keys() <= known_parameters(AsyncV2Client.connect)
    texts = [each for each in service.received if isinstance(each.message, dict)]
    assert [each.message["type"] for each in texts] == ["Finalize", "CloseStream", "CloseStream"]
    for each in texts:
        kind = types[each.message["type"]] if each.connection == 1 else ListenV2CloseStream
        sent_as(kind, each.message)


async def test_what_our_voice_sends_is_the_sdks_own() -> None:
    from deepgram.speak.v1.client import AsyncV1Client
    from deepgram.speak.v1.types import SpeakV1Clear, SpeakV1Close, SpeakV1Flush, SpeakV1Text

    types: dict[str, type[BaseModel]] = {
        "Speak": SpeakV1Text,
        "Flush": SpeakV1Flush,
        "Clear": SpeakV1Clear,
        "Close": SpeakV1Close,
    }
    async with DeepgramSpeakEmulator(piece_seconds=0.01) as service:
        settings = DeepgramTts(type="deepgram", base_url=service.url, speed=1.1, mip_opt_out=True)
        voice = deepgram_voice(settings, KEY)
        async for _ in voice.speak("Hello."):
            pass
        taken_back = voice.speak("Never said to its end.")
        await anext(taken_back)
        await taken_back.aclose()
        async for _ in voice.speak("Hello again."):
            pass
        await voice.close()
    assert service.violations == []
    assert service.queries[0].keys() <= known_parameters(AsyncV1Client.connect)
    messages = [each.message for each in service.received]
    kinds = [message["type"] for message in messages]
    assert kinds[:5] == ["Speak", "Flush", "Speak", "Flush", "Clear"]
    assert kinds[-1] == "Close"
    for message in messages:
        sent_as(types[message["type"]], message)
