"""The emulated Deepgram Voice Agent refuses what the service refuses."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from copy import deepcopy
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from cordboard_testkit.emulators.deepgram.agent import DeepgramAgentEmulator
from cordboard_testkit.emulators.script import Answer, Fault, Script, Use
from cordboard_testkit.patience import PATIENCE

FUNCTION = {"name": "weather", "parameters": {"type": "object", "properties": {}}}
SETTINGS: dict[str, Any] = {
    "type": "Settings",
    "audio": {
        "input": {"encoding": "linear16", "sample_rate": 8000},
        "output": {"encoding": "mulaw", "sample_rate": 8000, "container": "none"},
    },
    "agent": {
        "listen": {"provider": {"version": "v2", "type": "deepgram", "model": "flux-general-en"}},
        "think": {
            "provider": {"type": "open_ai", "model": "gpt-4o-mini"},
            "prompt": "Be brief.",
            "functions": [FUNCTION],
        },
        "speak": {"provider": {"type": "deepgram", "model": "aura-2-thalia-en"}},
    },
}


_NOTHING = Script()


class Client:
    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection

    async def send(self, **message: Any) -> None:
        await self.connection.send(json.dumps(message))

    async def until(self, kind: str) -> dict[str, Any]:
        """The next message of that type; sound is passed over."""
        while True:
            said = await self.connection.recv()
            if isinstance(said, str) and json.loads(said)["type"] == kind:
                return dict(json.loads(said))

    async def introduce(self, settings: dict[str, Any] = SETTINGS) -> None:
        await self.until("Welcome")
        await self.send(**settings)


@asynccontextmanager
async def client(script: Script = _NOTHING, **values: Any) -> AsyncIterator[tuple[Client, Any]]:
    async with asyncio.timeout(PATIENCE), DeepgramAgentEmulator(script, **values) as emulator:
        address = f"{emulator.url.replace('http', 'ws', 1)}/v1/agent/converse"
        header = {"Authorization": f"Token {emulator.key}"}
        async with connect(address, additional_headers=header) as connection:
            yield Client(connection), emulator


def changed(change: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
    settings = deepcopy(SETTINGS)
    change(settings)
    return settings


@pytest.mark.parametrize(
    ("settings", "code", "words"),
    [
        (changed(lambda s: s.update(colour="red")), "UNPARSABLE_CLIENT_MESSAGE", "colour"),
        (
            changed(lambda s: s["agent"]["think"]["functions"][0].update(client_side=True)),
            "UNPARSABLE_CLIENT_MESSAGE",
            "client_side",
        ),
        (
            changed(lambda s: s["audio"]["input"].update(encoding="pcm")),
            "UNPARSABLE_CLIENT_MESSAGE",
            "encoding",
        ),
        (changed(lambda s: s["agent"].pop("think")), "UNPARSABLE_CLIENT_MESSAGE", "think"),
        (changed(lambda s: s["agent"].update(language="en")), "INVALID_SETTINGS", "language"),
        (
            changed(
                lambda s: s["agent"]["think"]["functions"][0]["parameters"].update(
                    properties={"people": {"type": "integer", "default": 2}}
                )
            ),
            "INVALID_SETTINGS",
            "default",
        ),
        (
            changed(lambda s: s["agent"]["think"]["functions"].append(FUNCTION)),
            "INVALID_SETTINGS",
            "twice",
        ),
        (
            changed(lambda s: s["agent"]["speak"]["provider"].update(model="flux-kit-en")),
            "INVALID_SETTINGS",
            "does not exist",
        ),
        (
            changed(lambda s: s["agent"]["think"]["provider"].update(model="llama")),
            "INVALID_SETTINGS",
            "not managed",
        ),
        (
            changed(lambda s: s["agent"]["listen"]["provider"].update(eot_threshold=0.1)),
            "INVALID_SETTINGS",
            "eot_threshold",
        ),
        (
            changed(lambda s: s["audio"]["output"].update(sample_rate=44100)),
            "INVALID_SETTINGS",
            "audio.output",
        ),
    ],
)
async def test_settings_that_the_service_does_not_take(
    settings: dict[str, Any], code: str, words: str
) -> None:
    async with client() as (caller, emulator):
        await caller.introduce(settings)
        error = await caller.until("Error")
        assert error["code"] == code
        assert words in error["description"]
        with pytest.raises(ConnectionClosed):
            await caller.connection.recv()
        assert len(emulator.violations) == 1


async def test_nothing_may_be_said_before_welcome_and_nothing_but_settings_after() -> None:
    async with client() as (caller, _):
        await caller.send(**SETTINGS)
        assert (await caller.until("Error"))["description"] == "before Welcome"
    async with client() as (caller, _):
        await caller.until("Welcome")
        await caller.send(type="KeepAlive")
        assert (await caller.until("Error"))["code"] == "NON_SETTINGS_MESSAGE_BEFORE_SETTINGS"
    async with client() as (caller, _):
        await caller.until("Welcome")
        await caller.connection.send(b"\xff" * 160)
        assert (await caller.until("Error"))["code"] == "NON_SETTINGS_MESSAGE_BEFORE_SETTINGS"


async def test_settings_come_once() -> None:
    async with client() as (caller, _):
        await caller.introduce()
        await caller.until("SettingsApplied")
        await caller.send(**SETTINGS)
        assert (await caller.until("Error"))["code"] == "SETTINGS_ALREADY_APPLIED"


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ({"type": "Nonsense"}, "UNPARSABLE_CLIENT_MESSAGE"),
        ({"type": "InjectAgentMessage", "content": "Hi."}, "UNPARSABLE_CLIENT_MESSAGE"),
        (
            {"type": "FunctionCallResponse", "name": "weather", "content": "x"},
            "UNPARSABLE_CLIENT_MESSAGE",
        ),
        (
            {"type": "FunctionCallResponse", "id": "call_1", "name": "other", "content": "x"},
            "NON_EXISTENT_FUNCTION_CALLED",
        ),
    ],
)
async def test_messages_that_the_service_does_not_take(message: dict[str, Any], code: str) -> None:
    async with client(Script((Answer(asks=(Use("weather"),)),))) as (caller, emulator):
        await caller.introduce()
        await caller.send(type="InjectUserMessage", content="Is it sunny?")
        await caller.until("FunctionCallRequest")
        await caller.send(**message)
        assert (await caller.until("Error"))["code"] == code
        assert len(emulator.violations) == 1


async def test_it_waits_for_every_answer_and_takes_each_once() -> None:
    script = Script((Answer(asks=(Use("weather", {"at": 1}), Use("weather", {"at": 2}))),))
    async with client(script) as (caller, emulator):
        await caller.introduce()
        await caller.send(type="InjectUserMessage", content="Is it sunny?")
        first, second = (await caller.until("FunctionCallRequest"))["functions"]
        answer = {"type": "FunctionCallResponse", "name": "weather"}
        await caller.send(**answer, id=second["id"], content="Rainy.")
        await caller.send(**answer, id=second["id"], content="Windy.")
        assert (await caller.until("Warning"))["code"] == "FUNCTION_CALL_FAILED"
        await asyncio.sleep(0.1)
        assert [said for said in emulator.sent if said.get("role") == "assistant"] == []
        await caller.send(**answer, id=first["id"], content='{"message": "Sunny."}')
        assert (await caller.until("ConversationText"))["content"] == "Sunny. Rainy."
        assert len(emulator.violations) == 1


async def test_a_wrong_key_and_a_busy_service_are_told_by_http() -> None:
    async with DeepgramAgentEmulator(Script(faults=(Fault("connect", "refuse", 429),))) as emulator:
        address = f"{emulator.url.replace('http', 'ws', 1)}/v1/agent/converse"
        for key, status in (("wrong", 401), (emulator.key, 429)):
            header = {"Authorization": f"Token {key}"}
            with pytest.raises(InvalidStatus) as refused:
                await connect(address, additional_headers=header)
            assert refused.value.response.status_code == status
