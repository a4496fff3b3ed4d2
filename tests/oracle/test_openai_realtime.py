"""OpenAI's own SDK: it talks to the emulator, and knows every message that our adapter sends."""

from __future__ import annotations

import asyncio
import base64
import json
from contextlib import aclosing
from typing import Any

import numpy as np
import pytest
from tests.vendors.host import RecordingHost, a_session

from cordboard.agent_api.agent import Said
from cordboard.agent_api.service_protocol import CutItem, Resumed
from cordboard.agent_api.speech import Speech
from cordboard.tools.tool import Status, ToolReply, ToolSpec
from cordboard.vendors.openai.config import OpenAIRealtimeProvider, OpenAITts
from cordboard.vendors.openai.realtime.protocol import OpenAIProtocol
from cordboard.vendors.openai.realtime_voice import RealtimeSynthesis
from cordboard_testkit.emulators.openai.realtime import OpenAIRealtimeEmulator
from cordboard_testkit.emulators.script import Answer, Script, Use

TONE = (8000 * np.sin(np.arange(24000 // 2) * 0.3)).astype("<i2").tobytes()
"""0.5 s at 24 kHz."""
SILENCE = bytes(2 * 24000 * 7 // 10)
WEATHER = ToolSpec(
    "weather",
    "mcp",
    "Tells the weather.",
    {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)
TOOL = {
    "type": "function",
    "name": "weather",
    "description": "Tells the weather.",
    "parameters": WEATHER.parameters,
}

ONLY_IN_ANSWERS = {
    "RealtimeSessionCreateRequest.id",
    "RealtimeSessionCreateRequest.object",
    "RealtimeSessionCreateRequest.expires_at",
    "RealtimeConversationItemAssistantMessage.phase",
}
"""The SDK types the session of an event as one that is sent; its type of an answer has these. The
service sends `phase` (seen with gpt-realtime-2.1), which the SDK's type lacks."""


class Client:
    """The SDK's connection, and what came by it."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.events: list[Any] = []

    async def until(self, kind: str) -> Any:
        """The next event of that type. Each has all the fields of the SDK's class, and no other."""
        while True:
            event = await self.connection.recv()
            self.events.append(event)
            if event.type != "conversation.created":  # the SDK's class for what it does not know
                assert type(event).__name__ != "ConversationCreatedEvent", event
            type(event).model_validate(event.to_dict())
            assert set(unknown_fields(event)) <= ONLY_IN_ANSWERS, unknown_fields(event)
            if event.type == kind:
                return event

    async def speak(self, sound: bytes) -> None:
        for at in range(0, len(sound), 4800):
            audio = base64.b64encode(sound[at : at + 4800]).decode()
            await self.connection.input_audio_buffer.append(audio=audio)


async def test_the_sdk_talks_to_the_emulator_with_tools_and_a_truncation() -> None:
    from openai import AsyncOpenAI

    answers = (
        Answer(asks=(Use("weather", {"city": "Oslo"}), Use("weather", {"city": "Bergen"}))),
        Answer("This answer is cut before it is heard to its end.", heard="Thank you."),
    )
    script = Script(answers, thinking_ms=0)
    async with (
        asyncio.timeout(60),
        OpenAIRealtimeEmulator(script) as emulator,
        AsyncOpenAI(api_key=emulator.key, base_url=emulator.url) as openai,
        openai.realtime.connect(model="gpt-realtime-2.1") as connection,
    ):
        client = Client(connection)
        created = await client.until("session.created")
        assert created.session.audio.input.format.type == "audio/pcm"
        transcription = {"model": "gpt-transcribe"}
        await connection.session.update(
            session={
                "type": "realtime",
                "instructions": "Be brief.",
                "tools": [TOOL],
                "audio": {"input": {"transcription": transcription}},
            }
        )
        session = (await client.until("session.updated")).session
        assert session.instructions == "Be brief."
        assert session.tools[0].name == "weather"

        await client.speak(TONE + SILENCE)
        assert (await client.until("input_audio_buffer.speech_started")).audio_start_ms == 0
        stopped = await client.until("input_audio_buffer.speech_stopped")
        assert stopped.audio_end_ms == pytest.approx(1000, abs=40)
        done = await client.until("response.done")
        calls = [item for item in done.response.output if item.type == "function_call"]
        assert [json.loads(call.arguments)["city"] for call in calls] == ["Oslo", "Bergen"]
        for call, weather in zip(calls, ("Sun.", "Rain."), strict=True):
            output = json.dumps({"message": weather})
            item = {"type": "function_call_output", "call_id": call.call_id, "output": output}
            await connection.conversation.item.create(item=item)
        await connection.response.create()
        told = await client.until("response.output_audio_transcript.done")
        assert told.transcript == "Sun. Rain."
        usage = (await client.until("response.done")).response.usage
        assert usage.total_tokens == usage.input_tokens + usage.output_tokens

        await client.speak(TONE + SILENCE)
        await client.until("response.created")
        delta = await client.until("response.output_audio.delta")
        await connection.response.create()
        error = (await client.until("error")).error
        assert error.code == "conversation_already_has_active_response"
        await connection.response.cancel()
        assert (await client.until("response.done")).response.status == "cancelled"
        await connection.conversation.item.truncate(
            item_id=delta.item_id, content_index=0, audio_end_ms=50
        )
        assert (await client.until("conversation.item.truncated")).audio_end_ms == 50
        await connection.conversation.item.truncate(
            item_id=delta.item_id, content_index=0, audio_end_ms=90_000
        )
        assert "already shorter" in (await client.until("error")).error.message
        await connection.response.cancel()
        assert (await client.until("error")).error.code == "response_cancel_not_active"
        words = [e.transcript for e in client.events if e.type.endswith("transcription.completed")]
        assert words[0] == "something"


@pytest.mark.parametrize(
    "message",
    [
        {"type": "session.update", "session": {"type": "realtime", "voice": "marin"}},
        {"type": "session.update", "session": {"type": "realtime", "modalities": ["audio"]}},
        {"type": "session.update", "session": {}},
        {"type": "input_audio_buffer.append", "audio": "%%%"},
        {"type": "input_audio_buffer.append", "audio": "AAAA", "rate": 8000},
        {
            "type": "conversation.item.create",
            "item": {"type": "function_call_output", "output": ""},
        },
        {
            "type": "conversation.item.create",
            "item": {"type": "function_call_output", "call_id": "never", "output": ""},
        },
        {
            "type": "conversation.item.create",
            "item": {
                "type": "message",
                "role": "assistant",
                "content": [{"type": "output_audio", "audio": "AAAA"}],
            },
        },
        {"type": "conversation.item.truncate", "item_id": "i", "content_index": 0},
        {"type": "response.create", "response": {"modalities": ["audio"]}},
        {"type": "response.cancel"},
        {"type": "audio.append"},
        [],
    ],
)
async def test_the_emulator_refuses_what_the_service_refuses(message: Any) -> None:
    import websockets

    async with asyncio.timeout(60), OpenAIRealtimeEmulator() as emulator:
        url = emulator.url.replace("http", "ws", 1) + "/realtime?model=gpt-realtime"
        headers = {"Authorization": f"Bearer {emulator.key}"}
        async with websockets.connect(url, additional_headers=headers) as connection:
            assert json.loads(await connection.recv())["type"] == "session.created"
            await connection.send(json.dumps(message))
            answer = json.loads(await connection.recv())
            assert answer["type"] == "error"
            assert answer["error"]["message"]


async def test_every_message_of_ours_is_one_that_the_sdk_knows_to_the_last_field() -> None:
    from openai.types.realtime import RealtimeClientEvent
    from pydantic import TypeAdapter

    adapter: TypeAdapter[Any] = TypeAdapter(RealtimeClientEvent)
    kinds = set()
    for message in (*everything_we_say(), *await everything_the_voice_says()):
        known = adapter.validate_python(message)
        kinds.add(known.type)
        assert known.to_dict(mode="json") == message
        assert not unknown_fields(known), unknown_fields(known)
    assert kinds == {
        "session.update",
        "input_audio_buffer.append",
        "conversation.item.create",
        "conversation.item.delete",
        "conversation.item.truncate",
        "response.create",
        "response.cancel",
    }


def unknown_fields(model: Any) -> list[str]:
    """What stands in a message, at any depth, that the SDK's types do not have."""
    names = [f"{type(model).__name__}.{name}" for name in getattr(model, "model_extra", None) or {}]
    inner = [getattr(model, name) for name in getattr(type(model), "model_fields", {})]
    inner += model if isinstance(model, list) else []
    for value in inner:
        if isinstance(value, list) or hasattr(value, "model_fields_set"):
            names += unknown_fields(value)
    return names


def everything_we_say() -> list[dict[str, Any]]:
    """All that the adapter says in conversations with everything in them."""
    said = []
    for variety in (
        {},
        {
            "voice": "voice_1",
            "noise_reduction": {"type": "near_field", "strength": 0.5},
            "turn_detection": {"type": "semantic_vad", "eagerness": "low"},
            "transcription": {"language": "en", "languages": ["en", "de"], "keywords": ["ATIS"]},
            "truncation": {"retention_ratio": 0.8, "token_limits": {"post_instructions": 8000}},
            "reasoning": {"effort": "minimal"},
            "parallel_tool_calls": False,
            "tool_choice": {"name": "weather"},
            "max_output_tokens": 1000,
        },
        {
            "turn_detection": {"idle_timeout_ms": 9000, "interrupt_response": False},
            "tool_choice": "required",
            "greeting": "engine",
        },
    ):
        settings = OpenAIRealtimeProvider.model_validate(
            {"type": "openai_realtime", "slow_response": "provider", **variety}
        )
        said += one_call(OpenAIProtocol(settings, "sk-x"))
    return said


async def everything_the_voice_says() -> list[dict[str, Any]]:
    """All that the voice says, one sentence given up."""
    said = []
    async with OpenAIRealtimeEmulator(speed=10.0) as service:
        for variety in ({}, {"voice": "voice_1", "instructions": "Calmly.", "speed": 1.2}):
            values = {"type": "openai", "base_url": service.url, "model": "gpt-realtime-2.1-mini"}
            voice = RealtimeSynthesis(OpenAITts.model_validate({**values, **variety}), service.key)
            async with aclosing(voice.speak("It is sunny in Oslo.", 16000)) as pieces:
                await anext(pieces)
            async with aclosing(voice.speak("And now?", 8000)) as pieces:
                assert [piece async for piece in pieces]
            await voice.close()
        said += [received.message for received in service.received]
    return said


def one_call(protocol: OpenAIProtocol) -> list[dict[str, Any]]:
    host = RecordingHost()

    def hears(kind: str, **values: Any) -> None:
        protocol.receive_text(json.dumps({"type": kind, **values}).encode())

    def responds(response_id: str, *output: dict[str, Any], done: bool = True) -> None:
        hears("response.created", response={"id": response_id})
        sound = {"response_id": response_id, "item_id": "i" + response_id, "delta": "AAAA" * 200}
        hears("response.output_audio.delta", **sound)
        if done:
            response = {"id": response_id, "status": "completed", "output": output}
            hears("response.done", response=response)

    session = a_session(toolbox=(WEATHER,))
    protocol.begin(session, host, None)
    hears("session.updated", session={})
    protocol.hear(bytes(160))
    responds("greeting")
    call = {"type": "function_call", "name": "weather", "arguments": '{"city":"Oslo"}'}
    responds("1", {**call, "call_id": "c1"}, {**call, "call_id": "c2"})
    protocol.speak(Speech("One moment.", "filler"))
    responds("2")
    written = {"type": "message", "id": "w", "content": [{"type": "output_text", "text": "Hm."}]}
    hears("response.created", response={"id": "w1"})
    done = {"id": "w1", "status": "completed", "output": [written]}
    hears("response.done", response=done)
    responds("w2")
    protocol.listen_aside(True)
    protocol.listen_aside(False)
    protocol.answer_tool(ToolReply("c1", "weather", Status.OK, "Sun.", {"degrees": 4}))
    protocol.answer_tool(ToolReply("c2", "weather", Status.TIMEOUT, "It took too long."))
    responds("3", done=False)
    protocol.interrupted((CutItem("i3", 30),))
    history = (Said("caller", "Hello."), Said("agent", "How can I help?"))
    protocol.begin(session, host, Resumed(history, owes_answer=True))
    hears("session.updated", session={})
    responds("4")
    protocol.inform("Your table is booked.")
    return host.sent
