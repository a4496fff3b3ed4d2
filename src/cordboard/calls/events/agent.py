"""The agent: its sentences and their sound, interruptions, the caller's waits, usage."""

from __future__ import annotations

from dataclasses import dataclass

from cordboard.calls.events.event import LedgerEvent
from cordboard.observe.conversation_metrics import Stage


@dataclass(frozen=True, slots=True)
class Answering(LedgerEvent):
    """A sentence that the agent is about to speak."""

    type = "agent.text"
    turn: int
    text: str
    said_by: str = ""
    """`operator`: the words are of an operator (`operator.say`); empty: the agent's or the
    engine's own."""


@dataclass(frozen=True, slots=True)
class AudioStarted(LedgerEvent):
    """The first audible sample of this turn's answer was sent to the caller."""

    type = "agent.audio_started"
    turn: int


@dataclass(frozen=True, slots=True)
class AudioEnded(LedgerEvent):
    """The caller has heard this turn's answer to its end."""

    type = "agent.audio_ended"
    turn: int


@dataclass(frozen=True, slots=True)
class Held(LedgerEvent):
    """A voice was detected over the agent's: its speech paused until the cause was known."""

    type = "agent.held"
    onset_ms: int
    """Time of the first sample of that voice."""
    reaction_ms: int = 0
    """From `onset_ms` until the agent fell silent."""


@dataclass(frozen=True, slots=True)
class Resumed(LedgerEvent):
    """It was not an interruption: the agent's speech continued at the same sample."""

    type = "agent.resumed"
    why: str
    """`backchannel`, `noise`, `echo` or `key`; `undecided` if no decision was made."""
    held_ms: int = 0
    """Duration of the agent's silence."""


@dataclass(frozen=True, slots=True)
class BargedIn(LedgerEvent):
    """The caller interrupted the agent; the unheard part of the answer was discarded."""

    type = "agent.interrupted"
    turn: int
    heard: str
    """The part of this turn's answer that the caller had heard, to the word."""
    heard_ms: int = 0
    """Duration of the heard part."""
    reaction_ms: int = 0
    """From the first sample of the caller's voice until the agent fell silent; 0: unknown."""
    decision_ms: int = 0
    """From the first sample until the decision that it is an interruption; 0: unknown."""


@dataclass(frozen=True, slots=True)
class CutOff(LedgerEvent):
    """The call ended before the caller had heard all of the agent's answer."""

    type = "agent.cut_off"
    turn: int
    heard: str
    """The part of this turn's answer that the caller had heard, to the word."""
    heard_ms: int = 0
    """Duration of the heard part."""


@dataclass(frozen=True, slots=True)
class Latency(LedgerEvent):
    """The caller's wait in one turn, by stage.

    `endpoint_ms` to `wire_ms` add up to `total_ms`. First and last samples are the first and last
    audible ones (`cordboard.audio.levels`), not the quiet ones before and after.
    """

    type = "turn.latency"
    turn: int
    endpoint_ms: int
    """From the last speech sample to the decision that the turn is over."""
    stt_ms: int
    """From the end of the turn to the final text; 0: it was already available."""
    brain_ms: int
    """From the final text to the first sentence of the answer, including tools."""
    tts_ms: int
    """From the first sentence of the answer to its first sound."""
    wire_ms: int
    """From the first sound of the answer to the first audible sample on the wire."""
    total_ms: int
    vad_ms: int = 0
    """The part of `endpoint_ms` until the voice detector noticed the silence; 0: unknown."""
    filler: bool = False
    """True if the first sound was a filler; `turn.answered` has the time of the answer."""

    def stages(self) -> tuple[tuple[Stage, int], ...]:
        """Each stage's name and its ms in the order of time, the total last."""
        return (
            ("vad", self.vad_ms),
            ("endpoint", self.endpoint_ms),
            ("stt", self.stt_ms),
            ("brain", self.brain_ms),
            ("tts", self.tts_ms),
            ("wire", self.wire_ms),
            ("total", self.total_ms),
        )


@dataclass(frozen=True, slots=True)
class Answered(LedgerEvent):
    """The answer itself began, after a filler."""

    type = "turn.answered"
    turn: int
    answer_ms: int
    """From the caller's last speech sample to the first audible one of the answer."""


@dataclass(frozen=True, slots=True)
class AgentUsed(LedgerEvent):
    """Usage counted by one of the agent's services."""

    type = "agent.used"
    provider: str
    """The type of the provider or part, such as `openai_realtime`."""
    model: str
    amounts: dict[str, float]
    """Amount by unit since the previous such line of this service: `input_text_tokens`, ...,
    `seconds`, `characters`."""
    cost: float | None = None
    """Cost by `prices`; null if they do not cover it."""
    currency: str = ""
