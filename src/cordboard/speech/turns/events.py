"""Events of the turn state machine, and the state of the agent's voice: plain values.

Made by `cordboard.speech.turns.state_machine`, read by the audio input and the user turns. All
samples are positions at 8 kHz since the start of the call.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias


class Floor(Enum):
    """The floor's states. The diagram in `state_machine` shows the transitions."""

    QUIET = "quiet"
    SPEAKING = "speaking"
    PAUSED = "paused"
    HELD = "held"
    ASIDE = "aside"
    ASIDE_PAUSED = "aside_paused"


class AgentVoice(Enum):
    """State of the agent's speech as the caller hears it."""

    SILENT = "silent"
    OPEN = "open"
    """The agent speaks and may be interrupted."""
    PROTECTED = "protected"
    """The agent speaks and may not be interrupted."""


@dataclass(frozen=True, slots=True)
class TurnBegan:
    """The caller has the floor. `sample` is the first sample of the voice."""

    onset: int


@dataclass(frozen=True, slots=True)
class Paused:
    """The voice paused: the turn, or the aside, may be over and needs a draft of its text."""

    pause: int
    """Number of the pause, for `learn_text` and `learn_odds`."""
    sample: int
    """Sample at which the pause was noticed."""
    aside: bool
    voiced: int
    """Samples from the onset of the voice to its last sound so far."""


@dataclass(frozen=True, slots=True)
class Resumed:
    """The voice continues: it was only a pause."""

    sample: int
    silence: int
    """Length of the pause in samples."""


@dataclass(frozen=True, slots=True)
class PauseGrows:
    """The caller has long been silent but has probably not finished: time for a continuer."""

    quiet_since: int


@dataclass(frozen=True, slots=True)
class TurnEnded:
    """The turn is over."""

    onset: int
    last_speech: int
    """The sample after the last one that could be heard."""
    noticed: int
    """Sample at which the silence was noticed."""
    sample: int
    """Sample at which the end was decided."""
    over_agent: bool
    """The turn began while the agent was heard, and did not stop it."""


@dataclass(frozen=True, slots=True)
class AsideEnded:
    """Speech beside the agent's is over, and did not stop it."""

    onset: int
    last_speech: int
    noticed: int
    sample: int


@dataclass(frozen=True, slots=True)
class OverlapHeld:
    """A voice over the agent's speech: hold the speech until the voice is classified."""

    onset: int
    sample: int


@dataclass(frozen=True, slots=True)
class WordsWanted:
    """Recognise the voice since `onset` at once; the answer goes to `learn_words`."""

    overlap: int
    onset: int
    voiced: int
    """Samples from `onset` to the last sound of the voice so far."""


@dataclass(frozen=True, slots=True)
class OverlapLetPass:
    """The voice was not an interruption: the agent's speech resumes."""

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
"""Value of `foreign` while it is not yet known whether a sound is foreign."""
Events: TypeAlias = tuple[TurnEvent, ...]
NONE: Events = ()
