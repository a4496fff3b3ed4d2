"""The caller's wait in each turn, by stage.

One definition of latency, the caller's: from the last speech sample of the caller to the first
audible sample of the answer on the wire (`cordboard.audio.levels` says which those are). Times are
loop times in seconds; the stages add up to the total.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from cordboard.calls.events import Latency


@dataclass(slots=True)
class TurnStopwatch:
    """The moments of one turn, noted as they pass."""

    turn: int
    last_speech_at: float
    endpoint_at: float
    silence_at: float | None = None
    """When the voice detector noticed the silence."""
    text_at: float | None = None
    sentence_at: float | None = None
    audio_at: float | None = None
    filled: bool = False
    """A filler was heard; the answer is still to come."""

    def latency(self, wire_at: float) -> Latency:
        """The finished measurement. A moment that was not seen counts as the one before it."""
        moments = [self.last_speech_at]
        for moment in (self.endpoint_at, self.text_at, self.sentence_at, self.audio_at, wire_at):
            moments.append(max(moments[-1], moment if moment is not None else moments[-1]))
        passed = [round((moment - moments[0]) * 1000) for moment in moments]
        endpoint, stt, brain, tts, wire = (after - before for before, after in pairwise(passed))
        vad = 0
        if self.silence_at is not None:
            vad = min(endpoint, max(0, round((self.silence_at - self.last_speech_at) * 1000)))
        return Latency(self.turn, endpoint, stt, brain, tts, wire, passed[-1], vad, self.filled)
