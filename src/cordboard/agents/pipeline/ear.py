"""The caller's sound on its way to turns: voice activity, the utterance, the clock of the samples.

The `Ear` keeps the recent sound, follows the turn detector and tells its listener what happened,
with the utterance's audio. It runs on the event loop; a frame costs an append and the voice
activity stream's feed. When frames stop coming in the middle of an utterance (a phone that mutes
its RTP), it puts silence in their place so that the turn still ends.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

import numpy as np

from cordboard.agents.pipeline.turn_detector import (
    SAMPLES_PER_MS,
    SpeechPaused,
    SpeechResumed,
    SpeechStarted,
    TurnDetector,
    TurnEnded,
    TurnProfile,
    TurnState,
)
from cordboard.audio.vad import RATE, WINDOW_SAMPLES, VoiceActivityBank

LEAD_MS = 300
"""Sound kept from before the first voiced window: the detector needs 33-103 ms to notice speech."""
_KEEP_BYTES = 2 * RATE
"""While nobody speaks, about one second is kept."""
TAIL_MS = 250
"""A quiet last syllable may outlast the voice detector's opinion by so much."""
_GAP_CHECK = 0.1
_GAP = 0.3
"""Frames missing for so long are a gap. A DTMF key stops the sound for about 0.2 s (measured)."""


class EarListener(Protocol):
    """What the agent wants to know. Times are loop times in seconds."""

    def speech_started(self, at: float) -> None: ...

    def speech_paused(self, utterance: bytes) -> None:
        """The turn may be over; `utterance` is all of it so far."""
        ...

    def speech_resumed(self) -> None: ...

    def turn_ended(
        self, utterance: bytes, last_speech_at: float, at: float, voiced_ms: int
    ) -> None: ...

    def window_judged(self, *, voiced: bool) -> None:
        """About 30 times a second: somebody speaks, or nobody does."""
        ...

    def ear_failed(self, error: Exception) -> None: ...


class Ear:
    """One call's ear."""

    def __init__(
        self, bank: VoiceActivityBank, profile: TurnProfile, listener: EarListener
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._detector = TurnDetector(profile)
        self._listener = listener
        self._audio = bytearray()
        self._audio_start = 0
        """Sample position of the first byte of `_audio`."""
        self._fed = 0
        """Samples fed since the start."""
        self._fed_at = self._loop.time()
        self._begin = 0
        """Sample position where the present utterance begins, its lead included."""
        self._gap_timer: asyncio.TimerHandle | None = None
        self._stream = bank.open(self._judge, listener.ear_failed)

    @property
    def hears_voice(self) -> bool:
        """True while the caller speaks, not in a pause."""
        return self._detector.state is TurnState.SPEAKING

    @property
    def in_turn(self) -> bool:
        return self._detector.state is not TurnState.LISTENING

    def hear(self, pcm: bytes) -> None:
        """Take the next frame (s16 at 8 kHz)."""
        self._fed_at = self._loop.time()
        self._take(pcm)

    def text_is(self, *, complete: bool, unfinished: bool) -> None:
        """Pass on what the recogniser made of the present pause."""
        self._detector.text_is(complete=complete, unfinished=unfinished)

    def close(self) -> None:
        self._stream.close()
        if self._gap_timer is not None:
            self._gap_timer.cancel()

    def _take(self, pcm: bytes) -> None:
        self._audio += pcm
        self._fed += len(pcm) // 2
        if len(self._audio) > 2 * _KEEP_BYTES and not self.in_turn:
            self._audio_start += (len(self._audio) - _KEEP_BYTES) // 2
            del self._audio[:-_KEEP_BYTES]
        self._stream.feed(pcm)

    def _judge(self, probability: float, end: int) -> None:
        event = self._detector.judge(probability, end - WINDOW_SAMPLES, end)
        if event is not None:
            self._follow(event)
        self._listener.window_judged(voiced=self.in_turn)

    def _follow(self, event: SpeechStarted | SpeechPaused | SpeechResumed | TurnEnded) -> None:
        match event:
            case SpeechStarted(sample):
                self._begin = max(self._audio_start, sample - LEAD_MS * SAMPLES_PER_MS)
                self._watch_for_gaps()
                self._listener.speech_started(self._time_of(sample))
            case SpeechPaused():
                self._listener.speech_paused(self._utterance(self._fed))
            case SpeechResumed():
                self._listener.speech_resumed()
            case TurnEnded(sample, paused_at):
                utterance = self._utterance(sample)
                last = self._begin + last_speech_sample(utterance, paused_at - self._begin)
                self._listener.turn_ended(
                    utterance,
                    self._time_of(last),
                    self._time_of(sample),
                    max(0, (last - self._begin) // SAMPLES_PER_MS - LEAD_MS),
                )

    def _utterance(self, end: int) -> bytes:
        first = 2 * (self._begin - self._audio_start)
        return bytes(self._audio[first : 2 * (end - self._audio_start)])

    def _time_of(self, sample: int) -> float:
        return self._fed_at - (self._fed - sample) / RATE

    def _watch_for_gaps(self) -> None:
        if self._gap_timer is not None:
            self._gap_timer.cancel()
        self._gap_timer = self._loop.call_later(_GAP_CHECK, self._fill_gap)

    def _fill_gap(self) -> None:
        if not self.in_turn:
            self._gap_timer = None
            return
        missing = self._loop.time() - self._fed_at
        if missing > _GAP:
            self._fed_at += missing
            self._take(bytes(2 * int(missing * RATE)))
        self._gap_timer = self._loop.call_later(_GAP_CHECK, self._fill_gap)


def last_speech_sample(utterance: bytes, paused_at: int) -> int:
    """Where speech really ended, as a sample position within the utterance.

    The voice detector notices silence 138 ms late (median, measured), or gives up on a quiet last
    syllable, so the end is looked for in the energy: the last 10 ms that are louder than 30 dB
    below the loudest, up to `TAIL_MS` after `paused_at` (noise later than that is no speech).
    """
    samples = np.frombuffer(utterance, "<i2")[: max(0, paused_at + TAIL_MS * SAMPLES_PER_MS)]
    frames = samples[: len(samples) // 80 * 80].reshape(-1, 80).astype(np.float32)
    if not len(frames):
        return max(0, paused_at)
    power = np.einsum("ij,ij->i", frames, frames)
    loud = np.flatnonzero(power > power.max() * 1e-3)
    return int(loud[-1] + 1) * 80 if len(loud) else paused_at
