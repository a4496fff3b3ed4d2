"""Cost of reading and writing one message: our protocols, and the vendors' own SDKs.

The same bytes go to both, from a connection that is only a list: no socket, no waiting. The SDKs
are used as their documentation shows it. Of ElevenLabs' SDK the conversation's message loop is
repeated here (`json.loads`, then its own handler), because it opens its socket itself.
"""

from __future__ import annotations

import base64
import json
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from bench.providers.lines import settings_of
from bench.providers.wires import KEY, SLIN_FRAME, ULAW_FRAME, WIRES, Message, Wire
from cordboard.agent_api.agent import AgentSession
from cordboard.agent_api.provider import Parts
from cordboard.agent_api.service_protocol import ServiceProtocol
from cordboard.agent_api.speech import Speech
from cordboard.agents.making import make
from cordboard.errors import AgentError, FailureKind
from cordboard.tools.tool import JsonObject

ROUNDS, EACH = 9, 1_000
"""The median of the rounds counts."""
_PCM_16K = SLIN_FRAME * 2


@dataclass(frozen=True, slots=True)
class Costs:
    """Microseconds for one message."""

    service: str
    who: str
    sound_in: float
    words_in: float
    sound_out: float


class Host:
    """Implements `protocol.ProtocolHost`: takes everything and does nothing."""

    def __init__(self) -> None:
        self.sounds = 0

    def now(self) -> float:
        return 1000.0

    def send_text(self, message: bytes) -> None: ...

    def send_binary(self, data: bytes) -> None: ...

    def ready(self) -> None: ...

    def reconnect(self, reason: str) -> None: ...

    def failed(self, kind: FailureKind, reason: str) -> None:
        raise AgentError(reason, kind)

    def ended(self, reason: str) -> None: ...

    def unsaid(self, speech: Speech) -> None: ...

    def agent_speech(self, speech: Speech | None) -> None: ...

    def ignored(self, why: str, detail: str = "") -> None:
        raise AgentError(f"a message of the benchmark is {why}: {detail}")

    def caller_started(self, at: float | None = None) -> None: ...

    def caller_stopped(self, last_speech_at: float | None = None) -> int:
        return 1

    def caller_text(self, text: str, turn: int | None = None) -> None: ...

    def agent_words(self, text: str) -> None: ...

    def agent_sound(self, sound: bytes, item: str = "") -> None:
        self.sounds += 1

    def answer_done(self) -> None: ...

    def interrupted(self) -> None: ...

    def tool_asked(self, call_id: str, name: str, arguments: JsonObject) -> None: ...

    def tool_cancelled(self, call_id: str) -> None: ...

    def used(self, model: str, amounts: Mapping[str, float]) -> None: ...


class Scripted:
    """A websocket connection that is only a list of messages, for the SDKs."""

    def __init__(self) -> None:
        self._messages: list[bytes | str] = []
        self._at = 0

    def load(self, messages: list[bytes | str]) -> None:
        self._messages, self._at = messages, 0

    async def recv(self, decode: bool | None = None) -> bytes | str:
        message = self._messages[self._at]
        self._at += 1
        if decode is False and isinstance(message, str):
            return message.encode()
        return message

    async def send(self, message: bytes | str) -> None: ...

    async def close(self, code: int = 1000, reason: str = "") -> None: ...


async def measure() -> list[Costs]:
    """Raises `AgentError` when a message is not understood."""
    costs = []
    for name, wire in WIRES.items():
        costs.append(_ours(name, wire))
        socket = Scripted()
        read, write = await _SDKS[name](socket)
        sound_in = await _reading(socket, wire.sound, read)
        words_in = await _reading(socket, wire.words, read)
        costs.append(Costs(name, "the vendor's SDK", sound_in, words_in, await _writing(write)))
    return costs


