"""Gemini Live, judged by the vendor's own SDK: it talks to our emulator, and reads what we send."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import numpy as np
import pytest
from google import genai
from google.genai import errors, types
from tests.vendors.host import RecordingHost, a_session
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from cordboard.agent_api.agent import Said
from cordboard.agent_api.service_protocol import Resumed
from cordboard.audio.format import SLIN_16K
from cordboard.tools.tool import Effects, Status, ToolReply, ToolSpec
from cordboard.vendors.gemini.config import GeminiLiveProvider
from cordboard.vendors.gemini.live.protocol import PATH, GeminiProtocol
from cordboard_testkit.emulators.gemini.live import KEY, GeminiLiveEmulator
from cordboard_testkit.emulators.script import Answer, Fault, Script, Use

MODEL = "gemini-3.8-live"
SCHEMA = {
    "type": "object",
    "properties": {"icao": {"type": "string", "description": "Four letters."}},
    "required": ["icao"],
}


def client(emulator: GeminiLiveEmulator, key: str = KEY) -> genai.Client:
    options = types.HttpOptions(
        base_url=emulator.url,
        async_client_args={"ssl": emulator.certificate.client_context},
    )
    return genai.Client(api_key=key, http_options=options)


def config(behavior: str = "NON_BLOCKING", **more: Any) -> types.LiveConnectConfig:
    return types.LiveConnectConfig.model_validate(
        {
            "response_modalities": ["AUDIO"],
            "input_audio_transcription": {},
            "output_audio_transcription": {},
            "session_resumption": {},
            "context_window_compression": {"sliding_window": {}},
            "system_instruction": "Be brief.",
            "tools": [
                {
                    "function_declarations": [
                        {
                            "name": "get_atis",
                            "description": "ATIS.",
                            "parameters": SCHEMA,
                            "behavior": behavior,
                        }
                    ]
                }
            ],
            **more,
        }
    )


async def a_turn(session: Any) -> None:
    """Somebody speaks for 300 ms and is silent."""
    times = np.arange(4_800) / 16_000
    speech = (8000 * np.sin(2 * np.pi * 300 * times)).astype("<i2").tobytes()
    for pcm in (speech, bytes(2 * 9_600)):
        blob = types.Blob(data=pcm, mime_type="audio/pcm;rate=16000")
        await session.send_realtime_input(audio=blob)


async def all_of(session: Any) -> None:
    async for _ in session.receive():
        pass


@pytest.mark.parametrize("behavior", ["BLOCKING", "NON_BLOCKING"])
async def test_the_sdk_holds_a_conversation_with_a_tool(behavior: str) -> None:
    script = Script(
        (Answer(asks=(Use("get_atis", {"icao": "ENGM"}),), then="It says: {results}"),),
        thinking_ms=10,
    )
    configured = config(behavior)
    async with GeminiLiveEmulator(script, pace=40) as emulator:
        live = client(emulator).aio.live
        async with live.connect(model=MODEL, config=configured) as session:
            assert session.session_id == "emulated"
            await a_turn(session)
            heard, said, sound, handles, done = "", "", b"", [], False
            async with asyncio.timeout(60):
                while not (done and said):
                    async for message in session.receive():
                        if message.tool_call:
                            [call] = message.tool_call.function_calls or []
                            assert (call.name, call.args) == ("get_atis", {"icao": "ENGM"})
                            answer = types.FunctionResponse(
                                id=call.id, name=call.name, response={"message": "Calm."}
                            )
                            await session.send_tool_response(function_responses=answer)
                        if message.session_resumption_update:
                            handles.append(message.session_resumption_update.new_handle)
                        if content := message.server_content:
                            if content.input_transcription:
                                heard += content.input_transcription.text or ""
                            if content.output_transcription:
                                said += content.output_transcription.text or ""
                            done = bool(content.turn_complete)
                        sound += message.data or b""
        assert heard == "something"
        assert said == "It says: Calm."
        assert len(sound) > 24_000
        assert handles[0]
        assert emulator.violations == []


async def test_the_sdk_is_greeted_and_goes_on_by_a_handle() -> None:
    async with GeminiLiveEmulator(Script((Answer("Hello you."),), thinking_ms=1), pace=60) as it:
        live, handle = client(it).aio.live, None
        async with live.connect(model=MODEL, config=config()) as session:
            turn = types.Content(role="user", parts=[types.Part(text="Hi!")])
            await session.send_client_content(turns=turn)
            async with asyncio.timeout(60):
                async for message in session.receive():
                    if message.session_resumption_update:
                        handle = message.session_resumption_update.new_handle
        again = config(session_resumption={"handle": handle})
        async with live.connect(model=MODEL, config=again) as session:
            assert session.session_id == "emulated"
        it.forget_handles()
        with pytest.raises(errors.APIError) as refused:
            async with live.connect(model=MODEL, config=again):
                pass
        assert refused.value.code == 1008


async def test_the_sdk_sees_a_forced_close_as_its_error() -> None:
    script = Script(faults=(Fault("answer", "close", code=1011),), thinking_ms=1)
    async with GeminiLiveEmulator(script) as emulator:
        async with client(emulator).aio.live.connect(model=MODEL, config=config()) as session:
            await a_turn(session)
            with pytest.raises(errors.APIError) as closed:
                await asyncio.wait_for(all_of(session), 60)
        assert closed.value.code == 1011


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"speech_config": {"language_code": "en-US"}}, 1007),
        ({"speech_config": {"voice_config": {"prebuilt_voice_config": {"voice_name": "X"}}}}, 1007),
        ({"response_modalities": ["TEXT"]}, 1007),
        ({"thinking_config": {"thinking_budget": 5}}, 1007),
    ],
)
async def test_the_emulator_refuses_what_the_service_refuses(
    more: dict[str, Any], code: int
) -> None:
    async with GeminiLiveEmulator() as emulator:
        with pytest.raises(errors.APIError) as refused:
            async with client(emulator).aio.live.connect(model=MODEL, config=config(**more)):
                pass
        assert refused.value.code == code
        assert emulator.violations


async def asked(session: Any) -> str:
    """The id of the function call that the service makes."""
    async for message in session.receive():
        if message.tool_call:
            return str(message.tool_call.function_calls[0].id)
    raise AssertionError("no function call came")


@pytest.mark.parametrize(
    ("wrong", "code"),
    [("sound", 1008), ("unknown", 1008), ("twice", 1008), ("cancelled", 1011), ("large", 1011)],
)
async def test_the_emulator_refuses_what_must_not_follow_a_function_call(
    wrong: str, code: int
) -> None:
    ask = Answer(asks=(Use("get_atis", {"icao": "ENGM"}),))
    faults = (Fault("ask", "cancel_tool"),) if wrong == "cancelled" else ()
    configured = config("BLOCKING")
    async with GeminiLiveEmulator(Script((ask,), faults=faults, thinking_ms=1)) as emulator:
        async with client(emulator).aio.live.connect(model=MODEL, config=configured) as session:
            await a_turn(session)
            call_id = await asyncio.wait_for(asked(session), 60)
            if wrong == "sound":
                await asyncio.sleep(0.6)
                await a_turn(session)
            for _ in range(1 + (wrong == "twice")):
                answer = types.FunctionResponse(
                    id="x" if wrong == "unknown" else call_id,
                    name="get_atis",
                    response={"message": "x" * (40_000 if wrong == "large" else 4)},
                )
                if wrong == "cancelled":
                    await session._receive()  # the cancellation
                if wrong != "sound":
                    await session.send_tool_response(function_responses=answer)
            with pytest.raises(errors.APIError) as closed:
                await asyncio.wait_for(endlessly(session), 60)
        assert closed.value.code == code
        assert len(emulator.violations) == 1


async def endlessly(session: Any) -> None:
    while True:
        await all_of(session)


SETUP: dict[str, Any] = {"model": f"models/{MODEL}"}
EMPTY_REQUIRED = {"type": "OBJECT", "properties": {"a": {"type": "STRING"}}, "required": []}


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ({"setup": {**SETUP, "toolConfig": {}}}, 1007),
        ({"setup": {**SETUP, "voice": "Kore"}}, 1007),
        ({"setup": {"model": MODEL}}, 1008),
        ({"setup": {"model": "models/gemini-9"}}, 1008),
        ({"clientContent": {"turns": [], "turnComplete": True}}, 1007),
        ({"setup": {**SETUP, "sessionResumption": {"handle": "no"}}}, 1008),
        (
            {
                "setup": {
                    **SETUP,
                    "tools": [
                        {"functionDeclarations": [{"name": "a", "parameters": EMPTY_REQUIRED}]}
                    ],
                }
            },
            1008,
        ),
        ([], 1007),
    ],
)
async def test_the_emulator_closes_with_the_services_codes(message: Any, code: int) -> None:
    async with GeminiLiveEmulator() as emulator:
        path = "/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent"
        async with connect(
            emulator.url.replace("https", "wss") + path,
            ssl=emulator.certificate.client_context,
            additional_headers={"x-goog-api-key": KEY},
        ) as socket:
            await socket.send(json.dumps(message))
            with pytest.raises(ConnectionClosed):
                await asyncio.wait_for(socket.recv(), 60)
            assert socket.close_code == code


async def test_the_emulator_knows_its_key_and_its_address() -> None:
    async with GeminiLiveEmulator() as emulator:
        for key, path, status in (
            (KEY, "/ws/nothing", 404),
            ("wrong", PATH.format(version="v1"), 401),
            ("", PATH.format(version="v1") + f"?key={KEY}", 400),
        ):
            with pytest.raises(InvalidStatus) as refused:
                await connect(
                    emulator.url.replace("https", "wss") + path,
                    ssl=emulator.certificate.client_context,
                    additional_headers={"x-goog-api-key": key},
                )
            assert refused.value.response.status_code == status


# What we send, read by the SDK's types.


def whole(message: dict[str, Any]) -> None:
    """Parse one of our messages; nothing of it may be dropped or changed."""
    message = json.loads(json.dumps(message))
    setup = message.get("setup", {})
    # The SDK's type of the setup lacks this one field, which its converter adds by hand.
    realtime = setup.pop("realtimeInputConfig", None)
    if realtime is not None:
        parsed = types.RealtimeInputConfig.model_validate(realtime)
        assert parsed.model_dump(mode="json", by_alias=True, exclude_none=True) == realtime
    read = types.LiveClientMessage.model_validate(message)
    dumped = read.model_dump(mode="json", by_alias=True, exclude_none=True)
    assert dumped == message


def test_every_message_of_ours_is_one_of_the_sdks() -> None:
    values = {
        "voice_name": "Kore",
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 40,
        "max_output_tokens": 500,
        "realtime_input_config": {
            "automatic_activity_detection": {
                "start_of_speech_sensitivity": "START_SENSITIVITY_LOW",
                "end_of_speech_sensitivity": "END_SENSITIVITY_HIGH",
                "prefix_padding_ms": 100,
                "silence_duration_ms": 500,
            },
            "activity_handling": "START_OF_ACTIVITY_INTERRUPTS",
            "turn_coverage": "TURN_INCLUDES_AUDIO_ACTIVITY_AND_ALL_VIDEO",
        },
        "context_window_compression": {"trigger_tokens": 30_000, "target_tokens": 10_000},
        "api_version": "v1alpha",
        "proactivity": {"proactive_audio": True},
        "safety_settings": [
            {"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_ONLY_HIGH"}
        ],
    }
    tools = (
        ToolSpec("get_atis", "mcp", "ATIS.", SCHEMA),
        ToolSpec("book", "http", "Books.", SCHEMA, effects=Effects.DESTRUCTIVE),
    )
    settings = GeminiLiveProvider.model_validate({"type": "gemini_live", **values})
    host, protocol = RecordingHost(), GeminiProtocol(settings, "key")
    session = a_session(toolbox=tools, audio_format=SLIN_16K)

    def say(message: dict[str, Any]) -> None:
        protocol.receive_text(json.dumps(message).encode())

    protocol.begin(session, host, None)
    say({"setupComplete": {}})
    protocol.hear(bytes(640))
    calls = [{"id": "1", "name": "get_atis", "args": {}}, {"id": "2", "name": "book", "args": {}}]
    say({"toolCall": {"functionCalls": calls}})
    for call_id in ("1", "2"):
        protocol.answer_tool(ToolReply(call_id, "x", Status.OK, "Fine.", {"a": [1, None, "x"]}))
    protocol.lost(None, 1011, "gone")
    protocol.begin(session, host, Resumed((Said("caller", "Hi"), Said("agent", "Hello")), True))
    say({"setupComplete": {}})
    say({"sessionResumptionUpdate": {"newHandle": "h", "resumable": True}})
    protocol.lost(None, 1011, "gone")
    protocol.begin(session, host, Resumed((), True))
    say({"setupComplete": {}})
    protocol.goodbye()
    kinds = {next(iter(message)) for message in host.sent}
    assert kinds == {"setup", "clientContent", "realtimeInput", "toolResponse"}
    for message in host.sent:
        whole(message)
