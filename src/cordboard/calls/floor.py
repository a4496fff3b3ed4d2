"""The floor of a conversation: whose turn it is, and which speech the agent owes the caller.

    NOTHING ──the caller's turn ends──▶ ANSWER ──its first text──▶ SPEECH ──all is there──▶ NOTHING
    (nothing is owed)                   (is owed)                  (is being given)
       ▲                                   │                          │
       └──── no words; the caller cuts in ─┴──────────────────────────┘

A greeting is owed like an answer. A turn that began under the agent's voice and did not cut it may
need no answer (a murmur): nothing is owed for it. Sentences of the engine change nothing here,
except a late answer, which counts as the agent's.

Pure: no clock, no timer, no audio. `calls.speech_queue` uses it to decide which sentences may be
spoken, `calls.silence` adds the times.
"""

from __future__ import annotations

from enum import Enum

TAIL_MS = 250
"""Length of the silence at the end of a voice's sound: a caller who speaks then speaks after it."""


class Owed(Enum):
    """The speech that the agent owes the caller."""

    NOTHING = "nothing"
    ANSWER = "answer"
    SPEECH = "speech"


class Floor:
    """The floor of one call."""

    def __init__(self) -> None:
        self.owed = Owed.NOTHING
        self.turn = 0
        """The turn that an answer is owed for."""
        self.asked = False
        """The caller asked for the owed speech: it is not a greeting."""
        self.sounded = False
        """The current answer already has sound."""
        self.certain = True
        """False if the caller may need no answer, after a word at the very end of our speech."""
        self.caller_speaks = False
        """The caller is speaking, as far as is known."""
        self.caller_is_asked = False
        """A tool, or the desk, waits for keys or an answer of the caller."""
        self.caller_holds = False
        """The caller has put us on hold."""
        self.quiet = False
        """An operator talks with the caller, and the agent is to say nothing."""
        self.ending = False
        """The call is ending: only its farewell may be spoken."""
        self._agent_spoke = False
        self._overlapped = False
        """The caller began under our voice and did not cut it."""
        self._stopped_turn = 0
        """Number of the caller's last turn."""

    @property
    def free(self) -> bool:
        """True if a filler would not disturb the caller."""
        return not (self.caller_speaks or self.caller_waits or self.ending)

    @property
    def caller_waits(self) -> bool:
        """True if no silence of the caller counts: they are being asked, or have us on hold."""
        return self.caller_is_asked or self.caller_holds

    # The caller.

    def caller_started(self, queued_ms: int) -> None:
        """Note that the caller began to speak, with `queued_ms` of our sound unheard."""
        self.caller_speaks = True
        self._overlapped, self.certain = queued_ms > TAIL_MS, queued_ms == 0

    def caller_stopped(self, turn: int) -> bool:
        """Note that the caller's turn is over. True if it needs an answer."""
        self.caller_speaks = False
        self._stopped_turn = turn
        wants_answer, self._overlapped = not self._overlapped, False
        if wants_answer:
            self._owe_answer()
        return wants_answer

    def caller_text(self, turn: int, text: str) -> None:
        """Note the words of a turn. Without words nothing is owed, until the agent speaks after
        all."""
        if not text and self.owed is Owed.ANSWER and turn == self.turn:
            self.owed = Owed.NOTHING

    def caller_cut_in(self) -> bool:
        """Note that the caller interrupted the agent. True if an answer is owed for a turn that is
        over already."""
        self._overlapped, self.certain = False, True
        self.owed = Owed.NOTHING
        owes = not self.caller_speaks and self._stopped_turn > self.turn
        if owes:
            self._owe_answer()
        return owes

    def caller_dismissed(self) -> None:
        """Note that the voice over ours was not a turn: a murmur, noise, our own echo, a key."""
        self._overlapped = True

    def caller_presumed_silent(self) -> None:
        """Assume that the caller is silent: the end of their speech was never reported."""
        self.caller_speaks = False

    def caller_answered(self) -> None:
        """Note that the caller answered the desk: the agent, which waits for the tool, owes the
        outcome."""
        self._owe_answer()

    # The agent.

    def greets(self) -> None:
        """Note that the agent must open the conversation."""
        if not self._agent_spoke:
            self.owed, self.asked = Owed.ANSWER, False

    def answering(self, turn: int) -> bool:
        """Note that the agent begins a sentence of its own. True if that begins an answer."""
        self._agent_spoke = True
        if turn < self.turn and self.owed is Owed.ANSWER:
            return False  # the tail of an older answer
        begins = self.owed is not Owed.SPEECH or turn != self.turn
        if begins:
            self.sounded = False
        self.owed, self.turn = Owed.SPEECH, max(turn, self.turn)
        return begins

    def answer_sounds(self) -> None:
        self.sounded = True

    def answer_done(self, turn: int) -> None:
        """Note that all of an answer has been handed over, with sound or without."""
        if turn >= self.turn:
            self.owed = Owed.NOTHING

    def gives_up_answer(self) -> bool:
        """Give up an answer that did not come in time. True if the caller surely waits for one;
        otherwise nothing is owed any more."""
        if not self.certain:
            self.owed = Owed.NOTHING
        return self.certain

    def owes_nothing(self) -> None:
        """Note that nothing is owed: the caller's last words were for another person."""
        self.owed = Owed.NOTHING

    def _owe_answer(self) -> None:
        self.owed, self.asked, self.turn = Owed.ANSWER, True, self._stopped_turn
