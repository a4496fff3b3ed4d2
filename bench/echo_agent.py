"""An engine whose agent only echoes the caller's audio, or drops it.

Everything else is real: exchange, call, conversation, playout, ledger, transports. Used
to measure the call path without models (`peers`, `load`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from cordboard.agent_api.agent import Agent, AgentAudio, AgentSession, AgentText
from cordboard.agent_api.speech import Speech
from cordboard.audio.format import SLIN_8K, AudioFormat
from cordboard.calls.binding import Binding
from cordboard.config.schema import Config
from cordboard.runtime.engine import Engine
from cordboard.tools.payload import DEFAULT_LIMITS, PayloadLimits
from cordboard.tools.tool import ToolReply

TURN = 1


class EchoAgent:
    """Implements `cordboard.agent_api.agent.Agent`. Takes the audio in the line's format."""

    def __init__(
        self,
        formats: tuple[AudioFormat, ...] = (SLIN_8K,),
        *,
        speaks: bool = True,
        heard: Callable[[], None] | None = None,
    ) -> None:
        """`speaks=False`: it only listens. `heard` is called for each frame taken."""
        self._formats = formats
        self._speaks = speaks
        self._heard = heard
        self._session: AgentSession | None = None

    @property
    def formats(self) -> tuple[AudioFormat, ...]:
        return self._formats

    @property
    def payload(self) -> PayloadLimits:
        return DEFAULT_LIMITS

    async def prepare(self) -> None:
        """There is nothing to connect."""

    async def start(self, session: AgentSession) -> None:
        if self._speaks:
            session.emit(
                AgentText(TURN, "(what the caller said)", asyncio.get_running_loop().time())
            )
        self._session = session

    def hear(self, pcm: bytes) -> None:
        if self._speaks and self._session is not None:
            self._session.emit(AgentAudio(TURN, pcm))
        if self._heard is not None:
            self._heard()

    def hear_key(self, key: str) -> None:
        """Keys are ignored."""

    def answer_tool(self, reply: ToolReply) -> None:
        """It asks for none."""

    def interrupted(self, heard: str, heard_ms: int, turn: int) -> None:
        """It continues."""

    def recover(self, reason: str) -> bool:
        return False

    def say(self, speech: Speech) -> None:
        """It has no voice."""
        speech.drop()

    def listen_aside(self, take: Callable[[str], None] | None, *, yes_or_no: bool = True) -> None:
        """It does not listen to words."""

    async def close(self) -> None:
        self._session = None


class EchoEngine(Engine):
    """The engine, with the benchmark's agent for every caller."""

    def __init__(
        self,
        config: Config,
        make_agent: Callable[[], Agent] = EchoAgent,
        *,
        sheds_load: bool = True,
    ) -> None:
        super().__init__(config, sheds_load=sheds_load)
        self._make_agent = make_agent

    def _open_agent(self, binding: Binding) -> Agent:
        return self._make_agent()
