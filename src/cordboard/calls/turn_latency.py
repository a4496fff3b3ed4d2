"""The caller's wait in each turn, by stage.

One definition of latency, the caller's: from the last speech sample of the caller to the first
audible sample of the answer on the wire (`cordboard.audio.levels` defines audible). Times are loop
times in seconds; the stages add up to the total.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from itertools import pairwise

from cordboard.agent_api.agent import CallerStopped
from cordboard.calls import events
from cordboard.calls.events import Latency
from cordboard.calls.ledger import Ledger
from cordboard.calls.media.playout import Started
from cordboard.observe.metrics import Metrics


@dataclass(slots=True)
class TurnStopwatch:
    """The moments of one turn, noted as they pass."""

    turn: int
    last_speech_at: float
    endpoint_at: float
    silence_at: float | None = None
    """Loop time at which the voice detector noticed the silence."""
    text_at: float | None = None
    sentence_at: float | None = None
    audio_at: float | None = None
    filled: bool = False
    """A filler was heard; the answer is still to come."""

    def latency(self, wire_at: float) -> Latency:
        """Return the finished measurement. A missing moment counts as the one before it."""
        moments = [self.last_speech_at]
        for moment in (self.endpoint_at, self.text_at, self.sentence_at, self.audio_at, wire_at):
            moments.append(max(moments[-1], moment if moment is not None else moments[-1]))
        passed = [round((moment - moments[0]) * 1000) for moment in moments]
        endpoint, stt, brain, tts, wire = (after - before for before, after in pairwise(passed))
        vad = 0
        if self.silence_at is not None:
            vad = min(endpoint, max(0, round((self.silence_at - self.last_speech_at) * 1000)))
        return Latency(self.turn, endpoint, stt, brain, tts, wire, passed[-1], vad, self.filled)


class LatencyRecord:
    """The caller's waits of one call, for its ledger and the metrics."""

    def __init__(self, ledger: Ledger, metrics: Metrics) -> None:
        self._loop = asyncio.get_running_loop()
        self._ledger = ledger
        self._metrics = metrics
        self._connected_at = self._loop.time()
        self._watch: TurnStopwatch | None = None
        """Stopwatch of the caller's last turn, until its answer is heard."""

    def turn_ended(self, stopped: CallerStopped) -> None:
        self._watch = TurnStopwatch(
            stopped.turn, stopped.last_speech_at, stopped.at, stopped.silence_at
        )

    def text(self, turn: int, at: float) -> None:
        """Note that the caller's words are known."""
        if (watch := self._of(turn)) is not None:
            watch.text_at = at

    def sentence(self, turn: int, at: float) -> None:
        """Note that the first sentence of the answer is known."""
        if (watch := self._of(turn)) is not None and watch.sentence_at is None:
            watch.sentence_at = at

    def sound(self, turn: int) -> None:
        """Note sound of the answer. Called for each piece of it: cheap."""
        watch = self._watch
        if watch is not None and watch.audio_at is None and watch.turn == turn:
            watch.audio_at = self._loop.time()

    def no_answer(self) -> None:
        """Note that the next sentence does not answer a turn."""
        self._watch = None

    def started(self, started: Started) -> None:
        """Note that the caller hears the answer, or a filler before it."""
        turn, at = started.turn, started.at
        watch = self._of(turn)
        if watch is not None and watch.filled:
            self._watch = None
            answered = events.Answered(turn, round((at - watch.last_speech_at) * 1000))
            self._ledger.record(answered, at)
            self._metrics.conversations.turn_latency("answer", answered.answer_ms / 1000)
            return
        self._ledger.record(events.AudioStarted(turn), at)
        if watch is not None:
            watch.filled = started.bridge
            self._watch = watch if started.bridge else None
            latency = watch.latency(at)
            self._ledger.record(latency, at)
            for stage, milliseconds in latency.stages():
                self._metrics.conversations.turn_latency(stage, milliseconds / 1000)
            if not started.bridge:
                self._metrics.conversations.turn_latency("answer", latency.total_ms / 1000)
        elif turn == 0 and not started.bridge:
            self._metrics.conversations.greeting_latency(at - self._connected_at)

    def _of(self, turn: int) -> TurnStopwatch | None:
        return self._watch if self._watch is not None and self._watch.turn == turn else None
