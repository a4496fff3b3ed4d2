"""When does the caller's turn begin, pause, go on and end? A pure state machine.

It takes the voice probabilities of consecutive windows and answers with at most one event each.
All times are sample positions at 8 kHz since the start of the call: no clock, no audio, so that a
minute of conversation is judged in a millisecond and a recorded one is judged the same again.

    LISTENING ──enough voiced windows──▶ SPEAKING ──unvoiced──▶ PAUSED ──long enough──▶ LISTENING
                                            ▲────────voiced────────┘
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

SAMPLES_PER_MS = 8


class TurnState(Enum):
    LISTENING = "listening"
    SPEAKING = "speaking"
    PAUSED = "paused"


@dataclass(frozen=True, slots=True)
class SpeechStarted:
    """The caller began to speak at this sample."""

    sample: int


@dataclass(frozen=True, slots=True)
class SpeechPaused:
    """No voice since this sample; the turn may be over."""

    sample: int


@dataclass(frozen=True, slots=True)
class SpeechResumed:
    """The caller goes on: it was only a pause."""

    sample: int


@dataclass(frozen=True, slots=True)
class TurnEnded:
    """The turn is over."""

    sample: int
    """Where the decision fell."""
    paused_at: int
    """Since when there was no voice."""


TurnEvent: TypeAlias = SpeechStarted | SpeechPaused | SpeechResumed | TurnEnded


@dataclass(frozen=True, slots=True)
class TurnProfile:
    """The numbers behind the decisions."""

    voiced_above: float = 0.5
    """Probability from which a window counts as speech (Silero's own default)."""
    unvoiced_below: float = 0.35
    """Probability under which it counts as silence; between the two nothing changes."""
    start_ms: int = 64
    """Voice for this long starts a turn; one 32 ms window alone is a click."""
    pause_ms: int = 64
    """Silence for this long is a pause: the recogniser starts on what it has."""
    silence_ms: int = 400
    """Silence that ends a turn."""
    complete_silence_ms: int = 224
    """The same when what was said already is a whole answer."""
    unfinished_silence_ms: int = 1_000
    """The same when what was said plainly goes on ("the weather for ...")."""
    longest_ms: int = 28_000
    """A turn is cut here: the recogniser's window holds 30 s."""


class TurnDetector:
    """One caller's turns. Feed it every window in order."""

    def __init__(self, profile: TurnProfile) -> None:
        self._profile = profile
        self._silence = profile.silence_ms * SAMPLES_PER_MS
        self._candidate: int | None = None
        """Where the present run of (un)voiced windows began, while it is too short to count."""
        self._started_at = 0
        self._paused_at = 0
        self.state = TurnState.LISTENING

    def judge(self, probability: float, start: int, end: int) -> TurnEvent | None:
        """Take the voice probability of the samples from `start` to `end`."""
        if self.state is TurnState.LISTENING:
            return self._listen(probability, start, end)
        if self.state is TurnState.SPEAKING:
            return self._follow(probability, start, end)
        return self._wait(probability, start, end)

    def text_is(self, *, complete: bool = False, unfinished: bool = False) -> None:
        """Learn what the recogniser made of the turn so far; moves the end of this pause only."""
        profile = self._profile
        if complete:
            milliseconds = min(profile.complete_silence_ms, profile.silence_ms)
        elif unfinished:
            milliseconds = max(profile.unfinished_silence_ms, profile.silence_ms)
        else:
            milliseconds = profile.silence_ms
        self._silence = milliseconds * SAMPLES_PER_MS

    def _listen(self, probability: float, start: int, end: int) -> TurnEvent | None:
        if probability < self._profile.voiced_above:
            if probability < self._profile.unvoiced_below:
                self._candidate = None
            return None
        if self._candidate is None:
            self._candidate = start
        if end - self._candidate < self._profile.start_ms * SAMPLES_PER_MS:
            return None
        self.state = TurnState.SPEAKING
        self._started_at, self._candidate = self._candidate, None
        return SpeechStarted(self._started_at)

    def _follow(self, probability: float, start: int, end: int) -> TurnEvent | None:
        if end - self._started_at >= self._profile.longest_ms * SAMPLES_PER_MS:
            return self._end(end, end)
        if probability >= self._profile.unvoiced_below:
            self._candidate = None
            return None
        if self._candidate is None:
            self._candidate = start
        if end - self._candidate < self._profile.pause_ms * SAMPLES_PER_MS:
            return None
        self.state = TurnState.PAUSED
        self._paused_at, self._candidate = self._candidate, None
        self._silence = self._profile.silence_ms * SAMPLES_PER_MS
        return SpeechPaused(self._paused_at)

    def _wait(self, probability: float, start: int, end: int) -> TurnEvent | None:
        if probability >= self._profile.voiced_above:
            self.state = TurnState.SPEAKING
            return SpeechResumed(start)
        if end - self._paused_at < self._silence:
            return None
        return self._end(end, self._paused_at)

    def _end(self, sample: int, paused_at: int) -> TurnEnded:
        self.state = TurnState.LISTENING
        self._candidate = None
        return TurnEnded(sample, paused_at)
