"""The caller: speech, keys, and proofs of who they are."""

from __future__ import annotations

from dataclasses import dataclass

from cordboard.calls.events.event import LedgerEvent


@dataclass(frozen=True, slots=True)
class SpeechBegan(LedgerEvent):
    """The caller began to speak."""

    type = "caller.started"
    speech_ms: int
    """Time of the first speech sample."""


@dataclass(frozen=True, slots=True)
class TurnEnded(LedgerEvent):
    """The caller's turn is over."""

    type = "caller.stopped"
    turn: int
    last_speech_ms: int
    """Time of the last speech sample."""


@dataclass(frozen=True, slots=True)
class Heard(LedgerEvent):
    """The caller's words; empty when nothing was understood."""

    type = "caller.text"
    turn: int
    text: str
    """The recogniser's text."""
    confidence: float
    understood: str = ""
    """The same text with misheard names corrected; empty if nothing was corrected."""
    said_by: str = ""
    """`human`: the words are of the human who was asked to take the call; `conference`: of the
    caller or of the operator who has joined the call; empty: the caller's."""


@dataclass(frozen=True, slots=True)
class Key(LedgerEvent):
    """The caller pressed a key."""

    type = "caller.key"
    key: str
    """`0` to `9`, `*`, `#`, `A` to `D`; `*` for each secret key."""
    secret: bool = False
    """True for a key of a secret input (`collect_digits`): the key itself is not recorded."""


@dataclass(frozen=True, slots=True)
class KeyChosen(LedgerEvent):
    """The caller's key was one that the context offers; the engine acts."""

    type = "caller.key_chosen"
    act: str
    """`transfer`, `say` or `hang_up`."""
    destination: str = ""
    """The destination of a transfer."""


@dataclass(frozen=True, slots=True)
class CallerVerified(LedgerEvent):
    """The caller tried to prove who they are, or an operator vouched for them."""

    type = "caller.verified"
    proof: str
    """`pin`, `callback` or `operator`."""
    ok: bool
    who: str = ""
    """The operator who vouched."""
