"""One consultation as a pure machine: events in, commands out; no clock, no socket, no task.

    HOLDING ──▶ RINGING (──▶ BRIEFING (──▶ INTRODUCING)) ──▶ JOINED ──▶ OVER
       └───────────┴───────────┴──────────────┴─────────────┴──▶ RETURNING ──▶ OVER
                               └──the caller hangs up──▶ PARTING ──▶ OVER

The caller is on hold while the other party is called; the agent tells that party what the caller
wants and asks whether they take the call. Each state has four exits: the caller hangs up, the other
party hangs up, the consultation is cancelled, the state's time is over. Asterisk does
not end one channel with the other (measured on 22.10.1: a caller's hang-up leaves the other phone
ringing, and the other party's hang-up leaves the caller in total silence), so the machine ends
both.

Commands may fail; `Refused` says so. Events decide, answers to commands are hints: a command that
fails because a party is gone is followed by that party's event.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from cordboard.calls.offer import (
    CallerGone,
    PartyAnswered,
    PartyGone,
    PartyRings,
)
from cordboard.tools.call_line import TransferOutcome

STEP_SECONDS = 5.0
"""Longest time for a request to the telephone system; it answers within 31 ms (measured, 753
requests of a storm)."""
PARTING_SECONDS = 6.0
"""Longest time for the sentence to the other party that the caller has hung up."""
INTRODUCTION_SECONDS = 30.0


class State(StrEnum):
    HOLDING = "holding"
    """The caller is being put on hold."""
    RINGING = "ringing"
    """The other party is being called."""
    BRIEFING = "briefing"
    """The agent speaks with the other party."""
    INTRODUCING = "introducing"
    """Caller, other party and agent hear each other."""
    JOINED = "joined"
    """Caller and other party talk, without the agent."""
    PARTING = "parting"
    """The caller has hung up, and the other party hears so."""
    RETURNING = "returning"
    """The caller is on the way back to the agent."""
    OVER = "over"


class Do(StrEnum):
    """A command of the machine."""

    HOLD = "hold"
    """Take the caller from the agent; they hear music."""
    DIAL = "dial"
    BRIEF = "brief"
    """Connect the agent with the other party, say the briefing and wait for the verdict."""
    HUSH = "hush"
    """Stop the agent's sentence to the other party."""
    INTRODUCE = "introduce"
    """Connect all three and say the introduction."""
    JOIN = "join"
    """Connect caller and other party, without the agent."""
    PART = "part"
    """Tell the other party that the caller has hung up."""
    DROP = "drop"
    """Hang up the other party, ringing or answered."""
    BACK = "back"
    """Connect the caller with the agent."""


@dataclass(frozen=True, slots=True)
class Done:
    """A command has been carried out."""

    command: Do


@dataclass(frozen=True, slots=True)
class Refused:
    """A command could not be carried out."""

    command: Do
    detail: str
    unreachable: bool = False
    """The other party cannot be called at all: their phone is not connected."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The other party's answer to the briefing. None: no clear answer, as from a voicemail."""

    takes: bool | None


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The caller (by a key), an operator or the engine wants the caller back with the agent."""


@dataclass(frozen=True, slots=True)
class TimedOut:
    """The state's deadline has passed."""


ConsultationEvent: TypeAlias = (
    Done
    | Refused
    | Verdict
    | Cancelled
    | TimedOut
    | PartyRings
    | PartyAnswered
    | PartyGone
    | CallerGone
)


@dataclass(frozen=True, slots=True)
class ConsultationResult:
    """The end of a consultation."""

    outcome: TransferOutcome
    detail: str = ""
    """The cause, for the ledger."""
    returned: bool = False
    """The caller is with the agent again. Otherwise their call ends."""
    caller_gone: bool = False
    """The caller has hung up."""


@dataclass(frozen=True, slots=True)
class ConsultationRules:
    """The settings of one consultation. Times in seconds."""

    ring: float = 25.0
    """Longest time from dialling to the answer."""
    brief: float = 45.0
    """Longest time from the answer to the verdict."""
    introduces: bool = False
    """The other party is introduced to the caller before the agent leaves (`warm`)."""
    returns: bool = False
    """The caller comes back to the agent when the other party hangs up."""


