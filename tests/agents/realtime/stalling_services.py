"""Services of all four protocols that stall where a test wants it, without sockets: in virtual
time.

    service = StallingService("deepgram", "turn")
        stage = play_call(...)

A `Wire` says in a vendor's messages what a service has to say; `StallingService` says it at the
pace of a conversation. Its first connection stalls for good, the connection staying open; each
later one takes the caller's turn to have been told again, and answers it.
"""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from typing import Any, Literal, Protocol, TypeAlias

from cordboard.agent_api.provider import Parts
from cordboard.agents.making import make
from cordboard.agents.realtime.agent import RealtimeAgent, RealtimeParts
from cordboard.agents.realtime.reconnecting import Connect
from cordboard.config.sections.realtime import RealtimeProvider
from cordboard.net.service_websocket import Receiver
from cordboard.vendors.deepgram.config import DeepgramAgentProvider
from cordboard.vendors.elevenlabs.config import ElevenLabsAgentProvider
from cordboard.vendors.gemini.config import GeminiLiveProvider
from cordboard.vendors.openai.config import OpenAIRealtimeProvider
from cordboard_testkit.fake_pipeline import TalkingClock

Stall: TypeAlias = Literal["session", "greeting", "notice", "turn", "answer", "sound", "never"]
"""What the first connection does not come to: to accept the session, to greet, to notice the
caller, to tell that their turn is over, to answer, to say the second half of its answer."""
THINKS, ENDPOINT = 0.7, 0.6
QUESTION, ANSWER = "What is new?", "This is an answer of quite some words, as one may see."
HALF_MS = 1800
"""Of the answer's sound."""


class Wire(Protocol):
    """How a service says things: messages, text or sound."""

    settings: RealtimeProvider

    def welcome(self) -> list[str | bytes]: ...

    def accepted(self) -> list[str | bytes]: ...

    def noticed(self) -> list[str | bytes]: ...

    def turn(self) -> list[str | bytes]: ...

    def words(self, text: str) -> list[str | bytes]: ...

    def sound(self, ms: int) -> list[str | bytes]: ...

    def done(self) -> list[str | bytes]: ...


def message(**content: Any) -> list[str | bytes]:
    return [json.dumps(content)]


class OpenAI:
    settings = OpenAIRealtimeProvider.model_validate({"type": "openai_realtime"})

    def __init__(self) -> None:
        self._number = 0

    def welcome(self) -> list[str | bytes]:
        return message(type="session.created", event_id="e0", session={})

    def accepted(self) -> list[str | bytes]:
        return message(type="session.updated", event_id="e1", session={})

    def noticed(self) -> list[str | bytes]:
        self._number += 1
        kind = "input_audio_buffer.speech_started"
        return message(type=kind, item_id=f"u{self._number}", audio_start_ms=0)

    def turn(self) -> list[str | bytes]:
        item = f"u{self._number}"
        kind = "conversation.item.input_audio_transcription.completed"
        return [
            *message(type="input_audio_buffer.speech_stopped", item_id=item, audio_end_ms=0),
            *message(type=kind, item_id=item, content_index=0, transcript=QUESTION),
        ]

    def words(self, text: str) -> list[str | bytes]:
        self._number += 1
        self._response = f"r{self._number}"
        return [
            *message(type="response.created", response={"id": self._response}),
            *message(
                type="response.output_audio_transcript.delta",
                response_id=self._response,
                item_id="i",
                delta=text,
            ),
        ]

    def sound(self, ms: int) -> list[str | bytes]:
        delta = base64.b64encode(b"\x02" * 8 * ms).decode()
        kind = "response.output_audio.delta"
        return message(type=kind, response_id=self._response, item_id="i", delta=delta)

    def done(self) -> list[str | bytes]:
        return message(type="response.done", response={"id": self._response, "status": "completed"})


class Deepgram:
    settings = DeepgramAgentProvider.model_validate({"type": "deepgram_agent"})

    def welcome(self) -> list[str | bytes]:
        return message(type="Welcome", request_id="r")

    def accepted(self) -> list[str | bytes]:
        return message(type="SettingsApplied")

    def noticed(self) -> list[str | bytes]:
        return message(type="UserStartedSpeaking")

    def turn(self) -> list[str | bytes]:
        return message(type="ConversationText", role="user", content=QUESTION)

    def words(self, text: str) -> list[str | bytes]:
        return message(type="ConversationText", role="assistant", content=text)

    def sound(self, ms: int) -> list[str | bytes]:
        return [b"\x02\x02" * 8 * ms]

    def done(self) -> list[str | bytes]:
        return message(type="AgentAudioDone")


class Gemini:
    settings = GeminiLiveProvider.model_validate({"type": "gemini_live"})

    def welcome(self) -> list[str | bytes]:
        return []

    def accepted(self) -> list[str | bytes]:
        return message(setupComplete={})

    def noticed(self) -> list[str | bytes]:
        """It says so with the first words."""
        return message(serverContent={"inputTranscription": {"text": QUESTION}})

    def turn(self) -> list[str | bytes]:
        """Of this it says nothing."""
        return []

    def words(self, text: str) -> list[str | bytes]:
        return message(serverContent={"outputTranscription": {"text": text}})

    def sound(self, ms: int) -> list[str | bytes]:
        data = base64.b64encode(b"\x02\x02" * 24 * ms).decode()
        blob = {"mimeType": "audio/pcm;rate=24000", "data": data}
        return message(serverContent={"modelTurn": {"parts": [{"inlineData": blob}]}})

    def done(self) -> list[str | bytes]:
        return message(serverContent={"generationComplete": True, "turnComplete": True})


