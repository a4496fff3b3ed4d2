"""The conversation of a call so far, as far as the caller has heard it.

`SharedHistory` follows an agent's events and the call's reports of interruptions, so that another
connection, or another agent, can continue where this one was lost. Pure bookkeeping; no clock.

Fillers and continuers do not belong to a conversation.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from cordboard.agent_api.agent import (
    AgentAudio,
    AgentAudioDone,
    AgentEvent,
    AgentText,
    AgentWords,
    CallerStarted,
    CallerStopped,
    CallerText,
    Interrupted,
    Said,
)
from cordboard.agent_api.speech import Speech

MOST_ENTRIES = 400
"""Most entries; a longer conversation loses its oldest ones."""


@dataclass(slots=True)
class _Entry:
    turn: int
    who: Literal["caller", "agent"]
    texts: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(self.texts).strip()


class SharedHistory:
    """The conversation of one call. Turns are numbered as in the events."""

    def __init__(self, earlier: Iterable[Said] = ()) -> None:
        """`earlier`: the conversation before the first event."""
        self._entries = [_Entry(-1, said.who, [said.text]) for said in earlier]
        self._filling = False
        """The latest sentence is a filler or a continuer, and so are its words and its sound."""
        self._owed: int | None = None
        """The caller's turn that is not answered completely."""
        self._open: int | None = None
        """The turn in which the agent is speaking, while its answer is not handed over
        completely."""
        self._sounded = -1
        """The last turn in which the agent was heard."""
        self._understood = 0
        """The last turn of the caller that has words."""
        self.last_turn = 0
        """The highest turn so far."""
        self.caller_speaks = False
        """The caller's turn has begun and is not over, as far as the agent has reported."""
        self.greeted = False
        """Some sound of the agent went to the caller before their first turn."""

    @property
    def owes_answer(self) -> bool:
        """True if the caller waits for an answer, or for the rest of it."""
        return self._owed is not None

    @property
    def lacks_words(self) -> bool:
        """True if the turn that waits for an answer has no words yet."""
        return self._owed is not None and self._understood < self._owed

    @property
    def open_turn(self) -> int | None:
        """The turn in which the agent is speaking, while its answer is not handed over completely;
        None while it is silent."""
        return self._open

    def take(self, event: AgentEvent) -> None:
        """Record one event of the agent."""
        match event:
            case AgentAudio(turn, _):
                if not self._filling:
                    self._sounded = turn
                    self.greeted = self.greeted or turn == 0
            case AgentText(turn, text, _, speech):
                self._begin_sentence(turn, text, speech)
            case AgentWords(turn, text):
                if not self._filling:
                    self._agent_entry(turn).texts.append(text)
            case AgentAudioDone(turn):
                self._done(turn)
            case CallerStarted():
                self.caller_speaks = True
            case CallerStopped(turn):
                self.caller_speaks = False
                self.last_turn = max(self.last_turn, turn)
                self._owed = turn
            case CallerText(turn, text, _, _, understood):
                self._hear(turn, understood or text)
            case Interrupted():
                self._cut_unheard()

    def interrupted(self, heard: str, turn: int) -> None:
        """Record a cut: `heard` is all that the caller heard of the answers since `turn`."""
        cut = [e for e in self._entries if e.who == "agent" and e.turn >= turn]
        if cut:
            cut[0].texts = [heard]
            gone = {id(entry) for entry in cut[1:]} | ({id(cut[0])} if not heard else set())
            self._entries = [e for e in self._entries if id(e) not in gone]
        self._open = None
        if self._owed is not None and turn >= self._owed:
            self._owed = None

    def history(self, *, to_answer: bool = False) -> tuple[Said, ...]:
        """Return the conversation, oldest first. `to_answer`: as it was before the owed answer, so
        that the caller has the last word if they are waiting."""
        owed = self._owed if to_answer else None
        said: list[Said] = []
        for entry in self._entries:
            if not entry.text or (owed and entry.who == "agent" and entry.turn >= owed):
                continue
            if said and said[-1].who == entry.who:
                said[-1] = Said(entry.who, f"{said[-1].text} {entry.text}")
            else:
                said.append(Said(entry.who, entry.text))
        return tuple(said)

    def _begin_sentence(self, turn: int, text: str, speech: Speech | None) -> None:
        self.last_turn = max(self.last_turn, turn)
        self._filling = speech is not None and speech.bridges
        if self._filling:
            return
        self._open = turn
        entry = self._agent_entry(turn)
        if entry.texts and text:
            entry.texts.append(" ")
        entry.texts.append(text)

    def _done(self, turn: int) -> None:
        self.last_turn = max(self.last_turn, turn)
        if self._filling and self._open != turn:
            self._filling = False  # a filler alone is not an answer
            return
        self._filling = False
        self._open = None
        if self._owed is not None and turn >= self._owed:
            self._owed = None

    def _cut_unheard(self) -> None:
        """Drop the words without sound: the caller takes the floor."""
        turn, self._open = self._open, None
        if turn is not None and self._sounded < turn:
            self._entries = [e for e in self._entries if e.who != "agent" or e.turn != turn]

    def _hear(self, turn: int, text: str) -> None:
        self._understood = max(self._understood, turn)
        self.last_turn = max(self.last_turn, turn)
        if not text:
            return
        # The words of a turn may arrive after its answer has begun.
        place = next(
            (i for i, e in enumerate(self._entries) if e.turn >= turn and turn > 0),
            len(self._entries),
        )
        self._entries.insert(place, _Entry(turn, "caller", [text]))
        del self._entries[:-MOST_ENTRIES]

    def _agent_entry(self, turn: int) -> _Entry:
        for entry in reversed(self._entries):
            if entry.who == "agent" and entry.turn == turn:
                return entry
            if entry.turn < turn:
                break
        entry = _Entry(turn, "agent")
        self._entries.append(entry)
        del self._entries[:-MOST_ENTRIES]
        return entry