def _ours(name: str, wire: Wire) -> Costs:
    protocol, host = make("agent", settings_of(wire, "http://127.0.0.1:9"), Parts(KEY)), Host()
    session = AgentSession(
        call_id="call-1",
        context_name="bench",
        prompt="You are a telephone agent.",
        greeting="",
        toolbox=(),
        format=wire.format,
        emit=lambda event: None,
        speaking=lambda: False,
    )
    protocol.begin(session, host, None)
    for message in (*wire.welcome, *wire.accepted):
        _give(protocol, message)

    def reads(make: Callable[[int], Message], first: int) -> float:
        messages = [make(first + number) for number in range(ROUNDS * EACH)]
        rounds = []
        for start in range(0, len(messages), EACH):
            part = messages[start : start + EACH]
            began = time.perf_counter()
            for message in part:
                _give(protocol, message)
            rounds.append((time.perf_counter() - began) / EACH)
        return statistics.median(rounds) * 1e6

    sound_in = reads(wire.sound, 1)
    if host.sounds < ROUNDS * EACH:
        raise AgentError(f"{name}: not every sound was heard")
    words_in, rounds = reads(wire.words, ROUNDS * EACH + 1), []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        for _ in range(EACH):
            protocol.hear(wire.frame)
        rounds.append((time.perf_counter() - began) / EACH)
    return Costs(name, "our protocol", sound_in, words_in, statistics.median(rounds) * 1e6)


def _give(protocol: ServiceProtocol, message: Message) -> None:
    binary, content = message
    if binary:
        protocol.receive_binary(content)
    else:
        protocol.receive_text(content)


async def _reading(
    socket: Scripted, make: Callable[[int], Message], read: Callable[[], Awaitable[object]]
) -> float:
    rounds = []
    for turn in range(ROUNDS):
        made = [make(turn * EACH + number + 1) for number in range(EACH)]
        socket.load([content if binary else content.decode() for binary, content in made])
        began = time.perf_counter()
        for _ in range(EACH):
            await read()
        rounds.append((time.perf_counter() - began) / EACH)
    return statistics.median(rounds) * 1e6


async def _writing(write: Callable[[], Awaitable[None]]) -> float:
    rounds = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        for _ in range(EACH):
            await write()
        rounds.append((time.perf_counter() - began) / EACH)
    return statistics.median(rounds) * 1e6


# The SDKs, imported when they are measured.

_Both = tuple[Callable[[], Awaitable[object]], Callable[[], Awaitable[None]]]


async def _openai(socket: Any) -> _Both:
    from openai.resources.realtime.realtime import AsyncRealtimeConnection

    connection = AsyncRealtimeConnection(socket)

    async def write() -> None:
        await connection.input_audio_buffer.append(audio=base64.b64encode(ULAW_FRAME).decode())

    return connection.recv, write


async def _deepgram(socket: Any) -> _Both:
    from deepgram.agent.v1.socket_client import AsyncV1SocketClient

    connection = AsyncV1SocketClient(websocket=socket)

    async def write() -> None:
        await connection.send_media(ULAW_FRAME)

    return connection.recv, write


async def _elevenlabs(socket: Any) -> _Both:
    from elevenlabs.client import ElevenLabs
    from elevenlabs.conversational_ai.conversation import AsyncAudioInterface, AsyncConversation

    class Loudspeaker(AsyncAudioInterface):
        async def start(self, input_callback: Any) -> None: ...

        async def stop(self) -> None: ...

        async def output(self, audio: bytes) -> None: ...

        async def interrupt(self) -> None: ...

    async def words(text: str) -> None: ...

    conversation = AsyncConversation(
        ElevenLabs(api_key=KEY),
        "agent_1",
        requires_auth=False,
        audio_interface=Loudspeaker(),
        callback_agent_response=words,
    )

    handle: Any = conversation._handle_message

    async def read() -> None:
        message = json.loads(await socket.recv())
        await handle(message, socket)

    async def write() -> None:
        coded = base64.b64encode(ULAW_FRAME).decode()
        await socket.send(json.dumps({"user_audio_chunk": coded}))

    return read, write


async def _gemini(socket: Any) -> _Both:
    from google import genai
    from google.genai import live, types

    session = live.AsyncSession(api_client=genai.Client(api_key=KEY)._api_client, websocket=socket)
    messages: AsyncIterator[Any] = session.receive()

    async def write() -> None:
        blob = types.Blob(data=_PCM_16K, mime_type="audio/pcm;rate=16000")
        await session.send_realtime_input(audio=blob)

    async def read() -> object:
        return await anext(messages)

    return read, write


_SDKS: Mapping[str, Callable[[Any], Awaitable[_Both]]] = {
    "openai": _openai,
    "deepgram": _deepgram,
    "elevenlabs": _elevenlabs,
    "gemini": _gemini,
}
