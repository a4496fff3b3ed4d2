"""ElevenLabs' own SDK as the judge: of the emulated service, and of what is sent to it."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, get_args

import pytest
from pydantic import BaseModel, TypeAdapter

from cordboard.agent_api.agent import AgentAudioDone, ToolAsked
from cordboard.agents.realtime.agent import RealtimeAgent, RealtimeParts
from cordboard.tools.tool import Status, ToolReply, ToolSpec
from cordboard.vendors.elevenlabs.agent.protocol import ElevenLabsProtocol
from cordboard.vendors.elevenlabs.config import ElevenLabsAgentProvider
from cordboard.vendors.elevenlabs.rest import ElevenLabsRest
from cordboard.vendors.elevenlabs.sync import Sync
from cordboard.vendors.elevenlabs.sync_plan import MARK, NEEDED_EVENTS, Wanted
from cordboard_testkit.emulators.elevenlabs.agent import KEY, ElevenLabsEmulator
from cordboard_testkit.emulators.elevenlabs.wire import LLMS
from cordboard_testkit.emulators.elevenlabs.workspace import (
    DEFAULT_EVENTS,
    PERMITS_NOTHING,
    VOICE,
    new_agent,
)
from cordboard_testkit.emulators.script import Answer, Fault, Script, Use

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

LOUD_PCM, QUIET_PCM = b"\x00\x40" * 320, bytes(640)
BOOK = ToolSpec(
    "book",
    "http",
    "Books a table.",
    {
        "type": "object",
        "properties": {
            "people": {"type": ["integer", "null"], "minimum": 1},
            "extras": {"type": "array", "items": {"type": "string"}},
            "guest": {"type": "object", "properties": {"name": {"type": "string"}}},
            "room": {"enum": ["inside", "outside"]},
        },
        "required": ["people"],
    },
)
PLAIN = ToolSpec("hangup_call", "builtin", "Ends the call.", {"type": "object", "properties": {}})


def provider(service: ElevenLabsEmulator, **more: Any) -> ElevenLabsAgentProvider:
    return ElevenLabsAgentProvider.model_validate(
        {"type": "elevenlabs_agent", "agent_id": service.agent_id, "base_url": service.url} | more
    )


@contextlib.contextmanager
def sdk_client(service: ElevenLabsEmulator, key: str = KEY) -> Iterator[Any]:
    """The SDK's client closes its connections only if they are somebody else's."""
    import httpx
    from elevenlabs.client import ElevenLabs

    with httpx.Client(trust_env=False, verify=False) as http:
        yield ElevenLabs(api_key=key, base_url=service.url, httpx_client=http)


@pytest.fixture
def stack() -> Iterator[contextlib.ExitStack]:
    with contextlib.ExitStack() as stack:
        yield stack


class Ears:
    """The SDK's audio: what it gives, and a way to speak."""

    def __init__(self) -> None:
        self.heard = bytearray()
        self.cuts = 0
        self.say: Callable[[bytes], Awaitable[None]] | None = None
        self.started = asyncio.Event()

    async def start(self, input_callback: Callable[[bytes], Awaitable[None]]) -> None:
        self.say = input_callback
        self.started.set()

    async def stop(self) -> None:
        pass

    async def output(self, audio: bytes) -> None:
        self.heard += audio

    async def interrupt(self) -> None:
        self.cuts += 1

    async def turn(self) -> None:
        assert self.say is not None
        for piece in (LOUD_PCM,) * 10 + (QUIET_PCM,) * 25:
            await self.say(piece)


