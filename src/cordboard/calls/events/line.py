"""The telephone line: dialling, the judged answer, hold, and music while the caller waits."""

from __future__ import annotations

from dataclasses import dataclass

from cordboard.calls.events.event import LedgerEvent


@dataclass(frozen=True, slots=True)
class Dialled(LedgerEvent):
    """The dialling of an outbound call has ended."""

    type = "line.dialled"
    outcome: str
    """`answered`, `busy`, `no_answer`, `declined`, `unavailable`, `unknown_number`, `redirected`
    (not followed), `cancelled` or `failed`."""
    took_ms: int
    rang: bool = False
    """True if the other side reported that it rings."""
    cause: int = 0
    """ITU-T Q.850 cause; 0: none."""
    sip: int = 0
    """Status of the SIP answer; 0: none."""


@dataclass(frozen=True, slots=True)
class AnswerJudged(LedgerEvent):
    """A verdict about the person or machine that has answered an outbound call."""

    type = "call.answer"
    answer: str
    """`human`, `voicemail`, `screening` (a machine that asks who calls), `ivr` (a menu of keys),
    `fax`, `intercept` (the number is not in service), `busy_tone`, `ringback`, `silence` or
    `machine` (which kind is not known)."""
    by: str
    """`sound`, `words` or `beep`."""
    heard_ms: int
    """Length of the sound that was judged."""
    revised: bool = False
    """True if it replaces an earlier verdict."""


@dataclass(frozen=True, slots=True)
class KeysSent(LedgerEvent):
    """The engine sent keys of the order's script to a menu."""

    type = "line.keys"
    keys: str
    """Without the pauses between them."""


@dataclass(frozen=True, slots=True)
class HoldBegan(LedgerEvent):
    """The caller put the call on hold: the agent hears nothing of it, and its speech waits."""

    type = "line.hold_began"


@dataclass(frozen=True, slots=True)
class HoldEnded(LedgerEvent):
    """The caller is back."""

    type = "line.hold_ended"
    held_ms: int
    """Duration of the hold."""


@dataclass(frozen=True, slots=True)
class MusicBegan(LedgerEvent):
    """The caller hears music in place of the agent, because a tool or a lookup takes long."""

    type = "line.music_began"
    music: str
    """`silence.music`: the telephone system's class of hold music, or `ringback`."""


@dataclass(frozen=True, slots=True)
class MusicEnded(LedgerEvent):
    """The music is over: the caller hears the agent again."""

    type = "line.music_ended"
    played_ms: int
    """Duration of the music."""
