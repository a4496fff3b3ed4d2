"""An agent that could not even be opened: its call hears of it when it starts.

So a caller whose providers all lack their keys is a call like others, with a ledger, an apology and
a place to go (`calls.failure_apology`).
"""

from __future__ import annotations

from collections.abc import Callable

from cordboard.agent_api.agent import AgentSession
from cordboard.agent_api.speech import Speech
from cordboard.audio.format import SLIN_8K, AudioFormat
from cordboard.errors import AgentError
from cordboard.tools.payload import DEFAULT_LIMITS, PayloadLimits
from cordboard.tools.tool import ToolReply


class UnavailableAgent:
    """Implements `cordboard.agent_api.agent.Agent` by failing with `error`."""

    def __init__(self, error: AgentError) -> None:
        self._error = error

    @property
    def formats(self) -> tuple[AudioFormat, ...]:
        return (SLIN_8K,)

    @property
    def payload(self) -> PayloadLimits:
        return DEFAULT_LIMITS

    async def prepare(self) -> None:
        raise self._error

    async def start(self, session: AgentSession) -> None:
        raise self._error

    def hear(self, pcm: bytes) -> None:
        """Nobody hears."""

    def hear_key(self, key: str) -> None:
        """Nobody sees it."""

    def answer_tool(self, reply: ToolReply) -> None:
        """Nobody has asked."""

    def interrupted(self, heard: str, heard_ms: int, turn: int) -> None:
        """Nobody has spoken."""

    def recover(self, reason: str) -> bool:
        return False

    def say(self, speech: Speech) -> None:
        """Its call ends, or another agent says it."""

    def listen_aside(self, take: Callable[[str], None] | None) -> None:
        """Nobody hears."""

    async def close(self) -> None:
        """There is nothing to close."""
