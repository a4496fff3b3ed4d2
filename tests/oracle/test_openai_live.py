"""OpenAI's own SDK: its types know every message of the Live adapter and of its emulator."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import numpy as np
import websockets
from openai.types.live import ClientEvent, ServerEvent
from pydantic import TypeAdapter
from tests.oracle.test_openai_realtime import unknown_fields
from tests.vendors.host import RecordingHost, a_session

from cordboard.agent_api.agent import Said
from cordboard.agent_api.service_protocol import Resumed
from cordboard.audio.g711 import linear_to_ulaw
from cordboard.tools.tool import Status, ToolReply, ToolSpec
from cordboard.vendors.openai.config import OpenAILiveProvider
from cordboard.vendors.openai.live.protocol import OpenAILiveProtocol
from cordboard_testkit.emulators.openai.live import OpenAILiveEmulator
from cordboard_testkit.emulators.script import Answer, Script, Use

WEATHER = ToolSpec(
    "weather", "mcp", "Tells the weather.", {"type": "object", "properties": {"city": {}}}
)
SPEECH = linear_to_ulaw((8000 * np.sin(np.arange(4000) * 0.3)).astype("<i2").tobytes())


def test_every_message_of_ours_is_one_that_the_sdk_knows_to_the_last_field() -> None:
    adapter: TypeAdapter[Any] = TypeAdapter(ClientEvent)
    kinds = set()
    for message in everything_we_say():
        known = adapter.validate_python(message)
        kinds.add(known.type)
        assert known.to_dict(mode="json") == message
        assert not unknown_fields(known), unknown_fields(known)
    assert kinds == {
        "session.start",
        "session.input_audio.append",
        "session.commentary.append",
        "response.item.create",
        "response.create",
        "session.close",
    }


def everything_we_say() -> list[dict[str, Any]]:
    """All that the adapter says in conversations with everything in them."""
    said = []
    whole = {"model": "gpt-6-luna", "reasoning": {"effort": "low"}, "text": {"verbosity": "low"}}
    whole |= {"max_output_tokens": 400, "parallel_tool_calls": False, "service_tier": "priority"}  # type: ignore[dict-item]
    for variety in ({}, {"voice": "voice_1", "delegation": whole}, {"greeting": "engine"}):
        host = RecordingHost()
        settings = OpenAILiveProvider.model_validate({"type": "openai_live", **variety})
        protocol = OpenAILiveProtocol(settings, "sk-x")
        session = a_session(toolbox=(WEATHER,))
        protocol.begin(session, host, None)
        started = {"type": "session.started", "session": {}}
        item = {"type": "function_call", "name": "weather", "call_id": "c1", "arguments": "{}"}
        nested = [
            {"type": "response.output_item.done", "item": item},
            {"type": "response.completed", "response": {}},
        ]
        for event in (
            started,
            *({"type": "response.event", "delegation_id": "d", "event": each} for each in nested),
        ):
            protocol.receive_text(json.dumps(event).encode())
        protocol.hear(bytes(160))
        protocol.answer_tool(ToolReply("c1", "weather", Status.OK, "Sun.", {"degrees": 4}))
        protocol.inform("Your table is booked.")
        history = (Said("caller", "Hello."), Said("agent", "How can I help?"))
        protocol.begin(session, host, Resumed(history, owes_answer=True))
        protocol.receive_text(json.dumps(started).encode())
        protocol.goodbye()
        said += host.sent
    return said


async def test_the_sdk_knows_every_event_of_the_emulator() -> None:
    adapter: TypeAdapter[Any] = TypeAdapter(ServerEvent)
    script = Script((Answer("One moment.", asks=(Use("weather", {"city": "Oslo"}),)),))
    kinds: set[str] = set()
    async with asyncio.timeout(60), OpenAILiveEmulator(script, speed=50.0) as emulator:
        url = emulator.url.replace("http", "ws", 1) + "/live/sessions"
        headers = {"Authorization": f"Bearer {emulator.key}"}
        host = RecordingHost()
        protocol = OpenAILiveProtocol(OpenAILiveProvider(type="openai_live"), emulator.key)
        protocol.begin(a_session(toolbox=(WEATHER,)), host, None)
        async with websockets.connect(url, additional_headers=headers) as connection:

            async def forward() -> None:
                sent, host.sent = host.sent, []
                for message in sent:
                    await connection.send(json.dumps(message))

            await forward()
            async for message in connection:
                event = json.loads(message)
                known = adapter.validate_python(event)
                assert type(known).model_fields["type"].annotation is not None
                assert not unknown_fields(known), unknown_fields(known)
                if event["type"] not in kinds and event["type"] == "session.started":
                    for at in range(0, len(SPEECH), 160):
                        protocol.hear(SPEECH[at : at + 160])
                    for _ in range(40):
                        protocol.hear(b"\xff" * 160)
                kinds.add(event["type"])
                protocol.receive_text(json.dumps(event).encode())
                for call_id, name, _ in host.all("tool_asked"):
                    protocol.answer_tool(ToolReply(call_id, name, Status.OK, "Sun."))
                    host.told.clear()
                if "".join(words for (words,) in host.all("agent_words")).endswith("Sun."):
                    protocol.goodbye()
                    host.told.clear()
                await forward()
        assert not emulator.violations
    assert kinds >= {
        *("session.started", "session.output_audio.delta", "session.output_transcript.delta"),
        *("session.input_transcript.delta", "session.delegation.created", "response.event"),
        *("session.commentary.appended", "session.usage.updated", "session.closed"),
    }
