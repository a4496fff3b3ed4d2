"""The audio input of one call: voice activity, loudness, utterances and the sample clock.

`AudioInput` keeps the recent sound, feeds the turn state machine and passes its events to the
agent, with the sound of an utterance and the loop times of sample positions. It runs on the event
loop; a frame costs an append and one feed of the voice activity stream. When frames stop in the
middle of an utterance (a phone that mutes its RTP), it inserts silence so that the turn still ends.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

import numpy as np

from cordboard.audio.levels import last_audible, speech_onset
from cordboard.audio.sample_clock import SampleClock
from cordboard.audio.vad import RATE, WINDOW_SAMPLES, VoiceActivityBank
from cordboard.errors import AgentError
from cordboard.speech.turns.events import (
    AgentVoice,
    Events,
    Floor,
    TurnEvent,
)
from cordboard.speech.turns.loudness import Loudness
from cordboard.speech.turns.profiles import TurnProfile
from cordboard.speech.turns.state_machine import (
    SAMPLES_PER_MS,
    TurnTaker,
)
from cordboard.speech.turns.text_clues import TextClue

LEAD_MS = 300
"""Sound kept from before the first voiced window; the detector needs 33-103 ms to notice speech."""
_KEEP_BYTES = 2 * RATE
"""Sound kept during silence: about one second."""
_GAP_CHECK = 0.1
_GAP = 0.3
"""Seconds without frames that count as a gap. A DTMF key stops the sound for about 0.2 s
(measured)."""
_DEAF = 4 * RATE
"""Samples that may wait for the voice detector; more than this means that it has stopped
working."""
_TONE_BYTES = 2 * 48 * SAMPLES_PER_MS
"""Bytes of sound that are searched for a key's tone: 48 ms."""
_SURELY_SILENT = 0.1
"""A window with a probability below this is line noise."""


class AudioInputListener(Protocol):
    """Callbacks of the audio input. Synchronous, on the event loop."""

    def noticed(self, event: TurnEvent) -> None: ...

    def heard(self, pcm: bytes) -> None:
        """Take the next piece of the line's sound, with silence in place of missing frames."""

    def agent_voice(self) -> AgentVoice:
        """Return the part of the agent's speech that the caller hears now: none, open or
        protected."""

    def foreign(self, sound: bytes) -> str:
        """Return the reason why `sound`, detected as a voice, is not the caller's voice; empty when
        it may be."""

    def ear_failed(self, error: Exception) -> None: ...


