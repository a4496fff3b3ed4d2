"""A service with the simplest protocol there can be, and its protocol, to test the shell."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Callable
from typing import Any

import websockets
from websockets.asyncio.server import ServerConnection, serve

from cordboard.agent_api.agent import AgentEvent, AgentSession, Interrupted
from cordboard.agent_api.service_protocol import CutItem, Lost, ProtocolHost, Resumed
from cordboard.agent_api.speech import Speech
from cordboard.agents.realtime.agent import RealtimeAgent, RealtimeParts
from cordboard.agents.realtime.greetings import GreetingCache
from cordboard.audio.format import ULAW_8K, AudioFormat
from cordboard.config.conversation import BargeIn
from cordboard.config.sections.realtime import RealtimeProvider
from cordboard.net.service_websocket import Address, ServiceConnection
from cordboard.tools.payload import DEFAULT_LIMITS
from cordboard.tools.tool import ToolReply

READY = json.dumps({"do": "ready"})


class PlainService:
    """Accepts every session, keeps what it is told, and says what the test wants said."""

    def __init__(self) -> None:
        self.port = 0
        self.connections: list[ServerConnection] = []
        self.told: list[dict[str, Any]] = []
        self.sound = bytearray()
        self.accepts = True
        self.refuse_with: list[int] = []
        """HTTP statuses for the next connections; 0 = let it in."""
        self._news = asyncio.Event()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[PlainService]:
        async with serve(
            self._serve, "127.0.0.1", 0, process_request=self._refuse, compression=None
        ) as server:
            self.port = next(iter(server.sockets)).getsockname()[1]
            yield self

    async def say(self, **message: Any) -> None:
        await self.connections[-1].send(json.dumps(message))

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until something that it was told makes this true."""
        async with asyncio.timeout(60):
            while not condition():
                self._news.clear()
                await self._news.wait()

    async def until_connected(self, count: int) -> None:
        await self.until(lambda: len(self.connections) >= count)

    def of(self, what: str) -> list[dict[str, Any]]:
        return [message for message in self.told if message["do"] == what]

    def _refuse(self, connection: ServerConnection, _: Any) -> Any:
        status = self.refuse_with.pop(0) if self.refuse_with else 0
        return connection.respond(status, "no") if status else None

    async def _serve(self, connection: ServerConnection) -> None:
        self.connections.append(connection)
        self._news.set()
        with contextlib.suppress(websockets.ConnectionClosed):
            async for message in connection:
                if self._hear(message):
                    await connection.send(READY)

    def _hear(self, message: str | bytes) -> bool:
        """Keep what it is told; True if it accepts a session by it."""
        self._news.set()
        if isinstance(message, bytes):
            self.sound += message
            return False
        self.told.append(json.loads(message))
        return self.told[-1]["do"] == "begin" and self.accepts


class MemoryService(PlainService):
    """The same without a socket, for virtual time."""

    opens_within = 0.0
    """Seconds that a connection takes to open."""

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[MemoryService]:
        yield self

    def connect(self, address: object, peer: str) -> MemoryConnection:
        """Instead of `ServiceConnection`."""
        return MemoryConnection(self)

    def connected(self, connection: MemoryConnection) -> None:
        self.connections.append(connection)  # type: ignore[arg-type]
        self._news.set()

    def hear(self, connection: MemoryConnection, message: str | bytes) -> None:
        if self._hear(message):
            connection.arrive(READY)


class MemoryConnection:
    """Both ends at once: of a `ServiceConnection`, and what a test wants of the service's end."""

    congested = False
    alive = True

    def __init__(self, service: MemoryService) -> None:
        self._service = service
        self._loop = asyncio.get_running_loop()
        self._receiver: Any = None

    async def open(self, tls: object, seconds: float) -> None:
        if self._service.opens_within:
            await asyncio.sleep(self._service.opens_within)
        self._service.connected(self)

    def take(self, receiver: Any) -> None:
        self._receiver = receiver

    def send_text(self, message: bytes) -> None:
        self._loop.call_soon(self._service.hear, self, message.decode())

    def send_binary(self, data: bytes) -> None:
        self._loop.call_soon(self._service.hear, self, data)

    def abort(self) -> None:
        self.alive, self._receiver = False, None

    async def close(self, code: int | None = None) -> None:
        """By the service, with a code; by the engine, without."""
        receiver = self._receiver
        self.abort()
        if receiver is not None and code is not None:
            self._loop.call_soon(receiver.connection_lost, code, "")

    async def send(self, message: str) -> None:
        self.arrive(message)
        await asyncio.sleep(0)

    def arrive(self, message: str) -> None:
        if self._receiver is not None:
            self._loop.call_soon(self._receiver.receive_text, message.encode())


