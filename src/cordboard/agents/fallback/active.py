"""One agent's place in a call that several agents serve, one after the other.

Each agent counts its turns from 0, names its tool calls freely and has its own formats. A seat
translates between the agent's terms and the call's:

- turns continue where the agent before was lost: its turn 0 is the call's last turn;
- ids of tool calls are unique in the call;
- sound is converted when the agent does not have the call's format.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from cordboard.agent_api.agent import (
    Agent,
    AgentAudio,
    AgentAudioDone,
    AgentEvent,
    AgentSession,
    AgentText,
    AgentWords,
    CallerStopped,
    CallerText,
    ToolAsked,
    ToolCancelled,
)
from cordboard.audio.format import AudioFormat
from cordboard.audio.transcoder import Transcoder
from cordboard.tools.tool import ToolReply

_EARLIER = "earlier:"
"""Marks the id of a tool call that is not this agent's own."""
_LIKE_A_SEATS = re.compile(r"\d+:")
"""The prefix, within the call, of the ids of the agents after the first."""


@dataclass(frozen=True, slots=True)
class Taken:
    """The turns and sound that the call had received from the agents before."""

    turn: int = 0
    """Number of the last turn."""
    sound_ms: Mapping[int, float] = field(default_factory=dict)
    """Milliseconds of the agents' own sound, by turn."""
    words: str = ""
    """The words of that sound in the last turn."""


class ActiveAgent:
    """One agent at work."""

    def __init__(self, provider: str, number: int, agent: Agent) -> None:
        """`number`: 0 for the agent that the call begins with."""
        self.provider = provider
        self.agent = agent
        self.left = False
        """The agent has failed: its later events do not count."""
        self._number = number
        self._named_like_earlier: set[str] = set()
        """Its own tool calls whose ids from the service look like those of earlier agents."""
        self._taken = Taken()
        self._in: Transcoder | None = None
        self._out: Transcoder | None = None
        self._watched: Transcoder | None = None

    def session(
        self,
        call: AgentSession,
        taken: Taken,
        watch: Callable[[Callable[[bytes], None]], None],
    ) -> AgentSession:
        """Return the call's session with a format that this agent takes; the agent is about to
        start. `watch` is `watch_playout`, in the call's format."""
        self._taken = taken
        formats = self.agent.formats
        if call.format in formats:
            return replace(call, watch_playout=watch)
        own = formats[0]
        self._in = _settled(call.format, own)
        self._watched = watched = _settled(call.format, own)
        self._out = Transcoder(own, call.format)
        return replace(
            call,
            format=own,
            watch_playout=lambda callback: watch(lambda frame: callback(watched.convert(frame))),
        )

    # To the agent.

    def hear(self, frame: bytes) -> None:
        self.agent.hear(frame if self._in is None else self._in.convert(frame))

    def answer_tool(self, reply: ToolReply) -> None:
        self.agent.answer_tool(replace(reply, ask_id=self._own_id(reply.ask_id)))

    def interrupted(self, heard: str, heard_ms: int, turn: int) -> None:
        """Pass on the call's report without the part that earlier agents had spoken."""
        taken = self._taken
        if turn <= taken.turn:
            before = sum(ms for at, ms in taken.sound_ms.items() if at >= turn)
            heard_ms = max(0, heard_ms - round(before))
            heard = _without(taken.words, heard)
        if self._out is not None:
            self._out.finish()
        self.agent.interrupted(heard, heard_ms, max(0, turn - taken.turn))

    # From the agent.

    def told(self, event: AgentEvent) -> AgentEvent:
        """Return an event of the agent in the call's terms."""
        first = self._taken.turn
        match event:
            case AgentAudio(turn, pcm):
                sound = pcm if self._out is None else self._out.convert(pcm)
                return AgentAudio(turn + first, sound)
            case ToolAsked(ask):
                named = replace(ask, ask_id=self._asked(ask.ask_id), turn=ask.turn + first)
                return ToolAsked(named)
            case ToolCancelled(ask_id):
                return ToolCancelled(self._call_id(ask_id))
            case CallerStopped() | CallerText() | AgentText() | AgentWords() | AgentAudioDone():
                return replace(event, turn=event.turn + first) if first else event
        return event

    def tail(self) -> bytes:
        """Return the sound that the conversion still holds back at the end of an answer."""
        return b"" if self._out is None else self._out.finish()

    def _asked(self, own: str) -> str:
        if own.startswith(_EARLIER):
            self._named_like_earlier.add(own)
        return self._call_id(own)

    def _call_id(self, own: str) -> str:
        if own.startswith(_EARLIER) and self._number and own not in self._named_like_earlier:
            return own.removeprefix(_EARLIER)
        plain = self._number == 0 and not _LIKE_A_SEATS.match(own)
        return own if plain else f"{self._number}:{own}"

    def _own_id(self, call_id: str) -> str:
        own = call_id.removeprefix(f"{self._number}:")
        return own if own != call_id or self._number == 0 else f"{_EARLIER}{call_id}"


def _settled(source: AudioFormat, target: AudioFormat) -> Transcoder:
    transcoder = Transcoder(source, target)
    transcoder.settle()
    return transcoder


def _without(before: str, heard: str) -> str:
    """Return the words heard after those of the agents before."""
    if heard.startswith(before):
        return heard[len(before) :].strip()
    return "" if before.startswith(heard) else heard
