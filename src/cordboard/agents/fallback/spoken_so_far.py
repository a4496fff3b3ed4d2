"""The agents' own sound that a call has received, and the engine's sentences still to be spoken.

When the caller cuts an answer that one agent began and another one continues, each needs the heard
part of its own sound (`ActiveAgent.interrupted`). Pure bookkeeping, by the call's turns.
"""

from __future__ import annotations

from cordboard.agent_api.agent import AgentAudio, AgentEvent, AgentText, AgentWords
from cordboard.agent_api.speech import Speech, SpeechState
from cordboard.agents.fallback.active import Taken
from cordboard.audio.format import SLIN_8K, AudioFormat

_TURNS = 6
"""Turns whose sound is remembered: older ones have been heard."""


class SpokenSoFar:
    """The agents' speech in one call."""

    def __init__(self, audio_format: AudioFormat = SLIN_8K) -> None:
        self._format = audio_format
        self._sound_ms: dict[int, float] = {}
        self._words: dict[int, str] = {}
        self._wanted: list[Speech] = []
        """The engine's sentences that no agent has begun."""
        self._engines = False
        """The current sentence is the engine's, not the agent's own."""

    def wanted(self, speech: Speech) -> None:
        """Note that the engine wants this sentence spoken."""
        self._wanted = [each for each in self._wanted if each.state is SpeechState.QUEUED]
        self._wanted.append(speech)

    def unsaid(self) -> tuple[Speech, ...]:
        """Return the sentences that were not begun, for the next agent. Drops fillers."""
        for speech in self._wanted:
            if speech.bridges:
                speech.drop()
        self._wanted = [each for each in self._wanted if each.state is SpeechState.QUEUED]
        return tuple(self._wanted)

    def take(self, event: AgentEvent) -> None:
        """Record one event, in the call's terms."""
        match event:
            case AgentText(turn, text, _, speech):
                self._engines = speech is not None and not speech.of_agent
                if speech in self._wanted:
                    self._wanted.remove(speech)
                if not self._engines:
                    self._add_words(turn, f" {text}" if self._words.get(turn) else text)
            case AgentWords(turn, text):
                if not self._engines:
                    self._add_words(turn, text)
            case AgentAudio(turn, pcm):
                if not self._engines:
                    ms = self._sound_ms.get(turn, 0.0) + self._format.duration_ms(len(pcm))
                    self._sound_ms[turn] = ms

    def taken(self, turn: int) -> Taken:
        """Return the state for the agent that continues from this turn."""
        recent = {at: ms for at, ms in self._sound_ms.items() if at > turn - _TURNS}
        return Taken(turn, recent, self._words.get(turn, "").strip())

    def _add_words(self, turn: int, text: str) -> None:
        self._words[turn] = self._words.get(turn, "") + text
        for old in [at for at in self._words if at < turn - _TURNS]:
            del self._words[old]
            self._sound_ms.pop(old, None)
