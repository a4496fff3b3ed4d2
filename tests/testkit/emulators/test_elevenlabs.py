"""The emulated ElevenLabs refuses what the service refuses."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
from collections.abc import AsyncIterator
from copy import deepcopy
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from cordboard_testkit.emulators.elevenlabs.agent import ElevenLabsEmulator
from cordboard_testkit.emulators.elevenlabs.workspace import (
    DEFAULT_EVENTS,
    PERMITS_ALL,
    PERMITS_NOTHING,
    VOICE,
    Workspace,
    checked_tool,
    new_agent,
)
from cordboard_testkit.emulators.http_service import Refused
from cordboard_testkit.emulators.script import Answer, Fault, Script, Use
from cordboard_testkit.patience import PATIENCE

BEGIN = {"type": "conversation_initiation_client_data"}


@contextlib.asynccontextmanager
async def talking(
    *messages: Any, script: Script | None = None, any_tool: bool = True, **agent: Any
) -> AsyncIterator[tuple[ElevenLabsEmulator, ClientConnection]]:
    """A connection to a public agent on which these have been said."""
    given = new_agent("agent_1", auth=False, **agent)
    emulator = ElevenLabsEmulator(script, agent=given, any_tool=any_tool, ping_s=60)
    async with emulator as service, connect(address(service)) as socket:
        for message in messages:
            await socket.send(message if isinstance(message, str) else json.dumps(message))
        yield service, socket


def address(service: ElevenLabsEmulator, agent_id: str = "agent_1") -> str:
    return f"{service.url.replace('http', 'ws', 1)}/v1/convai/conversation?agent_id={agent_id}"


async def end_of(socket: ClientConnection) -> tuple[int, str]:
    """How the service closes."""
    async with asyncio.timeout(PATIENCE):
        with contextlib.suppress(ConnectionClosed):
            while True:
                await socket.recv()
    closed = socket.protocol.close_rcvd
    assert closed is not None
    return closed.code, closed.reason


async def event(socket: ClientConnection, kind: str) -> dict[str, Any]:
    async with asyncio.timeout(PATIENCE):
        while True:
            message: dict[str, Any] = json.loads(await socket.recv())
            if message["type"] == kind:
                return message


def override(**parts: Any) -> dict[str, Any]:
    return BEGIN | {"conversation_config_override": parts}


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("no json", "Invalid message received"),
        ({"type": "user_message", "text": "Hi."}, "the first message is the initiation"),
        ({"type": "session.update"}, "unknown type"),
        (BEGIN | {"extra": 1}, "has no field 'extra'"),
        (override(agent={"greeting": "Hi."}), "unknown field 'agent.greeting'"),
        (override(tts={"speed": 3}), "'tts.speed' is not from 0.7 to 1.2"),
        (override(tts={"voice_id": "nobody"}), "A voice for the voice_id 'nobody' was not found"),
        (override(agent={"prompt": "Be kind."}), "'agent.prompt' is not an object"),
        (BEGIN | {"dynamic_variables": {"a": []}}, "dynamic variable 'a'"),
        (override(agent={"first_message": "Hi {{who}}."}), "Missing required dynamic variables"),
        (BEGIN | {"custom_llm_extra_body": {"a": 1}}, "not allowed by config"),
    ],
)
async def test_a_beginning_that_is_wrong(message: Any, reason: str) -> None:
    async with talking(message) as (service, socket):
        code, told = await end_of(socket)
        assert code == 1008
        assert reason in told
        assert len(service.violations) == 1
        assert service.closes[0][0] == 1008


async def test_an_override_needs_its_permission() -> None:
    permits = deepcopy(PERMITS_NOTHING)
    permits["agent"]["first_message"] = True
    message = override(agent={"first_message": "Hi."}, tts={"voice_id": VOICE})
    async with talking(message, permits=permits) as (_, socket):
        await event(socket, "conversation_initiation_metadata")  # it is refused only then
        error = await event(socket, "error")
        assert error["error_event"]["error_type"] == "override_error"
        told = "Override for field 'voice_id' is not allowed by config."
        assert await end_of(socket) == (1008, told)


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (BEGIN, "the conversation has begun"),
        ({"user_audio_chunk": "%%"}, "not base64"),
        ({"user_audio_chunk": base64.b64encode(b"abc").decode()}, "half a sample"),
        ({"user_audio_chunk": "", "type": "x"}, "a text alone"),
        ({"type": "pong"}, "Missing required fields: event_id"),
        ({"type": "client_tool_result", "tool_call_id": "c", "result": {}}, "result is no text"),
        ({"type": "contextual_update"}, "Missing required fields: text"),
    ],
)
async def test_later_messages_that_are_wrong(message: Any, reason: str) -> None:
    async with talking(BEGIN, message, sound="pcm_16000") as (_, socket):
        code, told = await end_of(socket)
        assert code == 1008
        assert reason in told


async def test_the_words_of_an_answer_follow_its_first_sound_and_share_its_number() -> None:
    message = override(agent={"first_message": "Hello there."})
    async with talking(message) as (_, socket):
        await event(socket, "conversation_initiation_metadata")
        told = [json.loads(await socket.recv()) for _ in range(4)]
        sound, words = [each for each in told if each["type"] != "ping"][:2]
        assert [sound["type"], words["type"]] == ["audio", "agent_response"]
        number = sound["audio_event"]["event_id"]
        assert words["agent_response_event"] == {
            "agent_response": "Hello there.",
            "event_id": number,
        }


async def test_a_caller_in_the_queue_hears_music_and_is_given_up_in_the_end() -> None:
    given = new_agent("agent_1", auth=False)
    emulator = ElevenLabsEmulator(agent=given, ping_s=60, queue_s=0.1, admits=False)
    async with emulator as service, connect(address(service)) as socket:
        await socket.send(json.dumps(BEGIN))
        status = await event(socket, "queue_status")
        assert status["queue_status_event"] == {"status": "waiting"}
        await event(socket, "audio")
        status = await event(socket, "queue_status")
        assert status["queue_status_event"] == {"status": "timed_out"}
        assert (await end_of(socket))[0] == 4300


async def test_results_and_pongs_of_nothing_are_noted() -> None:
    result = {"type": "client_tool_result", "tool_call_id": "c", "result": "", "is_error": False}
    async with talking(BEGIN, result, {"type": "pong", "event_id": 99}) as (service, _):
        await service.until(lambda: len(service.received) == 3)
    assert service.violations == [
        "a result that nothing waits for: c",
        "a pong to no ping: 99",
    ]


ASK = Script((Answer(asks=(Use("look"),)),), thinking_ms=0)
HELLO = {"type": "user_message", "text": "Hello."}


async def test_a_tool_that_does_not_answer_is_given_up() -> None:
    given = new_agent("agent_1", auth=False)
    async with ElevenLabsEmulator(ASK, agent=given, any_tool=False) as service:
        config = {"type": "client", "name": "look", "description": "Looks."}
        config |= {"expects_response": True, "response_timeout_secs": 1}
        made = service.workspace.create_tool({"tool_config": config})
        given["conversation_config"]["agent"]["prompt"]["tool_ids"] = [made["id"]]
        async with connect(address(service)) as socket:
            await socket.send(json.dumps(BEGIN))
            await socket.send(json.dumps(HELLO))
            call = await event(socket, "client_tool_call")
            assert call["client_tool_call"]["tool_name"] == "look"
            said = await event(socket, "agent_response")
            told = said["agent_response_event"]["agent_response"]
            assert told == "The tool look did not answer."


async def test_an_agent_asks_only_for_tools_it_has() -> None:
    async with talking(BEGIN, HELLO, script=ASK, any_tool=False) as (service, socket):
        said = await event(socket, "agent_response")
        assert said["agent_response_event"]["agent_response"] == "There is no tool look."
        assert service.violations == ["the agent has no tool look"]


async def test_only_the_events_of_the_agent_are_sent() -> None:
    script = Script((Answer("Yes."),), thinking_ms=0)
    events = tuple(event for event in DEFAULT_EVENTS if event != "agent_response")
    async with talking(BEGIN, HELLO, script=script, events=events) as (_, socket):
        kinds = [json.loads(await socket.recv())["type"] for _ in range(3)]
        assert sorted(kinds) == ["audio", "conversation_initiation_metadata", "ping"]


async def test_who_may_come_in() -> None:
    async with ElevenLabsEmulator() as service:
        for agent_id in ("agent_other", service.agent_id):  # unknown; without a signature
            async with connect(address(service, agent_id)) as socket:
                assert (await end_of(socket))[0] == 1008
        assert len(service.violations) == 2


async def test_faults_before_the_conversation() -> None:
    faults = (
        Fault("connect", "refuse", 429),
        Fault("setup", "close", 1011),
        Fault("setup", "drop"),
    )
    agent = new_agent("agent_1", auth=False)
    async with ElevenLabsEmulator(Script(faults=faults), agent=agent) as service:
        with pytest.raises(InvalidStatus) as refused:
            await connect(address(service))
        assert refused.value.response.status_code == 429
        async with connect(address(service)) as socket:
            await socket.send(json.dumps(BEGIN))
            assert (await end_of(socket))[0] == 1011
        async with connect(address(service)) as socket:
            await socket.send(json.dumps(BEGIN))
            with pytest.raises(ConnectionClosed) as dropped:
                await socket.recv()
            assert dropped.value.rcvd is None
        assert service.connections == 3


def tool(**more: Any) -> dict[str, Any]:
    return {"tool_config": {"type": "client", "name": "look", "description": "Looks."} | more}


@pytest.mark.parametrize(
    "body",
    [
        {},
        tool(type="webhook"),
        tool(name="has spaces"),
        tool(description=""),
        tool(response_timeout_secs=0),
        tool(response_timeout_secs=121),
        tool(colour="red"),
        tool(execution_mode="later"),
        tool(parameters={"type": "string"}),
        tool(parameters={"type": "object", "properties": {"a": {"type": "string"}}}),
        tool(parameters={"type": "object", "required": ["a"], "properties": {}}),
        tool(parameters={"type": "object", "properties": {"a": {"type": "null"}}}),
        tool(parameters={"type": "object", "additionalProperties": False}),
    ],
)
def test_tools_that_are_refused(body: Any) -> None:
    with pytest.raises(Refused) as caught:
        checked_tool(body)
    assert caught.value.status == 422


@pytest.mark.parametrize(
    "body",
    [
        {"colour": "red"},
        {"conversation_config": {"stt": {}}},
        {"conversation_config": {"tts": {"agent_output_audio_format": "mp3"}}},
        {"conversation_config": {"conversation": {"client_events": ["everything"]}}},
        {"conversation_config": {"agent": {"prompt": {"tool_ids": ["tool_9"]}}}},
        {"conversation_config": {"agent": {"prompt": {"tool_ids": [], "tools": []}}}},
    ],
)
def test_changes_of_an_agent_that_are_refused(body: Any) -> None:
    workspace = Workspace()
    workspace.agents["a"] = new_agent("a", permits=PERMITS_ALL)
    before = deepcopy(workspace.agents)
    with pytest.raises(Refused):
        workspace.patch_agent("a", body)
    assert workspace.agents == before
