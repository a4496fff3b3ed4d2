"""An agent that goes on with a call that began in another engine.

Each agent counts its turns from 0 and names its tool calls freely; in a call that goes on, both
have to follow those of the agents before. `ActiveAgent` translates.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from cordboard.agent_api.agent import (
    Agent,
    AgentAudio,
    AgentAudioDone,
    AgentEvent,
    AgentSession,
    TakesNotes,
)
from cordboard.agent_api.speech import Speech
from cordboard.agent_api.tts import HasVoice, Voice
from cordboard.agents.fallback.active import ActiveAgent, Taken
from cordboard.audio.format import AudioFormat
from cordboard.tools.payload import PayloadLimits
from cordboard.tools.tool import ToolReply


class ResumedAgent:
    """Implements `cordboard.agent_api.agent.Agent` around another agent."""

    def __init__(self, agent: Agent, turn: int, number: int) -> None:
        """`turn`: the last one of the call so far. `number` makes the ids of its tool calls unique
        in the call; at least 1."""
        self._agent = agent
        self._turn = turn
        self._seat = ActiveAgent("", number, agent)
        self._emit: Callable[[AgentEvent], None] = lambda _: None

    @property
    def formats(self) -> tuple[AudioFormat, ...]:
        return self._agent.formats

    @property
    def payload(self) -> PayloadLimits:
        return self._agent.payload

    async def prepare(self) -> None:
        await self._agent.prepare()

    async def start(self, session: AgentSession) -> None:
        self._emit = session.emit
        own = self._seat.session(session, Taken(self._turn), session.watch_playout)
        await self._agent.start(replace(own, emit=self._take))

    def hear(self, pcm: bytes) -> None:
        self._seat.hear(pcm)

    def hear_key(self, key: str) -> None:
        self._agent.hear_key(key)

    def answer_tool(self, reply: ToolReply) -> None:
        self._seat.answer_tool(reply)

    def interrupted(self, heard: str, heard_ms: int, turn: int) -> None:
        self._seat.interrupted(heard, heard_ms, turn)

    def recover(self, reason: str) -> bool:
        return self._agent.recover(reason)

    def say(self, speech: Speech) -> None:
        self._agent.say(speech)

    def listen_aside(self, take: Callable[[str], None] | None, *, yes_or_no: bool = True) -> None:
        self._agent.listen_aside(take, yes_or_no=yes_or_no)

    def own_voice(self) -> Voice | None:
        """See `HasVoice`."""
        return self._agent.own_voice() if isinstance(self._agent, HasVoice) else None

    def take_note(self, text: str) -> bool:
        """See `TakesNotes`."""
        return isinstance(self._agent, TakesNotes) and self._agent.take_note(text)

    async def close(self) -> None:
        await self._agent.close()

    def _take(self, event: AgentEvent) -> None:
        told = self._seat.told(event)
        tail = self._seat.tail() if isinstance(event, AgentAudioDone) else b""
        if tail and isinstance(told, AgentAudioDone):
            self._emit(AgentAudio(told.turn, tail))
        self._emit(told)
