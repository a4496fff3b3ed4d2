"""Gemini Live closes with 1011 during a tool call: time until it takes the result again.

The complete agent against the strict emulator, with TLS, in one process; new for each round. The
caller speaks, the model requests a tool, the service closes with 1011. *Before the result*: the
tool answers while the connection is down. *With the result*: the service closes when the result has
arrived, before it reacts to it, so the result must be sent again. Measured from just before the
service closes until it has the result on its next connection, and until the first audio of the
answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
from websockets.asyncio.server import ServerConnection

from cordboard.agent_api.agent import AgentAudio, AgentEvent, AgentFailed, AgentSession, ToolAsked
from cordboard.agent_api.provider import Parts
from cordboard.agents.making import make
from cordboard.agents.realtime.agent import RealtimeAgent, RealtimeParts
from cordboard.audio.format import SLIN_8K
from cordboard.errors import AgentError
from cordboard.tools.tool import Effects, Status, ToolReply, ToolSpec
from cordboard.vendors.gemini.config import GeminiLiveProvider
from cordboard_testkit.emulators.gemini.live import KEY, GeminiLiveEmulator
from cordboard_testkit.emulators.script import Answer, Fault, Script, Use

CLOSING = 0.002
"""Seconds after which a close has arrived."""
When: TypeAlias = Literal["before the result", "with the result"]
_BOOK = ToolSpec("book", "mcp", "Books.", {"type": "object"}, effects=Effects.DESTRUCTIVE)


class Emulator(GeminiLiveEmulator):
    """Records when it closes."""

    def __init__(self, script: Script, pace: float) -> None:
        super().__init__(script, pace=pace)
        self.closed_at = 0.0
        self.closes = asyncio.Event()

    async def close(self, socket: ServerConnection, code: int, reason: str) -> None:
        self.closed_at = self.closed_at or time.monotonic()
        self.closes.set()
        await super().close(socket, code, reason)


@dataclass(slots=True)
class Drops:
    taken: list[float] = field(default_factory=list)
    """Seconds from the close to the result."""
    sounded: list[float] = field(default_factory=list)
    """Seconds from the close to the first audio of the answer."""


class Call:
    """The call's side."""

    def __init__(self) -> None:
        self.asked = ""
        self.sound_at = 0.0
        self.failed = ""
        self._news = asyncio.Event()
        self.session = AgentSession(
            call_id="call-1",
            context_name="bench",
            prompt="You are a telephone agent.",
            greeting="",
            toolbox=(_BOOK,),
            format=SLIN_8K,
            emit=self._take,
            speaking=lambda: False,
        )

    def _take(self, event: AgentEvent) -> None:
        if isinstance(event, ToolAsked):
            self.asked = event.ask.ask_id
        elif isinstance(event, AgentAudio):
            self.sound_at = self.sound_at or time.monotonic()
        elif isinstance(event, AgentFailed):
            self.failed = event.reason
        self._news.set()

    async def until(self, attribute: str) -> None:
        async with asyncio.timeout(10):
            while not getattr(self, attribute):
                if self.failed:
                    raise AgentError(self.failed)
                self._news.clear()
                await self._news.wait()


async def measure(when: When, times: int) -> Drops:
    """Raises `AgentError`, `TimeoutError`."""
    drops = Drops()
    for _ in range(times):
        await _once(when, drops)
    return drops


async def _once(when: When, drops: Drops) -> None:
    ask = Answer(asks=(Use("book"),), then="It says: {results}")
    fault = Fault("ask" if when == "before the result" else "result", "close", code=1011)
    script = Script((ask,), faults=(fault,), thinking_ms=5)
    async with Emulator(script, pace=50) as emulator, contextlib.AsyncExitStack() as stack:
        values: dict[str, Any] = {"type": "gemini_live", "base_url": emulator.url}
        provider = GeminiLiveProvider.model_validate(values)
        call = Call()
        parts = RealtimeParts(emulator.certificate.client_context)
        agent = RealtimeAgent(make("agent", provider, Parts(KEY)), provider, "gemini_live", parts)
        stack.push_async_callback(agent.close)
        await agent.start(call.session)
        _speak(agent)
        await call.until("asked")
        if when == "before the result":
            async with asyncio.timeout(5):
                await emulator.closes.wait()
            await asyncio.sleep(CLOSING)
        agent.answer_tool(ToolReply(call.asked, "book", Status.OK, "Four."))
        await call.until("sound_at")
        result = next(
            entry.at
            for entry in emulator.received
            if entry.connection > 1 and "Four." in str(entry.message)
        )
        if emulator.violations:
            raise AgentError(emulator.violations[0])
        drops.taken.append(result - emulator.closed_at)
        drops.sounded.append(call.sound_at - emulator.closed_at)


def _speak(agent: RealtimeAgent) -> None:
    """0.3 s of a voice and 0.6 s of silence, at once: the emulator counts time in audio."""
    times = np.arange(2400) / 8_000
    speech = (8000 * np.sin(2 * np.pi * 300 * times)).astype("<i2").tobytes()
    pcm = speech + bytes(16 * 600)
    for start in range(0, len(pcm), 320):
        agent.hear(pcm[start : start + 320])