class PlainProtocol:
    """Implements `realtime.protocol.ServiceProtocol`."""

    formats: tuple[AudioFormat, ...] = (ULAW_8K,)
    payload = DEFAULT_LIMITS
    keep_alive_s = 0.0

    def __init__(self, port: int) -> None:
        self._port = port
        self.speaks_greeting = True
        self.speaks_words = False
        self._given: list[Speech] = []
        self.losses: list[tuple[int | None, int | None]] = []
        self.prompt = ""
        """Of the last session."""

    async def address(self) -> Address:
        return Address(f"ws://127.0.0.1:{self._port}/")

    def begin(self, session: AgentSession, host: ProtocolHost, resumed: Resumed | None) -> None:
        self._host = host
        self._given.clear()  # the new connection knows nothing of them
        history = [[said.who, said.text] for said in resumed.history] if resumed else []
        self.prompt = session.prompt
        self._tell("begin", history=history, owes=bool(resumed and resumed.owes_answer))

    def receive_text(self, message: bytes) -> None:
        told = json.loads(message)
        host, do = self._host, told.pop("do")
        match do:
            case "sound":
                host.agent_sound(b"\x01" * (8 * told["ms"]), told.get("item", ""))
            case "words":
                host.agent_speech(self._spoken_now(told["text"]))
                host.agent_words(told["text"])
            case "unsaid":
                host.unsaid(self._given.pop(0))
            case "tool":
                host.tool_asked(told["id"], told["name"], told["arguments"])
            case "unask":
                host.tool_cancelled(told["id"])
            case "failed":
                host.failed(told["kind"], told["reason"])
            case _:
                getattr(host, do)(**told)

    def _spoken_now(self, words: str) -> Speech | None:
        """This service cannot tag its sentences: it knows the engine's by their words."""

        def plain(text: str) -> str:
            return "".join(sign for sign in text.lower() if sign.isalpha())

        for speech in self._given:
            if plain(speech.text) == plain(words):
                self._given.remove(speech)
                return speech
        return None

    def receive_binary(self, data: bytes) -> None:
        self._host.ignored("unknown")

    def hear(self, sound: bytes) -> None:
        self._host.send_binary(sound)

    def answer_tool(self, reply: ToolReply) -> None:
        self._tell("result", id=reply.ask_id, message=reply.message)

    def interrupted(self, cut: tuple[CutItem, ...]) -> None:
        self._tell("cut", items=[[item.item, item.heard_ms] for item in cut])

    def speak(self, speech: Speech) -> bool:
        if self.speaks_words:
            self._given.append(speech)
            self._tell("speak", text=speech.text)
        return self.speaks_words

    def inform(self, text: str) -> bool:
        self._tell("inform", text=text)
        return True

    def take_note(self, text: str) -> bool:
        self._tell("note", text=text)
        return True

    def listen_aside(self, on: bool) -> bool:
        self._tell("aside", on=on)
        return True

    def lost(self, status: int | None, code: int | None, problem: str) -> Lost:
        self.losses.append((status, code))
        if status == 401:
            return Lost("auth", "wrong key", again=False)
        return Lost("dropped", f"code {code}", again=True)

    def keep_alive(self) -> None:
        self._tell("keep_alive")

    def goodbye(self) -> None:
        self._tell("goodbye")

    def _tell(self, do: str, **fields: Any) -> None:
        self._host.send_text(json.dumps({"do": do} | fields).encode())


class Caller:
    """The call's side: takes the events, and behaves like a call when it is interrupted."""

    def __init__(self, greeting: str = "", toolbox: tuple[Any, ...] = ()) -> None:
        self.events: list[AgentEvent] = []
        self.agent: RealtimeAgent | None = None
        self.speaking = False
        self.heard = ("", 0, 0)
        """What it says was heard when it is interrupted."""
        self._news = asyncio.Event()
        self.session = AgentSession(
            call_id="c1",
            context_name="demo",
            prompt="Be kind.",
            greeting=greeting,
            toolbox=toolbox,
            format=ULAW_8K,
            emit=self._take,
            speaking=lambda: self.speaking,
        )

    def _take(self, event: AgentEvent) -> None:
        self.events.append(event)
        if isinstance(event, Interrupted) and self.agent is not None:
            self.speaking = False
            self.agent.interrupted(*self.heard)
        self._news.set()

    def of(self, kind: type) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    async def until(self, kind: type, count: int = 1) -> Any:
        """The event of that kind, once there are so many."""
        async with asyncio.timeout(60):
            while len(self.of(kind)) < count:
                self._news.clear()
                await self._news.wait()
        return self.of(kind)[count - 1]


def agent_for(
    protocol: PlainProtocol,
    voice: Any = None,
    barge_in: BargeIn = "on",
    greetings: GreetingCache | None = None,
    warm: Callable[[], ServiceConnection | None] = lambda: None,
    connection: Any = ServiceConnection,
    **settings: Any,
) -> RealtimeAgent:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    provider = RealtimeProvider.model_validate({"type": "plain"} | settings)
    parts = RealtimeParts(tls, voice, None, greetings, warm, connection)
    return RealtimeAgent(protocol, provider, "plain", parts, barge_in)


@contextlib.asynccontextmanager
async def talking(
    voice: Any = None,
    greeting: str = "",
    barge_in: BargeIn = "on",
    speaks_words: bool = False,
    in_memory: bool = False,
    **settings: Any,
) -> AsyncIterator[tuple[PlainService, Caller, RealtimeAgent, PlainProtocol]]:
    """A call that goes on. `in_memory`: without a socket, for virtual time."""
    plain = MemoryService() if in_memory else PlainService()
    async with plain.running() as service:
        if isinstance(service, MemoryService):
            settings["connection"] = service.connect
        protocol = PlainProtocol(service.port)
        protocol.speaks_words = speaks_words
        caller = Caller(greeting)
        agent = caller.agent = agent_for(protocol, voice, barge_in, **settings)
        await agent.start(caller.session)
        try:
            yield service, caller, agent, protocol
        finally:
            await agent.close()