async def test_the_sdk_talks_to_the_emulator(stack: contextlib.ExitStack) -> None:
    from elevenlabs.conversational_ai.conversation import (
        AsyncAudioInterface,
        AsyncConversation,
        ClientTools,
        ConversationInitiationData,
    )

    class Interface(Ears, AsyncAudioInterface):
        pass

    script = Script(
        (
            Answer("It is sunny today in all of Norway.", heard="The weather?"),
            Answer(asks=(Use("book", {"people": 4}),), then="Well: {results}"),
        ),
        thinking_ms=10,
    )
    agent = new_agent("agent_1", sound="pcm_16000")
    async with ElevenLabsEmulator(script, agent=agent, ping_s=0.05) as service:
        client = stack.enter_context(sdk_client(service))
        asked: list[dict[str, Any]] = []
        said: list[str] = []
        heard: list[str] = []
        corrected: list[str] = []
        answered = asyncio.Event()

        async def book(parameters: dict[str, Any]) -> str:
            asked.append(parameters)
            return "Booked."

        async def agent_said(text: str) -> None:
            said.append(text)
            answered.set()

        async def caller_said(text: str) -> None:
            heard.append(text)

        async def was_corrected(original: str, text: str) -> None:
            corrected.append(text)

        async def next_words() -> str:
            async with asyncio.timeout(60):
                await answered.wait()
            answered.clear()
            return said[-1]

        tools = ClientTools(loop=asyncio.get_running_loop())
        tools.register("book", book, is_async=True)
        ears = Interface()
        overrides = {"agent": {"first_message": "Hello {{name}}."}, "tts": {"voice_id": VOICE}}
        conversation = AsyncConversation(
            client,
            "agent_1",
            requires_auth=True,
            audio_interface=ears,
            client_tools=tools,
            config=ConversationInitiationData(
                conversation_config_override=overrides, dynamic_variables={"name": "Kari"}
            ),
            callback_agent_response=agent_said,
            callback_user_transcript=caller_said,
            callback_agent_response_correction=was_corrected,
        )
        await conversation.start_session()
        assert await next_words() == "Hello Kari."
        await ears.turn()
        assert await next_words() == "It is sunny today in all of Norway."
        await ears.turn()  # over it
        assert await next_words() == "Well: Booked."
        await conversation.send_contextual_update("The caller is in a hurry.")
        await conversation.register_user_activity()
        await conversation.end_session()
        assert await conversation.wait_for_session_end() == "conv_0001"
        assert asked == [{"tool_call_id": asked[0]["tool_call_id"], "people": 4}]
        assert heard == ["The weather?", "something"]
        assert ears.cuts >= 1
        assert corrected[-1].endswith("...")
        assert len(ears.heard) >= 6_400  # a piece of 200 ms at least
        assert service.of("pong")
    assert service.violations == []


async def test_the_sdk_learns_why_it_is_refused(stack: contextlib.ExitStack) -> None:
    from elevenlabs.core.api_error import ApiError

    async with ElevenLabsEmulator() as service:
        wrong = stack.enter_context(sdk_client(service, "xi-wrong"))
        url = wrong.conversational_ai.conversations.get_signed_url
        with pytest.raises(ApiError) as caught:
            await asyncio.to_thread(url, agent_id=service.agent_id)
        assert caught.value.status_code == 401
        right = stack.enter_context(sdk_client(service))
        with pytest.raises(ApiError) as caught:
            await asyncio.to_thread(right.conversational_ai.agents.get, "agent_other")
        assert caught.value.status_code == 404


def test_the_emulator_knows_the_sdks_language_models() -> None:
    from elevenlabs.types import Llm

    assert set(get_args(get_args(Llm)[0])) == LLMS


async def test_the_sdk_reads_what_the_sync_has_written(stack: contextlib.ExitStack) -> None:
    from elevenlabs.types import ToolRequestModelToolConfig_Client

    agent = new_agent("agent_1", sound="pcm_16000", permits=PERMITS_NOTHING, events=("audio",))
    async with ElevenLabsEmulator(agent=agent) as service:
        settings = provider(service, tts={"speed": 1.1})
        async with ElevenLabsRest(service.url, KEY, 5) as rest:
            sync = Sync(rest, Wanted((BOOK, PLAIN), settings))
            await sync.apply(await sync.plan())
        client = stack.enter_context(sdk_client(service)).conversational_ai
        tools = (await asyncio.to_thread(client.tools.list)).tools
        assert [tool.tool_config.name for tool in tools] == ["book", "hangup_call"]
        for tool in tools:
            assert tool.tool_config.expects_response is True
            placeholders = tool.tool_config.dynamic_variables.dynamic_variable_placeholders
            assert placeholders == {MARK: "agent_1"}
        schema = tools[0].tool_config.parameters
        assert schema.required == ["people"]
        assert schema.properties["people"].type == "integer"
        assert schema.properties["extras"].items.type == "string"
        assert schema.properties["guest"].properties["name"].type == "string"
        assert schema.properties["room"].enum == ["inside", "outside"]
        whole = await asyncio.to_thread(client.agents.get, "agent_1")
        config = whole.conversation_config
        assert config.asr.user_input_audio_format == "ulaw_8000"
        assert config.tts.agent_output_audio_format == "ulaw_8000"
        assert config.agent.prompt.tool_ids == [tool.id for tool in tools]
        assert set(NEEDED_EVENTS) <= set(config.conversation.client_events)
        permits = whole.platform_settings.overrides.conversation_config_override
        assert permits.agent.first_message is True
        assert permits.agent.prompt.prompt is True
        assert permits.tts.speed is True

        for asked in service.book.received:
            if asked.path == "/v1/convai/tools" and asked.method == "POST":
                judged(ToolRequestModelToolConfig_Client, asked.body["tool_config"])
            elif asked.method == "PATCH":
                judged_patch(asked.body)
    assert service.violations == []


