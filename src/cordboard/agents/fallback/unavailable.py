"""An agent that could not be opened: its call gets the error when it starts.

So a caller whose providers all lack their keys gets a call like others, with a ledger, an apology
and a transfer target (`calls.failure_apology`).
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
        """Ignore the frame: no agent listens."""

    def hear_key(self, key: str) -> None:
        """Ignore the key."""

    def answer_tool(self, reply: ToolReply) -> None:
        """Ignore the answer: there is no tool call."""

    def interrupted(self, heard: str, heard_ms: int, turn: int) -> None:
        """Ignore the interruption: nothing was spoken."""

    def recover(self, reason: str) -> bool:
        return False

    def say(self, speech: Speech) -> None:
        """Ignore the sentence: the call ends, or another agent says it."""

    def listen_aside(self, take: Callable[[str], None] | None, *, yes_or_no: bool = True) -> None:
        """Ignore the request: no agent listens."""

    async def close(self) -> None:
        """There is nothing to close."""