class Consultation:
    """One consultation. Give every event to `take` and carry out its commands in order.

    `deadline` is the time, on the clock of `now`, at which `TimedOut` is due; None: never. When the
    state is OVER, `result` is set, and nothing that the machine asked for is left open.
    """

    def __init__(self, rules: ConsultationRules) -> None:
        self._rules = rules
        self.state = State.HOLDING
        self.deadline: float | None = None
        self.result: ConsultationResult | None = None
        self._outcome: TransferOutcome = "failed"
        """The outcome, while the caller returns."""
        self._detail = ""
        self._rang = False
        self._party = False
        """The other party was dialled and is not known to be gone."""
        self._caller = True
        self._speaks = False
        """The agent may be speaking to the other party."""
        self._joining = False
        """The last JOIN is not confirmed."""

    def start(self, now: float) -> list[Do]:
        """Begin: return the first commands."""
        return self._enter(State.HOLDING, now, STEP_SECONDS, Do.HOLD)

    def take(self, event: ConsultationEvent, now: float) -> list[Do]:
        """Take an event and return the commands that follow from it."""
        if self.state is State.OVER:
            return []
        match event:
            case CallerGone():
                return self._caller_gone(now)
            case PartyGone(cause, status):
                return self._party_gone(cause, status, now)
            case TimedOut() if self.deadline is not None and now < self.deadline:
                return []  # a timer of an earlier state
            case TimedOut():
                return self._timed_out(now)
            case Cancelled():
                return self._cancelled(now)
            case Refused():
                return self._refused(event, now)
            case PartyRings():
                self._rang = True
                return []
            case PartyAnswered():
                return self._answered(now)
            case Verdict(takes):
                return self._judged(takes, now)
            case Done(command):
                return self._done(command, now)

    # Progress.

    def _done(self, command: Do, now: float) -> list[Do]:
        match self.state, command:
            case State.HOLDING, Do.HOLD:
                self._party = True
                return self._enter(State.RINGING, now, self._rules.ring, Do.DIAL)
            case State.INTRODUCING, Do.INTRODUCE:
                self._speaks = False
                return self._join(now)
            case State.JOINED, Do.JOIN:
                self._joining, self.deadline = False, None
            case State.PARTING, Do.PART:
                return self._finish("cancelled", "the caller hung up")
            case State.RETURNING, Do.BACK:
                return self._finish(self._outcome, self._detail, returned=True)
        return []

    def _answered(self, now: float) -> list[Do]:
        if self.state is not State.RINGING:
            return []
        self._speaks = True
        return self._enter(State.BRIEFING, now, self._rules.brief, Do.BRIEF)

    def _judged(self, takes: bool | None, now: float) -> list[Do]:
        if self.state is not State.BRIEFING:
            return []
        if takes is None:
            return self._return("machine", "answered, but nobody took the call", now)
        if not takes:
            return self._return("declined", "the call was declined", now)
        if not self._rules.introduces:
            return self._join(now)
        hush = self._hush()
        self._speaks = True
        introduce = self._enter(State.INTRODUCING, now, INTRODUCTION_SECONDS, Do.INTRODUCE)
        return [*hush, *introduce]

    def _join(self, now: float) -> list[Do]:
        self._joining = True
        hush = self._hush()
        return [*hush, *self._enter(State.JOINED, now, STEP_SECONDS, Do.JOIN)]

    # The four exits.

    def _caller_gone(self, now: float) -> list[Do]:
        self._caller = False
        match self.state:
            case State.BRIEFING:
                hush = self._hush()
                self._speaks = True
                return [*hush, *self._enter(State.PARTING, now, PARTING_SECONDS, Do.PART)]
            case State.PARTING:
                return []
            case State.JOINED | State.INTRODUCING:
                return self._finish("accepted", "the caller hung up")
            case State.RETURNING:
                return self._finish(self._outcome, self._detail)
            case _:
                return self._finish("cancelled", "the caller hung up")

    def _party_gone(self, cause: int, status: int, now: float) -> list[Do]:
        self._party = False
        match self.state:
            case State.RINGING | State.HOLDING:
                outcome, detail = outcome_of(cause, status, rang=self._rang)
                return self._return(outcome, detail, now)
            case State.BRIEFING:
                return self._return("declined", "they hung up before taking the call", now)
            case State.INTRODUCING:
                return self._return("declined", "they hung up during the introduction", now)
            case State.JOINED if self._rules.returns:
                return self._return("accepted", "they have hung up", now)
            case State.JOINED:
                return self._finish("accepted", "they have hung up")
            case State.PARTING:
                return self._finish("cancelled", "the caller hung up")
            case _:
                return []

    def _cancelled(self, now: float) -> list[Do]:
        if self.state in (State.PARTING, State.RETURNING):
            return []
        if self.state is State.JOINED:
            return self._return("accepted", "the talk was ended", now)
        return self._return("cancelled", "cancelled", now)

    def _timed_out(self, now: float) -> list[Do]:
        match self.state:
            case State.HOLDING:
                return self._return("failed", "the caller could not be put on hold", now)
            case State.RINGING if self._rang:
                return self._return("no_answer", f"not answered in {self._rules.ring:g} s", now)
            case State.RINGING:
                return self._return("unavailable", "their phone did not ring", now)
            case State.BRIEFING:
                return self._return("machine", "answered, but nobody took the call", now)
            case State.INTRODUCING:
                return self._join(now)  # the sentence is late: go on without it
            case State.JOINED if self._joining:
                return self._return("failed", "they could not be connected", now)
            case State.PARTING:
                return self._finish("cancelled", "the caller hung up")
            case State.RETURNING:
                return self._finish(self._outcome, f"{self._detail}; the caller did not return")
            case _:
                return []

    def _refused(self, refused: Refused, now: float) -> list[Do]:
        match refused.command:
            case Do.DROP | Do.HUSH:
                return []
            case Do.BACK:
                return self._finish(self._outcome, f"{self._detail}; {refused.detail}")
            case Do.PART:
                return self._finish("cancelled", "the caller hung up")
            case _ if self.state in (State.RETURNING, State.PARTING):
                return []  # of a state that was left meanwhile
            case Do.DIAL if refused.unreachable:
                return self._return("unavailable", refused.detail, now)
            case _:
                return self._return("failed", refused.detail, now)

    # Leaving a state.

    def _enter(self, state: State, now: float, seconds: float, *commands: Do) -> list[Do]:
        self.state, self.deadline = state, now + seconds
        return list(commands)

    def _return(self, outcome: TransferOutcome, detail: str, now: float) -> list[Do]:
        """Bring the caller back to the agent."""
        self._outcome, self._detail = outcome, detail
        before = [*self._hush(), *self._drop()]
        return [*before, *self._enter(State.RETURNING, now, STEP_SECONDS, Do.BACK)]

    def _finish(self, outcome: TransferOutcome, detail: str, *, returned: bool = False) -> list[Do]:
        commands = [*self._hush(), *self._drop()]
        self.state, self.deadline = State.OVER, None
        self.result = ConsultationResult(outcome, detail, returned, not self._caller)
        return commands

    def _hush(self) -> list[Do]:
        speaks, self._speaks = self._speaks, False
        return [Do.HUSH] if speaks else []

    def _drop(self) -> list[Do]:
        party, self._party = self._party, False
        return [Do.DROP] if party else []