def judged_patch(body: dict[str, Any]) -> None:
    from elevenlabs.types import AgentPlatformSettingsRequestModel, ConversationalConfig

    judged(ConversationalConfig, body["conversation_config"])
    judged(AgentPlatformSettingsRequestModel, body["platform_settings"])
    assert set(body) == {"conversation_config", "platform_settings"}


def judged(kind: Any, value: Any) -> None:
    """The SDK's type takes it and knows each of its fields."""
    read = TypeAdapter(kind).validate_python(value)
    assert list(unknown(read, "")) == []


def unknown(value: Any, where: str) -> Iterator[str]:
    if isinstance(value, BaseModel):
        yield from (f"{where}.{name}" for name in value.model_extra or {})
        for name in value.model_fields_set:
            yield from unknown(getattr(value, name, None), f"{where}.{name}")
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from unknown(inner, f"{where}.{name}")
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from unknown(inner, where)


async def test_all_that_is_sent_is_known_to_the_sdk() -> None:
    """A conversation with a greeting, a turn, a tool, a loss and all that follows."""
    from tests.agents.realtime.plain_service import Caller
    from tests.vendors.elevenlabs.test_agent_calls import listen, speak

    script = Script(
        (Answer("It is sunny."), Answer(asks=(Use("book", {"people": 4}),)), Answer("Yes.")),
        faults=(Fault("result", "close", code=1011),),
        thinking_ms=10,
    )
    events = (*DEFAULT_EVENTS, "agent_response_complete")
    agent_at_service = new_agent("agent_1", events=events)
    async with ElevenLabsEmulator(
        script, agent=agent_at_service, ping_s=0.05, faster=20
    ) as service:
        settings = provider(
            service,
            llm="gpt-5.2",
            language="en",
            tts={"voice_id": VOICE, "stability": 0.4, "speed": 1.1, "similarity_boost": 0.7},
            dynamic_variables={"shop": "Oslo"},
        )
        parts = RealtimeParts(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
        protocol = ElevenLabsProtocol(settings, KEY)
        agent = RealtimeAgent(protocol, settings, "elevenlabs_agent", parts)
        caller = Caller("Hi.")
        caller.agent = agent
        await agent.start(caller.session)
        await listen(agent, caller, AgentAudioDone)
        speak(agent)
        await listen(agent, caller, AgentAudioDone, 2)
        speak(agent)
        ask = (await caller.until(ToolAsked)).ask
        agent.answer_tool(ToolReply(ask.ask_id, ask.name, Status.OK, "Booked."))
        await listen(agent, caller, AgentAudioDone, 3)
        protocol.keep_alive()
        assert protocol.inform("A taxi is here.")
        await service.until(lambda: len(service.of("user_message")) == 2)
        await agent.close()
    assert service.violations == []
    kinds = {judged_message(received.message) for received in service.received}
    assert kinds == {
        *("sound", "pong", "conversation_initiation_client_data", "client_tool_result"),
        *("contextual_update", "user_message", "user_activity"),
    }


def judged_message(message: dict[str, Any]) -> str:
    """Its type; that the SDK would have built the same is asserted."""
    from elevenlabs.conversational_ai import conversation as sdk
    from elevenlabs.types import ConversationConfigClientOverrideInput

    if "user_audio_chunk" in message:
        assert set(message) == {"user_audio_chunk"}
        return "sound"
    kind = sdk.ClientToOrchestratorEvent(message["type"])
    match kind:
        case sdk.ClientToOrchestratorEvent.CONVERSATION_INITIATION_CLIENT_DATA:
            judged(ConversationConfigClientOverrideInput, message["conversation_config_override"])
            known = {"custom_llm_extra_body", "dynamic_variables", "source_info", "user_id"}
            assert set(message) - known == {"type", "conversation_config_override"}
        case sdk.ClientToOrchestratorEvent.CONTEXTUAL_UPDATE:
            built = sdk.ContextualUpdateClientToOrchestratorEvent(message["text"]).to_dict()
            assert message == built
        case sdk.ClientToOrchestratorEvent.USER_MESSAGE:
            assert message == sdk.UserMessageClientToOrchestratorEvent(message["text"]).to_dict()
        case sdk.ClientToOrchestratorEvent.USER_ACTIVITY:
            assert message == sdk.UserActivityClientToOrchestratorEvent().to_dict()
        case sdk.ClientToOrchestratorEvent.PONG:
            assert set(message) == {"type", "event_id"}
        case sdk.ClientToOrchestratorEvent.CLIENT_TOOL_RESULT:
            # As `ClientTools.execute_tool` builds it.
            assert set(message) == {"type", "tool_call_id", "result", "is_error"}
    return str(kind.value)
