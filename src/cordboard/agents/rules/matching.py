"""Similarity of an utterance to the sentences of the rules.

The wordings of all intents lie in one table, a row each with the expected words and lists. An
utterance is compared with all of them at once, as a bag of words and values: order does not matter.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cordboard.agents.rules.values import Span
from cordboard.agents.rules.words import FILLERS, FUNCTION_WORDS, Token
from cordboard.config.sentences import Position, Wording

_SLOT_WEIGHT = 1.4
_COMMON_WEIGHT = 0.15
_DECISIVE = frozenset({"yes", "no", "not", "up"})
"""Small words that change the meaning where a sentence contains them: `hang on` is not `hang
up`."""
_ADDED = 0.7
_ADDED_COMMON = 0.1
_ADDED_FILLER = 0.02
_ADDED_DENIED = 2.0
"""Cost of a `not` that no sentence contains: the caller did not ask for that."""
_LIKELY = 0.3
"""Cost up to which a doubtful value makes a sentence likely."""


@dataclass(frozen=True, slots=True)
class Look:
    """The words and values found in one utterance, before its interpretation."""

    text: str
    tokens: tuple[Token, ...]
    words: Mapping[str, Sequence[tuple[int, int, float]]]
    """Expected word → first word, after the last word, and how surely it was heard there (0..1)."""
    spans: Mapping[str, Sequence[Span]]
    """List → found values."""
    denied: frozenset[int]
    known: Collection[str]
    """The context's own words."""

    @property
    def dated(self) -> frozenset[int]:
        """Places of dates, times and numbers: `tomorrow` is a value, even if it has other
        meanings."""
        spans = [s for found in self.spans.values() for s in found if s.is_clear]
        sure = [span for span in spans if not (span.named or span.bare)]
        return frozenset(place for span in sure for place in range(span.start, span.end))


@dataclass(frozen=True, slots=True)
class Fit:
    """Similarity of an utterance to a sentence of an intent."""

    intent: str
    quality: float
    """Missing and unexplained weight relative to that of the sentence: 0 = word for word."""


def is_common(word: str) -> bool:
    return word in FUNCTION_WORDS or word in FILLERS


class WordingTable:
    """All wordings of a context, a column of expected words each."""

    def __init__(self, rows: Iterable[tuple[str, Wording]]) -> None:
        kept = list(dict.fromkeys(rows))
        self._intents = np.array([intent for intent, _ in kept])
        classes: dict[tuple[str, ...], int] = {}
        for _, wording in kept:
            for position in wording:
                classes.setdefault(_key(position), len(classes))
        self._columns: dict[str, list[int]] = {}
        """Word, or {list} → its columns."""
        for key, number in classes.items():
            for word in key:
                self._columns.setdefault(word, []).append(number)
        shape = (len(kept), len(classes))
        self._has = np.zeros(shape, dtype=np.float32)
        self._needed = np.zeros(shape, dtype=np.float32)
        self._strict = np.ones(len(kept), dtype=np.float32)
        """Columns of sentences that consist of small words: none of these may be missing."""
        for row, (_, wording) in enumerate(kept):
            light = all(_weight(p) == _COMMON_WEIGHT for p in wording)
            self._strict[row] = 2.0 if light else 1.0
            for position in wording:
                column = classes[_key(position)]
                self._has[row, column] = 1.0
                if not position.optional:
                    self._needed[row, column] = 1.0 if light else _weight(position)
        self._whole = np.maximum(self._needed.sum(axis=1), 0.3)

    def fits(
        self, look: Look, active: Collection[str], courtesy: Collection[str] = ()
    ) -> list[Fit]:
        """Return the best wording of each active intent, the best first. Words of `courtesy` cost
        little where no sentence contains them."""
        places: dict[int, list[tuple[int, int, float]]] = {}
        for word, heard in (*look.words.items(), *_values(look)):
            for column in self._columns.get(word, ()):
                places.setdefault(column, []).extend(heard)
        columns = list(places)
        if not columns:
            return []
        strengths = [max(strength for _, _, strength in found) for found in places.values()]
        covers = np.zeros((len(columns), len(look.tokens)), dtype=np.float32)
        for cover, spots in zip(covers, places.values(), strict=True):
            for start, end, _ in spots:
                cover[start:end] = 1.0
        has = self._has[:, columns]
        found = self._needed[:, columns] @ np.array(strengths, dtype=np.float32)
        missing = (self._needed.sum(axis=1) - found) * self._strict
        uncovered = ((has @ covers) == 0).astype(np.float32)
        added = [_added(look, place, courtesy) for place in range(len(look.tokens))]
        quality = (missing + uncovered @ np.array(added, dtype=np.float32)) / self._whole
        best: dict[str, float] = {}
        for row in np.argsort(quality, kind="stable").tolist():
            if quality[row] > 1.0:
                break
            intent = str(self._intents[row])
            if intent in active:
                best.setdefault(intent, float(quality[row]))
        return [Fit(intent, quality) for intent, quality in best.items()]


def _key(position: Position) -> tuple[str, ...]:
    return (f"{{{position.list}}}",) if position.list else position.words


def _values(look: Look) -> Iterable[tuple[str, Sequence[tuple[int, int, float]]]]:
    """Yield each {list} with the places of its values."""
    for name, spans in look.spans.items():
        found = [s for s in spans if s.value is not None and (s.is_clear or s.cost <= _LIKELY)]
        if found:
            yield f"{{{name}}}", [(span.start, span.end, 1.0 - span.cost) for span in found]


def _weight(position: Position) -> float:
    if position.list:
        return _SLOT_WEIGHT
    common = all(is_common(word) and word not in _DECISIVE for word in position.words)
    return _COMMON_WEIGHT if common else 1.0


def _added(look: Look, place: int, courtesy: Collection[str]) -> float:
    token = look.tokens[place]
    if token.text in ("not", "never") and place in look.denied:
        return _ADDED_DENIED
    if token.text in FILLERS:
        return _ADDED_FILLER
    return _ADDED_COMMON if not token.is_content or token.text in courtesy else _ADDED