_OUTCOMES: dict[int, tuple[TransferOutcome, str]] = {
    1: ("failed", "unknown number"),
    3: ("unavailable", "no route to them"),
    16: ("no_answer", "not answered"),
    17: ("busy", "busy"),
    18: ("unavailable", "their phone does not respond"),
    20: ("unavailable", "their phone is not connected"),
    21: ("declined", "declined"),
    22: ("failed", "number changed"),
    23: ("unavailable", "their phone forwards calls"),
    28: ("failed", "incomplete number"),
    34: ("failed", "all lines are busy"),
}
"""By Asterisk's hang-up cause (Q.850); measured on 22.10.1 with each SIP answer."""


def outcome_of(cause: int, status: int, *, rang: bool) -> tuple[TransferOutcome, str]:
    """Return the outcome, and the detail, of a party that was not answered: `cause` is Asterisk's
    hang-up cause, `status` the SIP answer (0: unknown), `rang`: their phone rang."""
    if status == 607:  # Unwanted
        return "declined", "declined"
    if cause == 19:  # of SIP 480, and of a Local channel's own timeout
        if status:
            return "unavailable", "temporarily unavailable"
        return "no_answer", "not answered"
    if cause in _OUTCOMES:
        outcome, detail = _OUTCOMES[cause]
        if outcome == "no_answer" and not rang:
            return "unavailable", "their phone did not ring"
        return outcome, detail
    return "failed", f"cause {cause}" + (f", SIP {status}" if status else "")
