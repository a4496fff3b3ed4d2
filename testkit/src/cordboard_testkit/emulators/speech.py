"""The voices and ears of emulated services: audio by the length of words, turns by loudness.

`Beeper` is the voice of quick tests: each word is a tone whose length follows its letters, so
that the heard part can be measured. `Rendered` is real speech, made in advance by the offline
voice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

import numpy as np

from cordboard.agent_api.tts import Voice
from cordboard.audio.resample import Resampler, to_floats, to_pcm

MS_PER_LETTER = 60
_BETWEEN_MS = 40
_LEAD_MS = 300
"""Sound from before the voice that belongs to the turn: its first consonant is quiet."""
_LOUD = 500
"""Peak (s16) from which a frame counts as voice: speech by telephone has thousands."""


class Speaker(Protocol):
    """Turns a service's words into audio."""

    def speak(self, text: str, rate: int) -> bytes:
        """s16 mono at `rate`. The same text always gives the same audio."""
        ...


class Beeper:
    """Tones instead of words."""

    def __init__(self, frequency: float = 440.0) -> None:
        self._frequency = frequency

    def speak(self, text: str, rate: int) -> bytes:
        pieces = []
        for word in text.split():
            samples = rate * MS_PER_LETTER * len(word) // 1000
            times = np.arange(samples) / rate
            edge = np.minimum(1.0, np.minimum(times, times[::-1]) / 0.005)
            tone = 8000 * np.sin(2 * np.pi * self._frequency * times) * edge
            pieces.append(tone.astype("<i2").tobytes())
            pieces.append(bytes(2 * (rate * _BETWEEN_MS // 1000)))
        return b"".join(pieces)


class Rendered:
    """Real speech for known sentences; tones for all others."""

    def __init__(self, sounds: Mapping[str, bytes]) -> None:
        """`sounds`: s16 at 8 kHz by text."""
        self._sounds = sounds
        self._beeper = Beeper()

    @classmethod
    async def of(cls, voice: Voice, texts: Iterable[str]) -> Rendered:
        """Render these sentences with a voice."""
        sounds = {}
        for text in texts:
            sounds[text] = b"".join([pcm async for pcm in voice.speak(text, rate=8000)])
        return cls(sounds)

    def speak(self, text: str, rate: int) -> bytes:
        sound = self._sounds.get(text)
        if sound is None:
            return self._beeper.speak(text, rate)
        if rate == 8000:
            return sound
        resampler = Resampler(8000, rate)
        first = resampler.process(to_floats(sound))
        return to_pcm(np.concatenate((first, resampler.flush())))


class TurnGate:
    """Finds the caller's turns in the incoming audio: loud means speech. Time is in ms of audio,
    as the services count it."""

    def __init__(self, rate: int, silence_ms: int = 400, onset_ms: int = 60) -> None:
        self._per_ms = rate // 1000
        self._silence_ms = silence_ms
        self._onset_ms = onset_ms
        self._heard_ms = 0.0
        self._loud_ms = 0.0
        self._quiet_ms = 0.0
        self.sound = bytearray()
        """The current or last turn, from a little before its first sound."""
        self.speaking = False
        self.started_ms = 0
        """Start of the current or last turn."""
        self.stopped_ms = 0
        """End of the speech of that turn."""

    def hear(self, pcm: bytes) -> str:
        """Take s16 sound; returns `started`, `stopped` (the silence is long enough), or ""."""
        if not self.speaking:
            del self.sound[: -2 * self._per_ms * _LEAD_MS]
        self.sound += pcm
        samples = np.frombuffer(pcm, "<i2", len(pcm) // 2)
        ms = len(samples) / self._per_ms
        self._heard_ms += ms
        loud = len(samples) > 0 and int(np.abs(samples.astype(np.int32)).max()) >= _LOUD
        if loud:
            self._loud_ms += ms
            self._quiet_ms = 0.0
            if not self.speaking and self._loud_ms >= self._onset_ms:
                self.speaking = True
                self.started_ms = int(self._heard_ms - self._loud_ms)
                return "started"
        else:
            self._quiet_ms += ms
            if self._quiet_ms > 100:
                self._loud_ms = 0.0
            if self.speaking and self._quiet_ms >= self._silence_ms:
                self.speaking = False
                self.stopped_ms = int(self._heard_ms - self._quiet_ms)
                return "stopped"
        return ""
