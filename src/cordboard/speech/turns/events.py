"""What the state machine of turns says, and what it is told of the agent: plain values.

Made by `cordboard.speech.turns.state_machine`, read by the ear and the hearing. All samples are
positions at 8 kHz since the start of the call.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias


class Floor(Enum):
    """Who has the floor. The diagram above says how it passes."""

    QUIET = "quiet"
    SPEAKING = "speaking"
    PAUSED = "paused"
    HELD = "held"
    ASIDE = "aside"
    ASIDE_PAUSED = "aside_paused"


class AgentVoice(Enum):
    """What the caller hears of the agent at the moment."""

    SILENT = "silent"
    OPEN = "open"
    """The agent speaks and may be interrupted."""
    PROTECTED = "protected"
    """The agent speaks and may not."""


@dataclass(frozen=True, slots=True)
class TurnBegan:
    """The caller has the floor; the first sample of the voice."""

    onset: int


@dataclass(frozen=True, slots=True)
class Paused:
    """The voice paused: the turn, or the aside, may be over. Find out what was said."""

    pause: int
    """Number of the pause, for `learn_text` and `learn_odds`."""
    sample: int
    """Where that was noticed."""
    aside: bool
    voiced: int
    """Samples from the onset of the voice to its last sound so far."""


@dataclass(frozen=True, slots=True)
class Resumed:
    """The voice goes on: it was only a pause."""

    sample: int
    silence: int
    """Samples of it."""


@dataclass(frozen=True, slots=True)
class PauseGrows:
    """The caller has long been silent, and is not taken to have finished: time for a continuer."""

    quiet_since: int


@dataclass(frozen=True, slots=True)
class TurnEnded:
    """The turn is over."""

    onset: int
    last_speech: int
    """The sample after the last one that could be heard."""
    noticed: int
    """Where the silence was noticed."""
    sample: int
    """Where the end was decided."""
    over_agent: bool
    """It began while the agent was heard, and did not stop it."""


@dataclass(frozen=True, slots=True)
class AsideEnded:
    """What was said beside the agent's speech is over, and did not stop it."""

    onset: int
    last_speech: int
    noticed: int
    sample: int


@dataclass(frozen=True, slots=True)
class OverlapHeld:
    """A voice over the agent's: hold its speech until it is known what it is."""

    onset: int
    sample: int


@dataclass(frozen=True, slots=True)
class WordsWanted:
    """Ask the recogniser what is said since `onset`, at once; answer with `learn_words`."""

    overlap: int
    onset: int
    voiced: int
    """Samples from there to the last sound of the voice, so far."""


@dataclass(frozen=True, slots=True)
class OverlapLetPass:
    """It was no interruption: the agent's speech goes on."""

    sample: int
    why: str
    """`backchannel`, `noise`, `echo` or `key`."""


@dataclass(frozen=True, slots=True)
class TurnTaken:
    """An interruption: the caller takes the floor while the agent speaks."""

    onset: int
    sample: int


TurnEvent: TypeAlias = (
    TurnBegan
    | Paused
    | Resumed
    | PauseGrows
    | TurnEnded
    | AsideEnded
    | OverlapHeld
    | WordsWanted
    | OverlapLetPass
    | TurnTaken
)
PERHAPS = "perhaps"
"""It is not yet known whether a sound is foreign."""
Events: TypeAlias = tuple[TurnEvent, ...]
NONE: Events = ()