class AudioInput:
    """The audio input of one call."""

    def __init__(
        self, bank: VoiceActivityBank, profile: TurnProfile, listener: AudioInputListener
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._taker = TurnTaker(profile)
        self._unvoiced_below = profile.unvoiced_below
        self._listener = listener
        self._audio = bytearray()
        self._audio_start = 0
        """Sample position of the first byte of `_audio`."""
        self._fed = 0
        """Samples fed since the start."""
        self._judged = 0
        self._fed_at = self._loop.time()
        self._clock = SampleClock(RATE)
        self._loudness = Loudness()
        self._gap_timer: asyncio.TimerHandle | None = None
        self._stream = bank.open(self._judge, listener.ear_failed)

    @property
    def onset(self) -> int:
        """Sample at which the current voice segment began."""
        return self._taker.onset

    def hear(self, pcm: bytes) -> None:
        """Take the next frame (s16 at 8 kHz)."""
        self._fed_at = self._loop.time()
        self._take(pcm)

    def learn_text(self, pause: int, clue: TextClue) -> None:
        self._tell(self._taker.learn_text(pause, clue))

    def learn_odds(self, pause: int, odds: float) -> None:
        self._tell(self._taker.learn_odds(pause, odds))

    def learn_words(self, overlap: int, clue: TextClue, *, sure: bool) -> None:
        self._tell(self._taker.learn_words(overlap, clue, sure=sure))

    def key_pressed(self) -> None:
        self._tell(self._taker.key_pressed())

    def utterance(self, onset: int, end: int | None = None) -> bytes:
        """The sound from shortly before `onset` to `end`, or all there is."""
        begin = max(self._audio_start, onset - LEAD_MS * SAMPLES_PER_MS)
        stop = self._fed if end is None else end
        return bytes(self._audio[2 * (begin - self._audio_start) : 2 * (stop - self._audio_start)])

    def began_at(self, onset: int) -> float:
        """Return the loop time at which the voice that is certain from sample `onset` became
        audible."""
        pcm = self.utterance(onset, onset + WINDOW_SAMPLES)
        first = speech_onset(np.frombuffer(pcm, "<i2"), RATE, self._loudness.noise)
        begin = onset if first is None else onset + WINDOW_SAMPLES - len(pcm) // 2 + first
        return self.time_of(min(begin, onset))

    def last_audible(self, onset: int, until: int) -> int | None:
        """Return the sample after the last audible one of an utterance, or None. Audible is defined
        by `cordboard.audio.levels`, a rule that every telephone can follow too."""
        pcm = self.utterance(onset, until)
        last = last_audible(np.frombuffer(pcm, "<i2"), RATE, self._loudness.noise)
        return None if last is None else until - len(pcm) // 2 + last

    def time_of(self, sample: int) -> float:
        """Loop time at which a sample was on the line."""
        return self._clock.time_of(sample)

    def close(self) -> None:
        self._stream.close()
        if self._gap_timer is not None:
            self._gap_timer.cancel()

    def _take(self, pcm: bytes) -> None:
        samples = len(pcm) // 2
        self._clock.take(samples, self._fed_at)
        self._audio += pcm
        self._fed += samples
        self._listener.heard(pcm)
        if len(self._audio) > 2 * _KEEP_BYTES and self._taker.floor is Floor.QUIET:
            self._audio_start += (len(self._audio) - _KEEP_BYTES) // 2
            del self._audio[:-_KEEP_BYTES]
        self._stream.feed(pcm)
        if self._fed - self._judged > _DEAF and not self._stream.closed:
            self._stream.close()
            self._listener.ear_failed(AgentError("the voice detector does not answer"))

    def _judge(self, probability: float, end: int) -> None:
        start = end - WINDOW_SAMPLES
        self._judged = end
        window = self._last(end, 2 * WINDOW_SAMPLES)
        taker, listener = self._taker, self._listener
        quiet = taker.floor is Floor.QUIET
        if len(window) == 2 * WINDOW_SAMPLES:
            self._loudness.take(window, start, silent=quiet and probability < _SURELY_SILENT)
        if quiet and probability < self._unvoiced_below:
            self._tell(taker.judge(probability, start, end))
            return
        foreign = ""
        if probability >= self._unvoiced_below and self._may_be_foreign():
            foreign = listener.foreign(self._last(end, _TONE_BYTES))
        events = taker.judge(
            probability,
            start,
            end,
            heard_until=self._loudness.heard_until,
            agent=listener.agent_voice(),
            foreign=foreign,
        )
        if quiet and taker.floor is not Floor.QUIET:
            self._watch_for_gaps()
        self._tell(events)

    def _may_be_foreign(self) -> bool:
        """True while the sound may be another voice than the caller's: not while the caller speaks,
        but in pauses, where a continuer of the engine may come back as echo."""
        floor = self._taker.floor
        if floor is Floor.PAUSED:
            return self._listener.agent_voice() is not AgentVoice.SILENT
        return floor is not Floor.SPEAKING

    def _last(self, end: int, count: int) -> bytes:
        """Return `count` bytes of sound before the sample `end`; fewer at the start of the call."""
        stop = 2 * (end - self._audio_start)
        return bytes(self._audio[max(0, stop - count) : stop])

    def _tell(self, events: Events) -> None:
        for event in events:
            self._listener.noticed(event)

    def _watch_for_gaps(self) -> None:
        if self._gap_timer is not None:
            self._gap_timer.cancel()
        self._gap_timer = self._loop.call_later(_GAP_CHECK, self._fill_gap)

    def _fill_gap(self) -> None:
        if self._taker.floor is Floor.QUIET:
            self._gap_timer = None
            return
        missing = self._loop.time() - self._fed_at
        if missing > _GAP:
            self._fed_at += missing
            self._take(bytes(2 * int(missing * RATE)))
        self._gap_timer = self._loop.call_later(_GAP_CHECK, self._fill_gap)
