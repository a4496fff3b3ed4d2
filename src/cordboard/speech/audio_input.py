"""The caller's sound on its way to turns: voice activity, loudness, the utterance, the clock.

The `AudioInput` keeps the recent sound, feeds the turn-taking machine and hands its events to the
agent
with what belongs to them: the sound of an utterance, loop times for sample positions. It runs on
the event loop; a frame costs an append and the voice activity stream's feed. When frames stop
coming in the middle of an utterance (a phone that mutes its RTP), it puts silence in their place so
that the turn still ends.
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
"""Sound kept from before the first voiced window: the detector needs 33-103 ms to notice speech."""
_KEEP_BYTES = 2 * RATE
"""While nobody speaks, about one second is kept."""
_GAP_CHECK = 0.1
_GAP = 0.3
"""Frames missing for so long are a gap. A DTMF key stops the sound for about 0.2 s (measured)."""
_DEAF = 4 * RATE
"""Samples that may wait for the voice detector: beyond that it has stopped working."""
_TONE_BYTES = 2 * 48 * SAMPLES_PER_MS
"""What a key's tone is looked for in: 48 ms."""
_SURELY_SILENT = 0.1
"""Below this probability the sound of a window is the line's noise."""


class AudioInputListener(Protocol):
    """What the ear asks and tells its agent. Synchronous, on the event loop."""

    def noticed(self, event: TurnEvent) -> None: ...

    def heard(self, pcm: bytes) -> None:
        """The next piece of the line's sound, with silence in the place of what is missing."""
        ...

    def agent_voice(self) -> AgentVoice:
        """What the caller hears of the agent now."""
        ...

    def foreign(self, sound: bytes) -> str:
        """Why this sound, taken for a voice, is not the caller's; empty when it may be."""
        ...

    def ear_failed(self, error: Exception) -> None: ...


class AudioInput:
    """One call's ear."""

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
        """Sample at which the present voice began."""
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
        """When the voice began to be heard of which the detector is sure from `onset` on."""
        pcm = self.utterance(onset, onset + WINDOW_SAMPLES)
        first = speech_onset(np.frombuffer(pcm, "<i2"), RATE, self._loudness.noise)
        begin = onset if first is None else onset + WINDOW_SAMPLES - len(pcm) // 2 + first
        return self.time_of(min(begin, onset))

    def last_audible(self, onset: int, until: int) -> int | None:
        """The sample after the last one of an utterance that can be heard, by the rule that every
        telephone can follow too (`cordboard.audio.levels`); None when there is none."""
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
        """While callers speak nobody else's voice is looked for; in their pauses a continuer of
        ours may come back."""
        floor = self._taker.floor
        if floor is Floor.PAUSED:
            return self._listener.agent_voice() is not AgentVoice.SILENT
        return floor is not Floor.SPEAKING

    def _last(self, end: int, count: int) -> bytes:
        """So many bytes of sound before the sample `end`; fewer at the very beginning."""
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
