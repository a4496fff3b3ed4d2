"""The ears of an emulated recogniser: scripted words, spread over the detected voice.

A script that improvises recognises the voice itself, at each pause.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cordboard.audio.g711 import alaw_to_linear, ulaw_to_linear
from cordboard_testkit.emulators.script import CallerTurn, Prompter

MS_PER_WORD = 250
"""Duration of voice that counts as one word."""
ENOUGH_QUIET_MS = 60
"""Silence after which all words are recognised."""
ONSET_MS = 60
LEAD_MS = 300
"""Sound from before the voice that belongs to its words: the first consonant is quiet."""
_LOUD = 500


def decoded(data: bytes, encoding: str) -> bytes:
    """s16 of a piece of sound."""
    match encoding:
        case "mulaw":
            return ulaw_to_linear(data)
        case "alaw":
            return alaw_to_linear(data)
    return data[: len(data) // 2 * 2]


@dataclass(slots=True)
class HeardWord:
    """One word and when it was said, in seconds of sound."""

    text: str
    start: float
    end: float

    @property
    def bare(self) -> str:
        return self.text.strip(".,!?").lower()


class Ear:
    """Follows the sound of one connection; one scripted answer for each turn of the caller, or for
    each piece up to a pause."""

    def __init__(self, prompter: Prompter, rate: int, turn_silence_ms: int) -> None:
        self._prompter = prompter
        self._rate = rate
        self._turn_silence_ms = turn_silence_ms
        self._loud_ms = 0.0
        self._words: list[str] = []
        self._sound = bytearray()
        """Sound that is not recognised for good, for a script that improvises."""
        self._unheard = False
        self._started_ms = 0.0
        self._loud_until_ms = 0.0
        self._given = 0
        self.heard_ms = 0.0
        self.quiet_ms = 0.0
        self.in_turn = False

    def hear(self, pcm: bytes) -> str:
        """Take s16 sound: `started`, `resumed`, `ended` (the turn) or nothing."""
        samples = np.frombuffer(pcm, "<i2")
        news = ""
        size = self._rate // 50
        for at in range(0, len(samples), size):
            news = self._frame(samples[at : at + size]) or news
        return news

    def _frame(self, samples: np.ndarray[tuple[int], np.dtype[np.int16]]) -> str:
        ms = len(samples) * 1000 / self._rate
        self.heard_ms += ms
        self._keep(samples)
        if int(np.abs(samples.astype(np.int32)).max(initial=0)) < _LOUD:
            self.quiet_ms += ms
            if self.quiet_ms > 100:
                self._loud_ms = 0.0
            if self._unheard and self.quiet_ms >= ENOUGH_QUIET_MS:
                self._recognise()
            if self.in_turn and self.quiet_ms >= self._turn_silence_ms:
                self.in_turn = False
                return "ended"
            return ""
        self._loud_ms += ms
        resumed = self.in_turn and self.quiet_ms >= ENOUGH_QUIET_MS
        self.quiet_ms = 0.0
        self._loud_until_ms = self.heard_ms
        if self.in_turn:
            self._unheard = self._prompter.improvises
            return "resumed" if resumed else ""
        if self._loud_ms < ONSET_MS:
            return ""
        self.in_turn = True
        self._unheard = self._prompter.improvises
        self._words = [] if self._unheard else self._prompter.answer().heard.split()
        self._started_ms = self.heard_ms - self._loud_ms
        self._given = 0
        return "started"

    def _keep(self, samples: np.ndarray[tuple[int], np.dtype[np.int16]]) -> None:
        if self._prompter.improvises:
            if not self.in_turn:
                del self._sound[: -2 * self._rate * LEAD_MS // 1000]
            self._sound += samples.tobytes()

    def _recognise(self) -> None:
        self._unheard = False
        turn = CallerTurn(sound=bytes(self._sound), rate=self._rate)
        self._words[self._given :] = self._prompter.answer(turn).heard.split()

    def words(self) -> list[HeardWord]:
        """All words of the turn that are recognised by now."""
        count = len(self._words)
        if not count:
            return []
        lasted = max(1.0, self._loud_until_ms - self._started_ms)
        if self.quiet_ms < ENOUGH_QUIET_MS:
            count = min(count, int(lasted // MS_PER_WORD))
        each = lasted / max(count, 1)
        begin = self._started_ms
        return [
            HeardWord(word, (begin + n * each) / 1000, (begin + (n + 1) * each) / 1000)
            for n, word in enumerate(self._words[:count])
        ]

    def new_words(self) -> list[HeardWord]:
        """The words that have not been returned as final."""
        return self.words()[self._given :]

    def give(self) -> list[HeardWord]:
        """Return the words that were not final, and make them final."""
        new = self.new_words()
        self._given += len(new)
        self._sound.clear()
        return new
