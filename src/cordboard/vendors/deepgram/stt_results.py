"""The results of Deepgram's `/v1/listen`, ordered by time; pure.

Results come phrase by phrase: interim ones, which the next one replaces, and final ones. This
module turns them into the words between two positions in the caller's sound. All positions are
samples at 8 kHz since the call began; each connection counts anew, so it has a `base`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from cordboard.audio.vad import RATE

KEEP = 60 * RATE
"""Samples for which phrases are kept: twice the longest turn."""
REACH = RATE * 3 // 20
"""Samples by which a result may end before the requested sound."""
_LATEST = 24 * 3600
"""Longest possible time in a call, in seconds; a later time is invalid."""


@dataclass(frozen=True, slots=True)
class Word:
    """One word with its times."""

    text: str
    start: int
    end: int
    confidence: float


@dataclass(frozen=True, slots=True)
class Phrase:
    """One result."""

    text: str
    words: tuple[Word, ...]
    start: int
    end: int


def as_object(message: bytes) -> dict[str, Any] | None:
    """Return a message that is a JSON object; None for any other."""
    try:
        read = orjson.loads(message)
    except orjson.JSONDecodeError:
        return None
    return read if isinstance(read, dict) else None


def number(value: object, most: float = _LATEST) -> float | None:
    """Return a number from 0 to `most`; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= most else None


def words_of(items: object, base: int, text_keys: Iterable[str]) -> tuple[Word, ...]:
    """Return the readable words of a result that have times."""
    found = []
    for item in items if isinstance(items, list) else ():
        if not isinstance(item, dict):
            continue
        text = next((item[key] for key in text_keys if isinstance(item.get(key), str)), "")
        start, end = number(item.get("start")), number(item.get("end"))
        if text and start is not None and end is not None:
            sure = number(item.get("confidence"), 1.0)
            found.append(
                Word(
                    text,
                    base + int(start * RATE),
                    base + int(end * RATE),
                    1.0 if sure is None else sure,
                )
            )
    return tuple(found)


def text_between(phrases: Iterable[Phrase], begin: int, end: int) -> tuple[str, float]:
    """Return the text spoken between two samples, and its mean confidence (0 where there is none).

    A phrase that lies within is taken as it was written; other phrases contribute the words whose
    middle lies within.
    """
    texts: list[str] = []
    sure: list[float] = []
    for phrase in phrases:
        inside = [word for word in phrase.words if begin <= (word.start + word.end) // 2 < end]
        if phrase.words and len(inside) == len(phrase.words):
            texts.append(phrase.text)
        elif not phrase.words and phrase.text and phrase.end > begin and phrase.start < end:
            texts.append(phrase.text)
            sure.append(1.0)
        else:
            texts.extend(word.text for word in inside)
        sure.extend(word.confidence for word in inside)
    text = " ".join(filter(None, texts))
    return text, (sum(sure) / len(sure) if text and sure else 0.0)


class Results:
    """All results of `/v1/listen` in one call, over all its connections."""

    def __init__(self) -> None:
        self._final: deque[Phrase] = deque()
        self._interim: Phrase | None = None
        self._base = 0
        self.covered = 0
        """The sample up to which all results are final."""
        self.heard_until = 0
        """The sample up to which there are results."""
        self.answered = 0
        """Number of results that answered a `Finalize`."""
        self.problem = ""
        """The problem that the service reports; empty when there is none."""

    def connected(self, base: int) -> None:
        """Note a new connection; its sound begins at this sample."""
        self._base = base
        self._interim = None
        self.covered = self.heard_until = base
        self._final = deque(phrase for phrase in self._final if phrase.end <= base + REACH)
        self.problem = ""

    def read(self, message: bytes) -> bool:
        """Take a message. False: it is malformed, and nothing has changed."""
        told = as_object(message)
        if told is None:
            return False
        match told.get("type"):
            case "Results":
                return self._result(told)
            case "Error":
                said = told.get("description") or told.get("message")
                self.problem = str(said or "an error")[:200]
                return True
            case str():
                return True  # Metadata, SpeechStarted, UtteranceEnd, and future message types
        return False

    def text(self, begin: int, end: int) -> tuple[str, float]:
        """Return the text between two samples, including interim results."""
        phrases = [*self._final, self._interim] if self._interim else self._final
        return text_between(phrases, begin, end)

    def _result(self, told: Mapping[str, Any]) -> bool:
        phrase = self._phrase(told)
        if phrase is None:
            return False
        self.heard_until = max(self.heard_until, phrase.end)
        if told.get("is_final") is not True:
            if phrase.end > self.covered:
                self._interim = phrase
            return True
        if told.get("from_finalize") is True:
            self.answered += 1
        if phrase.end > self.covered:  # otherwise it is a repetition
            self._interim = None
            self.covered = phrase.end
            if phrase.text:
                self._final.append(phrase)
            while self._final and self._final[0].end < self.covered - KEEP:
                self._final.popleft()
        return True

    def _phrase(self, told: Mapping[str, Any]) -> Phrase | None:
        start, lasts = number(told.get("start")), number(told.get("duration"))
        channel = told.get("channel")
        if start is None or lasts is None or not isinstance(channel, dict):
            return None
        alternatives = channel.get("alternatives")
        best = alternatives[0] if isinstance(alternatives, list) and alternatives else None
        if not isinstance(best, dict) or not isinstance(best.get("transcript"), str):
            return None
        words = words_of(best.get("words"), self._base, ("punctuated_word", "word"))
        begin = self._base + int(start * RATE)
        return Phrase(best["transcript"].strip(), words, begin, begin + int(lasts * RATE))
