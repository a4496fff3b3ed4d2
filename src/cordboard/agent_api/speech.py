"""A sentence of the engine, with an identity.

Fillers, continuers, questions, re-prompts, farewells: the call makes a `Speech`, the agent speaks
it, and its state records the result. The agent's own sentences have no `Speech`: their
`AgentText.speech` is None, also if the words are the same.

    QUEUED ──▶ BEGUN ──▶ HEARD        (the caller has heard all of it)
      │          └─────▶ CUT          (the rest of it was taken back)
      └────────────────▶ DROPPED      (it was not spoken at all)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final, Literal, TypeAlias

ABOUT_EARLIER: Final = "About your earlier request:"
"""Introduces an answer that comes too late for its turn."""

Purpose: TypeAlias = Literal[
    "greeting",
    "filler",
    "continuer",
    "question",
    "approval",
    "late answer",
    "reprompt",
    "farewell",
    "apology",
    "operator",
    "menu",
]
"""Purpose of the sentence.

- `greeting`: of an agent whose greeting another voice speaks
- `filler`: bridges the wait for an answer
- `continuer`: "mm-hm" in the caller's pause
- `question`: the prompt of a tool
- `approval`: a question that the caller answers with yes or no
- `late answer`: to a request of an earlier turn
- `reprompt`: asks a silent caller
- `farewell`, `apology`: the last sentence of a call
- `operator`: words of a person who watches the call
- `menu`: the prompt of the context's keys, or the answer to one; the warning that a cap is used up
"""


class SpeechState(Enum):
    """The life of one sentence."""

    QUEUED = "queued"
    BEGUN = "begun"
    """The agent speaks it: its sound is on the way to the caller."""
    HEARD = "heard"
    CUT = "cut"
    DROPPED = "dropped"


def _ignore(_: Speech) -> None:
    """Do nothing: no callback."""


@dataclass(slots=True, eq=False)
class Speech:
    """One sentence. A transition that its state does not allow has no effect."""

    text: str
    purpose: Purpose
    changed: Callable[[Speech], None] = _ignore
    """Called after each change of the state, on the event loop."""
    state: SpeechState = SpeechState.QUEUED
    interrupts: bool = False
    """The agent gives up the answer it is working on. Only for `operator` and `menu`."""

    @property
    def bridges(self) -> bool:
        """True if it only fills a silence: it does not belong to the conversation, and is needless
        once the answer begins."""
        return self.purpose in ("filler", "continuer")

    @property
    def of_agent(self) -> bool:
        """True if it counts as a sentence of the agent's own answer."""
        return self.purpose in ("greeting", "late answer")

    @property
    def asks(self) -> bool:
        """True if it asks the caller for something that their next turn answers."""
        return self.purpose in ("question", "approval", "menu")

    @property
    def ends_call(self) -> bool:
        return self.purpose in ("farewell", "apology")

    @property
    def over(self) -> bool:
        return self.state not in (SpeechState.QUEUED, SpeechState.BEGUN)

    def begin(self) -> None:
        """Enter BEGUN: the agent has handed the sentence over, its sound follows."""
        if self.state is SpeechState.QUEUED:
            self._move(SpeechState.BEGUN)

    def finish(self) -> None:
        """Enter HEARD: the caller has heard all of it."""
        if self.state is SpeechState.BEGUN:
            self._move(SpeechState.HEARD)

    def cut(self) -> None:
        """Enter CUT: the unheard rest was taken back."""
        if self.state is SpeechState.BEGUN:
            self._move(SpeechState.CUT)

    def drop(self) -> None:
        """Enter DROPPED: it will not be spoken."""
        if self.state is SpeechState.QUEUED:
            self._move(SpeechState.DROPPED)

    def _move(self, state: SpeechState) -> None:
        self.state = state
        self.changed(self)
