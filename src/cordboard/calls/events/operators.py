"""The acts of people who watch the call."""

from __future__ import annotations

from dataclasses import dataclass

from cordboard.calls.events.event import LedgerEvent


@dataclass(frozen=True, slots=True)
class OperatorSaid(LedgerEvent):
    """An operator has asked for a sentence in the agent's voice. `agent.text` follows when the
    sentence begins to be spoken; it never follows if the sentence is refused or the call ends
    first."""

    type = "operator.say"
    who: str
    """The user, or `key:` and the id of a program's key."""
    text: str
    interrupt: bool = False
    """True if the agent's present answer was given up for it."""


@dataclass(frozen=True, slots=True)
class OperatorHint(LedgerEvent):
    """An operator gave the agent's model a note, which the caller does not hear."""

    type = "operator.hint"
    who: str
    text: str


@dataclass(frozen=True, slots=True)
class OperatorTakeover(LedgerEvent):
    """An operator takes the call over to a phone; `transfer.step` says how it goes."""

    type = "operator.takeover"
    who: str
    destination: str


@dataclass(frozen=True, slots=True)
class OperatorConference(LedgerEvent):
    """An operator joins the call by a phone; `conference.step` says how it goes."""

    type = "operator.conference"
    who: str
    destination: str
    agent: str = "talks"
    """`talks`: the agent goes on; `quiet`: it says nothing until the operator has left."""


@dataclass(frozen=True, slots=True)
class ConferenceStep(LedgerEvent):
    """A conference is at this step."""

    type = "conference.step"
    destination: str
    step: str
    """`ringing`: the operator's phone is called; `asked`: the person who answered must press 1;
    `told`: caller and human, without an agent, have heard the notice; `joined`: the operator hears
    caller and agent, or caller and human, and they hear the operator; `over`."""
    detail: str = ""
    """The cause of `over`."""


@dataclass(frozen=True, slots=True)
class OperatorWhisper(LedgerEvent):
    """An operator had words spoken to one party alone, who begins to hear them."""

    type = "operator.whisper"
    who: str
    to: str
    """`human`: of a transfer; `operator`: of a conference."""
    text: str


@dataclass(frozen=True, slots=True)
class OperatorHangup(LedgerEvent):
    """An operator ends the call."""

    type = "operator.hangup"
    who: str
    reason: str = ""
    """In the operator's words."""


@dataclass(frozen=True, slots=True)
class Flagged(LedgerEvent):
    """A person marked this moment of the call."""

    type = "call.flagged"
    who: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class Listened(LedgerEvent):
    """A person listened to the call; written when they stopped."""

    type = "call.listened"
    who: str
    from_ms: int
    """Beginning of the sound that was sent to them."""
    to_ms: int
    """End of the sound that was sent to them."""