class ElevenLabs:
    settings = ElevenLabsAgentProvider.model_validate(
        {"type": "elevenlabs_agent", "agent_id": "a", "requires_auth": False}
    )

    def __init__(self) -> None:
        self._number = 0

    def _event(self, kind: str, key: str, **content: Any) -> list[str | bytes]:
        self._number += 1
        return message(type=kind, **{key: {**content, "event_id": self._number}})

    def welcome(self) -> list[str | bytes]:
        return []

    def accepted(self) -> list[str | bytes]:
        return self._event(
            "conversation_initiation_metadata",
            "conversation_initiation_metadata_event",
            agent_output_audio_format="pcm_8000",
            user_input_audio_format="pcm_8000",
        )

    def noticed(self) -> list[str | bytes]:
        key = "tentative_user_transcription_event"
        return self._event("tentative_user_transcript", key, user_transcript="What")

    def turn(self) -> list[str | bytes]:
        key = "user_transcription_event"
        return self._event("user_transcript", key, user_transcript=QUESTION)

    def words(self, text: str) -> list[str | bytes]:
        return self._event("agent_response", "agent_response_event", agent_response=text)

    def sound(self, ms: int) -> list[str | bytes]:
        self._number += 1  # each piece is another one
        coded = base64.b64encode(bytes([self._number % 200, 2]) * 8 * ms).decode()
        return self._event("audio", "audio_event", audio_base_64=coded)

    def done(self) -> list[str | bytes]:
        return self._event("agent_response_complete", "agent_response_complete_event")


WIRES: dict[str, type[OpenAI] | type[Deepgram] | type[Gemini] | type[ElevenLabs]] = {
    "openai": OpenAI,
    "deepgram": Deepgram,
    "gemini": Gemini,
    "elevenlabs": ElevenLabs,
}


class StallingService:
    """All connections of one call to one service."""

    def __init__(self, protocol: str, stall: Stall, thinks: float = THINKS, **values: Any) -> None:
        """`values`: settings of the provider."""
        self.wire: Wire = WIRES[protocol]()
        self._settings = self.wire.settings.model_copy(update=values)
        self.stall = stall
        self.thinks = thinks
        self.connections: list[StallingConnection] = []
        self.answered = False

    def agent(self, connect: Connect | None = None) -> RealtimeAgent:
        settings = self._settings
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        parts = RealtimeParts(tls, TalkingClock(), connection=connect or self.connect)
        return RealtimeAgent(
            make("agent", settings, Parts("key")), settings, str(settings.type), parts
        )

    def connect(self, address: object, peer: str) -> StallingConnection:
        """Instead of `ServiceConnection`."""
        connection = StallingConnection(self, first=not self.connections)
        self.connections.append(connection)
        return connection

    async def caller_began(self) -> None:
        await self.connections[-1].say("notice", self.wire.noticed())

    async def caller_finished(self) -> None:
        await asyncio.sleep(ENDPOINT)
        await self.connections[-1].answer_turn()


class StallingConnection:
    """Has what `link` wants of a `ServiceConnection`."""

    congested = False
    alive = True

    def __init__(self, service: StallingService, *, first: bool) -> None:
        self._service = service
        self._stalls_at: Stall = service.stall if first else "never"
        self._first = first
        self._stalled = False
        self._receiver: Receiver | None = None
        self._life: asyncio.Task[None] | None = None
        self._introduced = asyncio.Event()

    async def open(self, tls: object, seconds: float) -> None:
        """At once."""

    def take(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._life = asyncio.get_running_loop().create_task(self._live())

    def send_text(self, message: bytes) -> None:
        self._introduced.set()
        told = json.loads(message)
        if told.get("type") == "InjectAgentMessage":  # of Deepgram: say this
            wire = self._service.wire
            self._receive(wire.words(told["message"]) + wire.sound(600) + wire.done())

    def send_binary(self, data: bytes) -> None:
        """Heard."""

    def abort(self) -> None:
        self._receiver = None
        if self._life is not None:
            self._life.cancel()

    async def close(self) -> None:
        self.abort()

    def lose(self, code: int, problem: str) -> None:
        """The service closes it."""
        receiver = self._receiver
        self.abort()
        if receiver is not None:
            receiver.connection_lost(code, problem)

    async def say(self, at: Stall, messages: list[str | bytes], after: float = 0.02) -> None:
        """Say it, unless this is where it stalls, or has stalled before."""
        self._stalled = self._stalled or at == self._stalls_at
        await asyncio.sleep(after)
        self._receive(messages)

    def _receive(self, messages: list[str | bytes]) -> None:
        for each in messages:
            if self._stalled or self._receiver is None:
                return
            if isinstance(each, bytes):
                self._receiver.receive_binary(each)
            else:
                self._receiver.receive_text(each.encode())

    async def answer_turn(self) -> None:
        wire = self._service.wire
        await self.say("turn", wire.turn())
        await self.answer()

    async def answer(self) -> None:
        wire = self._service.wire
        await self.say("answer", wire.words(ANSWER), self._service.thinks)
        await self.say("answer", wire.sound(HALF_MS))
        await self.say("sound", wire.sound(HALF_MS), 0.2)
        await self.say("sound", wire.done())
        self._service.answered = not self._stalled

    async def _live(self) -> None:
        service, wire = self._service, self._service.wire
        await self.say("session", wire.welcome())
        await self._introduced.wait()
        await self.say("session", wire.accepted(), 0.1)
        if self._first or service.stall in ("session", "greeting"):
            await self.say("greeting", wire.words("Good morning."), 0.3)
            await self.say("greeting", wire.sound(800))
            await self.say("greeting", wire.done())
            return
        await asyncio.sleep(service.thinks)
        if service.stall in ("notice", "turn"):  # nothing was written down: it hears them again
            await self.say("notice", wire.noticed())
            await self.say("turn", wire.turn())
        await self.answer()
