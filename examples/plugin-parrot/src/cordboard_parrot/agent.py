"""The agent: it greets, repeats pressed keys, and runs its tool when the key is #.

An agent talks to its call by `session.emit`. Every answer is a turn: the caller's turn is over
(`CallerStopped`, `CallerText`), the agent says a sentence (`AgentText`) with its audio
(`AgentAudio`), and hands the floor back (`AgentAudioDone`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from cordboard import (
    DEFAULT_LIMITS,
    SLIN_8K,
    AgentAudio,
    AgentAudioDone,
    AgentSession,
    AgentText,
    AudioFormat,
    CallerStopped,
    CallerText,
    PayloadLimits,
    Speech,
    ToolAsk,
    ToolAsked,
    ToolReply,
)
from cordboard_parrot.config import ParrotAgentSection
from cordboard_parrot.voice import whistle


class ParrotAgent:
    """Implements `cordboard.Agent`."""

    def __init__(self, section: ParrotAgentSection) -> None:
        self._section = section
        self._session: AgentSession | None = None
        self._turn = 0

    @property
    def formats(self) -> tuple[AudioFormat, ...]:
        return (SLIN_8K,)

    @property
    def payload(self) -> PayloadLimits:
        return DEFAULT_LIMITS

    async def prepare(self) -> None:
        """There is nothing to connect."""

    async def start(self, session: AgentSession) -> None:
        self._session = session
        if session.greeting and not session.history:
            self._speak(session.greeting)

    def hear(self, pcm: bytes) -> None:
        """It understands keys only."""

    def hear_key(self, key: str) -> None:
        if self._session is None:
            return
        self._turn += 1
        now = asyncio.get_running_loop().time()
        self._session.emit(CallerStopped(self._turn, now, now))
        self._session.emit(CallerText(self._turn, key, now))
        if key == "#" and self._section.tool:
            ask = ToolAsk(f"ask-{self._turn}", self._section.tool, {}, self._turn)
            self._session.emit(ToolAsked(ask))
        else:
            self._speak(f"You pressed {key}.")

    def answer_tool(self, reply: ToolReply) -> None:
        self._speak(reply.message)

    def interrupted(self, heard: str, heard_ms: int, turn: int) -> None:
        """It does not mind."""

    def recover(self, reason: str) -> bool:
        return False

    def say(self, speech: Speech) -> None:
        self._speak(speech.text, speech)

    def listen_aside(self, take: Callable[[str], None] | None) -> None:
        """It understands no words, so the engine's questions stay unanswered."""

    async def close(self) -> None:
        self._session = None

    def _speak(self, text: str, speech: Speech | None = None) -> None:
        if self._session is None:
            return
        now = asyncio.get_running_loop().time()
        self._session.emit(AgentText(self._turn, text, now, speech))
        self._session.emit(AgentAudio(self._turn, whistle(text, self._section.pitch, 8000)))
        self._session.emit(AgentAudioDone(self._turn))
