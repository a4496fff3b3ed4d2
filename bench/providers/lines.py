"""The lines of the benchmark: calls of the adapter, and two floors below it, with one interface.

    AdapterLine    `RealtimeAgent` with the service's protocol, as a call has it
    OwnSocketLine  the adapter's own connection (`net.service_websocket`), and nothing above it
    BareLine       the `websockets` library as its documentation shows it: a task that receives
                   on each, one that sends on all: the floor

Each sends a frame on request and records the time; each records the arrival of audio.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Sequence
from typing import Protocol

from websockets.asyncio.client import ClientConnection, connect

from bench.providers.wires import KEY, Wire
from cordboard.agent_api.agent import (
    AgentAudio,
    AgentEvent,
    AgentFailed,
    AgentSession,
    AgentTrouble,
    Interrupted,
)
from cordboard.agent_api.provider import Parts
from cordboard.agents.making import make
from cordboard.agents.realtime.agent import RealtimeAgent, RealtimeParts
from cordboard.config.sections.realtime import RealtimeProvider
from cordboard.errors import AgentError
from cordboard.net.service_websocket import Address, ServiceConnection
from cordboard.vendors.deepgram.config import DeepgramAgentProvider
from cordboard.vendors.elevenlabs.config import ElevenLabsAgentProvider
from cordboard.vendors.gemini.config import GeminiLiveProvider
from cordboard.vendors.openai.config import OpenAIRealtimeProvider

HEARD_MS = 60
"""The heard text that the calls report for a cut answer."""
_PROVIDERS: Sequence[type[RealtimeProvider]] = (
    OpenAIRealtimeProvider,
    DeepgramAgentProvider,
    ElevenLabsAgentProvider,
    GeminiLiveProvider,
)


def settings_of(wire: Wire, base_url: str) -> RealtimeProvider:
    """The provider's configuration."""
    for provider in _PROVIDERS:
        if wire.kind in str(provider.model_fields["type"].annotation):
            values = {"type": wire.kind, "base_url": base_url, **wire.settings}
            return provider.model_validate(values)
    raise ValueError(f"no provider is of type {wire.kind}")


class Line(Protocol):
    """One call's way to the service."""

    heard: list[float]
    """Time at which each frame was handed to it, by `time.monotonic`."""
    sounded: list[float]
    """Arrival time of each piece of audio."""

    async def open(self) -> None: ...

    def hear(self) -> None:
        """Send 20 ms of the caller."""
        ...

    async def close(self) -> None: ...


class AdapterLine:
    """Implements `Line`. It is the call, too: it takes the agent's events."""

    def __init__(self, wire: Wire, service: str, call: int, tls: ssl.SSLContext) -> None:
        self.heard: list[float] = []
        self.sounded: list[float] = []
        self.cuts: list[float] = []
        """Seconds from `Interrupted` until the protocol had been notified and had sent its
        message."""
        self.troubles: list[str] = []
        self._speaking = False
        self._turn = 0
        settings = settings_of(wire, f"{service}/{call}")
        self._agent = RealtimeAgent(
            make("agent", settings, Parts(KEY)), settings, wire.kind, RealtimeParts(tls)
        )
        self._frame = wire.frame
        self._session = AgentSession(
            call_id=f"call-{call}",
            context_name="bench",
            prompt="You are a telephone agent.",
            greeting="",
            toolbox=(),
            format=wire.format,
            emit=self._take,
            speaking=lambda: self._speaking,
        )

    async def open(self) -> None:
        await self._agent.prepare()
        await self._agent.start(self._session)

    def hear(self) -> None:
        self.heard.append(time.monotonic())
        self._agent.hear(self._frame)

    async def close(self) -> None:
        await self._agent.close()

    def _take(self, event: AgentEvent) -> None:
        if isinstance(event, AgentAudio):
            self.sounded.append(time.monotonic())
            self._speaking, self._turn = True, event.turn
        elif isinstance(event, Interrupted):
            began = time.monotonic()
            self._speaking = False
            self._agent.interrupted("", HEARD_MS, self._turn)
            self.cuts.append(time.monotonic() - began)
        elif isinstance(event, (AgentTrouble, AgentFailed)):
            self.troubles.append(str(event))


class OwnSocketLine:
    """Implements `Line`, and `net.service_websocket.Receiver`."""

    def __init__(self, wire: Wire, service: str, call: int, tls: ssl.SSLContext) -> None:
        self.heard: list[float] = []
        self.sounded: list[float] = []
        self._tls = tls
        self._wire = wire
        address = Address("ws" + service.removeprefix("http") + f"/{call}/")
        self._connection = ServiceConnection(address, "the bench")
        self._before = len(wire.welcome) + len(wire.accepted)
        self._ready = asyncio.Event()

    async def open(self) -> None:
        await self._connection.open(self._tls, 5)
        self._connection.take(self)
        self._connection.send_text(b"{}")
        await self._ready.wait()

    def hear(self) -> None:
        self.heard.append(time.monotonic())
        binary, content = self._wire.caller
        if binary:
            self._connection.send_binary(content)
        else:
            self._connection.send_text(content)

    async def close(self) -> None:
        await self._connection.close()

    def receive_text(self, message: bytes) -> None:
        if self._before:
            self._before -= 1
            if not self._before:
                self._ready.set()
        else:
            self.sounded.append(time.monotonic())

    receive_binary = receive_text

    def connection_lost(self, code: int | None, problem: str) -> None:
        raise AgentError(f"the connection was lost: {problem}", "dropped")


class BareSender:
    """Sends the due frames of all bare lines, in one task."""

    def __init__(self) -> None:
        self._due: list[BareLine] = []
        self._news = asyncio.Event()
        self._task = asyncio.create_task(self._run())

    def send(self, line: BareLine) -> None:
        self._due.append(line)
        self._news.set()

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.wait((self._task,))

    async def _run(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            due, self._due = self._due, []
            for line in due:
                await line.connection.send(line.caller)


class BareLine:
    """Implements `Line`."""

    def __init__(
        self, wire: Wire, service: str, call: int, tls: ssl.SSLContext, sender: BareSender
    ) -> None:
        self.heard: list[float] = []
        self.sounded: list[float] = []
        self._tls = tls
        self._sender = sender
        binary, content = wire.caller
        self.caller = content if binary else content.decode()
        self._before = len(wire.welcome) + len(wire.accepted)
        self._url = "ws" + service.removeprefix("http") + f"/{call}/"
        self.connection: ClientConnection
        self._receiving: asyncio.Task[None]

    async def open(self) -> None:
        tls = self._tls if self._url.startswith("wss") else None
        self.connection = await connect(self._url, ssl=tls, compression=None)
        await self.connection.send("{}")
        for _ in range(self._before):
            await self.connection.recv()
        self._receiving = asyncio.create_task(self._receive())

    def hear(self) -> None:
        self.heard.append(time.monotonic())
        self._sender.send(self)

    async def close(self) -> None:
        self._receiving.cancel()
        await asyncio.wait((self._receiving,))
        await self.connection.close()

    async def _receive(self) -> None:
        async for _ in self.connection:
            self.sounded.append(time.monotonic())
