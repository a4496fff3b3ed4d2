"""Deepgram's own SDK: it talks to the emulator, and knows every message that our adapter sends."""

from __future__ import annotations

import asyncio
import json
from typing import Any, get_args

import numpy as np
import pytest
from tests.vendors.host import RecordingHost, a_session

from cordboard.agent_api.agent import Said
from cordboard.agent_api.service_protocol import CutItem, Resumed
from cordboard.agent_api.speech import Speech
from cordboard.audio.format import ULAW_8K
from cordboard.audio.g711 import linear_to_ulaw
from cordboard.tools.tool import Effects, Status, ToolReply, ToolSpec
from cordboard.vendors.deepgram.agent.protocol import DeepgramProtocol
from cordboard.vendors.deepgram.config import DeepgramAgentProvider
from cordboard_testkit.emulators.deepgram.agent import DeepgramAgentEmulator
from cordboard_testkit.emulators.deepgram.agent_messages import MANAGED, VOICES
from cordboard_testkit.emulators.script import Answer, Script, Use

# The SDK stands on what websockets calls legacy.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

SILENCE = ULAW_8K.silence(600)
TONE = linear_to_ulaw((8000 * np.sin(np.arange(8000 * 6 // 10) * 0.3)).astype("<i2").tobytes())
"""0.6 s."""
WEATHER = ToolSpec(
    "weather",
    "mcp",
    "Tells the weather.",
    {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)
BOOK = ToolSpec("book", "http", "Books.", {"type": "object"}, effects=Effects.DESTRUCTIVE)


def sdk_client(emulator: DeepgramAgentEmulator, key: str) -> Any:
    from deepgram import AsyncDeepgramClient
    from deepgram.environment import DeepgramClientEnvironment

    here = emulator.url.replace("http", "ws", 1)
    environment = DeepgramClientEnvironment(
        base=emulator.url, production=here, agent=here, agent_rest=emulator.url
    )
    return AsyncDeepgramClient(api_key=key, environment=environment)


async def until(connection: Any, kind: str) -> list[Any]:
    """What the service says until a message of that class has come."""
    said = []
    while not said or type(said[-1]).__name__ != kind:
        said.append(await connection.recv())
    return said


def kinds(said: list[Any]) -> list[str]:
    names = [type(message).__name__.removeprefix("AgentV1") for message in said]
    return [name for at, name in enumerate(names) if name != "bytes" or names[at - 1] != "bytes"]


async def test_the_sdk_talks_to_the_emulator() -> None:
    from deepgram.agent.v1.types import (
        AgentV1InjectAgentMessage,
        AgentV1SendFunctionCallResponse,
        AgentV1Settings,
    )

    script = Script(
        (Answer(asks=(Use("weather", {"city": "Oslo"}), Use("weather", {"city": "Bergen"}))),),
        thinking_ms=0,
    )
    async with (
        asyncio.timeout(60),
        DeepgramAgentEmulator(script) as emulator,
        sdk_client(emulator, emulator.key).agent.v1.connect() as connection,
    ):
        assert kinds([await connection.recv()]) == ["Welcome"]
        sound = {"encoding": "mulaw", "sample_rate": 8000}
        provider = {"type": "open_ai", "model": "gpt-4o-mini", "temperature": 1.0}
        function = {"name": "weather", "parameters": WEATHER.parameters}
        settings = {
            "audio": {"input": sound, "output": {**sound, "container": "none"}},
            "agent": {
                "listen": {
                    "provider": {
                        "version": "v2",
                        "type": "deepgram",
                        "model": "flux-general-en",
                    }
                },
                "think": {"provider": provider, "prompt": "Be brief.", "functions": [function]},
                "speak": {"provider": {"type": "deepgram", "model": "aura-2-thalia-en"}},
                "greeting": "Hi.",
            },
        }
        await connection.send_settings(AgentV1Settings.model_validate(settings))
        greeting = await until(connection, "AgentV1AgentAudioDone")
        assert kinds(greeting) == [
            *("SettingsApplied", "ConversationText", "bytes", "AgentAudioDone"),
        ]
        await connection.send_media(TONE)
        await connection.send_media(SILENCE)
        asked = await until(connection, "AgentV1FunctionCallRequest")
        assert kinds(asked) == ["UserStartedSpeaking", "FunctionCallRequest"]
        for call in asked[-1].functions:
            assert call.client_side
            await connection.send_function_call_response(
                AgentV1SendFunctionCallResponse(
                    id=call.id, name=call.name, content=f"done: {call.arguments}"
                )
            )
        answer = await until(connection, "AgentV1AgentAudioDone")
        assert kinds(answer) == [
            *("ConversationText", "ConversationText", "bytes", "AgentAudioDone"),
        ]
        assert [text.role for text in answer[:2]] == ["user", "assistant"]
        assert answer[1].content == 'done: {"city": "Oslo"} done: {"city": "Bergen"}'
        await connection.send_keep_alive()
        await connection.send_inject_agent_message(AgentV1InjectAgentMessage(message="Now."))
        refused = await until(connection, "AgentV1InjectionRefused")
        assert kinds(refused) == ["InjectionRefused"]  # it is still being heard
        assert emulator.violations == ["InjectAgentMessage: refused"]
        await connection.send_media(TONE)
        await until(connection, "AgentV1UserStartedSpeaking")
        await connection.send_raw({"type": "InjectUserMessage", "text": "a field of no such name"})
        (error,) = await until(connection, "AgentV1Error")
        assert error.code == "UNPARSABLE_CLIENT_MESSAGE"


async def test_the_sdk_is_told_that_its_key_is_wrong() -> None:
    from deepgram.core.api_error import ApiError

    async with asyncio.timeout(60), DeepgramAgentEmulator(Script()) as emulator:
        with pytest.raises(ApiError) as refused:
            async with sdk_client(emulator, "another-key").agent.v1.connect():
                pass
        assert refused.value.status_code == 401


def everything_our_adapter_says() -> list[dict[str, Any]]:
    """A conversation in which each of our messages occurs, with all settings there are."""
    provider = DeepgramAgentProvider.model_validate(
        {
            "type": "deepgram_agent",
            "listen": {
                "provider": {
                    "model": "flux-general-multi",
                    "language_hints": ["en", "no"],
                    "eot_threshold": 0.8,
                    "eager_eot_threshold": 0.5,
                    "eot_timeout_ms": 4000,
                    "keyterms": ["Avinor"],
                }
            },
            "think": {
                "provider": {"type": "deepgram", "model": "m", "voice_prompt_opt_out": True},
                "endpoint": {"url": "https://models.example", "headers": {"x": "y"}},
                "context_length": 5000,
            },
            "think_fallbacks": [
                {
                    "provider": {
                        "type": "groq",
                        "model": "openai/gpt-oss-20b",
                        "reasoning_mode": "low",
                    }
                },
                {"provider": {"type": "anthropic", "model": "a", "temperature": 0.5}},
                {"provider": {"type": "google", "model": "gg", "version": "v1beta"}},
                {
                    "provider": {
                        "type": "aws_bedrock",
                        "model": "m",
                        "credentials": {
                            "type": "sts",
                            "region": "eu-central-1",
                            "access_key_id": "a",
                            "secret_access_key": "b",
                            "session_token": "c",
                        },
                    },
                    "endpoint": {"url": "https://bedrock.example"},
                },
            ],
            "speak": {"provider": {"model": "flux-kit-en", "type": "deepgram", "expressivity": 1}},
            "speak_fallbacks": [
                {
                    "provider": {"type": "eleven_labs", "language": "en"},
                    "endpoint": {"url": "wss://voices.example", "headers": {"x": "y"}},
                },
                {
                    "provider": {
                        "type": "cartesia",
                        "model_id": "sonic-3",
                        "voice": {"id": "v"},
                        "language": "en",
                        "volume": 1.5,
                    }
                },
                {"provider": {"type": "open_ai", "model": "m"}},
            ],
            "tags": ["a"],
            "experimental": True,
            "mip_opt_out": False,
        }
    )
    host = RecordingHost()
    protocol = DeepgramProtocol(provider, "key")
    session = a_session(toolbox=(WEATHER, BOOK))

    def say(kind: str, **values: Any) -> None:
        protocol.receive_text(json.dumps({"type": kind, **values}).encode())

    def ask(call_id: str, arguments: str) -> None:
        call = {"id": call_id, "name": "weather", "arguments": arguments, "client_side": True}
        say("FunctionCallRequest", functions=[call])

    protocol.begin(session, host, None)
    say("Welcome", request_id="r")
    say("SettingsApplied")
    protocol.keep_alive()
    protocol.speak(Speech("One moment.", "filler"))
    ask("a", "{}")
    ask("b", "nonsense")
    protocol.answer_tool(ToolReply("a", "weather", Status.OK, "Sunny.", {"degrees": 20}))
    say("ConversationText", role="assistant", content="It is")
    protocol.interrupted((CutItem("", 20),))
    protocol.speak(Speech("Goodbye.", "filler"))
    history = (Said("agent", "Hello!"), Said("caller", "Is it sunny?"))
    protocol.begin(session, host, Resumed(history, owes_answer=True))
    say("Welcome", request_id="r")
    say("SettingsApplied")
    return host.sent


def test_the_sdk_knows_every_message_that_our_adapter_sends() -> None:
    from deepgram.agent.v1 import types

    readers = {
        "Settings": types.AgentV1Settings,
        "KeepAlive": types.AgentV1KeepAlive,
        "InjectAgentMessage": types.AgentV1InjectAgentMessage,
        "InjectUserMessage": types.AgentV1InjectUserMessage,
        "FunctionCallResponse": types.AgentV1SendFunctionCallResponse,
    }
    sent = everything_our_adapter_says()
    assert {message["type"] for message in sent} == set(readers)
    for message in sent:
        read = readers[message["type"]].model_validate(message)
        assert not unknown_to_the_sdk(read)
        assert read.model_dump(exclude_unset=True, by_alias=True) == message


def unknown_to_the_sdk(value: Any, place: str = "") -> list[str]:
    """Fields that no type of the SDK has. What it reads as a plain table is none of its types."""
    from pydantic import BaseModel

    if isinstance(value, (list, tuple)):
        return [name for item in value for name in unknown_to_the_sdk(item, place)]
    if isinstance(value, dict):
        allowed = ("headers", "parameters")
        return [] if place.rpartition(".")[2] in allowed else [f"{place}: a plain table"]
    if not isinstance(value, BaseModel):
        return []
    unknown = [f"{place}.{name}" for name in value.model_extra or ()]
    for name in type(value).model_fields:
        unknown += unknown_to_the_sdk(getattr(value, name), f"{place}.{name}")
    return unknown


def test_the_emulator_knows_the_sdks_voices_and_models() -> None:
    from deepgram.types.deepgram_model import DeepgramModel
    from deepgram.types.google_model import GoogleModel
    from deepgram.types.open_ai_think_provider_model import OpenAiThinkProviderModel

    assert VOICES["v1"] | VOICES["v2"] == names_of(DeepgramModel)
    for vendor, models in (("open_ai", OpenAiThinkProviderModel), ("google", GoogleModel)):
        assert all(MANAGED[vendor].fullmatch(name) for name in names_of(models))


def names_of(known_or_any: Any) -> set[str]:
    return set(get_args(get_args(known_or_any)[0]))
