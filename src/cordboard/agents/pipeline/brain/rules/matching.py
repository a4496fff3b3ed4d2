"""Which intent an utterance speaks for, and which words fill its slots.

Two measures. `WordingTable.fits`: how nearly the utterance is one of an intent's sentences, as a
bag of words and values. `Evidence`: how much of an intent's own words and values are in it at all,
each word weighing the more the fewer intents share it. Order matters to neither; `fill` tells slots
apart by the words that stand around them in the sentences.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from cordboard.agents.pipeline.brain.rules.values import Finder, Judged, Span, Value
from cordboard.agents.pipeline.brain.rules.words import FILLERS, FUNCTION_WORDS, Token, stem
from cordboard.config.sentences import Position, Wording

_SLOT_WEIGHT = 1.4
_COMMON_WEIGHT = 0.15
_DECISIVE = frozenset({"yes", "no", "not", "up"})
"""Small words that make the whole difference where a sentence asks for them: `hang on` is not
`hang up`."""
_ADDED = 0.7
_ADDED_COMMON = 0.1
_ADDED_FILLER = 0.02
_ADDED_DENIED = 2.0
"""A `not` that no sentence foresees: whatever else fits, that was not asked for."""
_RIVAL = 0.09
"""Two values whose costs differ less than this cannot be told apart."""
_LIKELY = 0.3
"""Cost up to which a doubtful value makes a sentence likely."""
_CUE_BONUS = 0.06
_SAME_NAME = 0.12
"""Cost up to which a word that is heard as part of a listed name is one."""
_ARTICLES = frozenset("the a an my your".split())
_SURELY = 0.7
"""How surely a word must have been heard to speak for something."""
_LENGTH_BONUS = 0.08
_TYPED_VALUE = 0.4
"""Evidence of a date, a time or a number; a value of a list counts 1."""
_CORRECTIONS = frozenset(
    "no but sorry actually wait hang hold rather mean make excuse correction".split()
)


@dataclass(frozen=True, slots=True)
class Look:
    """What was found in one utterance, whatever it will turn out to mean."""

    text: str
    tokens: tuple[Token, ...]
    words: Mapping[str, Sequence[tuple[int, int, float]]]
    """Expected word → first word, after the last word, and how surely it was heard there (0..1)."""
    spans: Mapping[str, Sequence[Span]]
    """List → values found."""
    denied: frozenset[int]
    known: Collection[str]
    """The context's own words."""

    @property
    def dated(self) -> frozenset[int]:
        """Places of dates, times and numbers: `tomorrow` is a value, whatever else it may be."""
        spans = [s for found in self.spans.values() for s in found if s.is_clear]
        sure = [span for span in spans if not (span.named or span.bare)]
        return frozenset(place for span in sure for place in range(span.start, span.end))


@dataclass(frozen=True, slots=True)
class Fit:
    """How nearly an utterance is a sentence of an intent."""

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
        """Word, or {list} → the columns that it belongs to."""
        for key, number in classes.items():
            for word in key:
                self._columns.setdefault(word, []).append(number)
        shape = (len(kept), len(classes))
        self._has = np.zeros(shape, dtype=np.float32)
        self._needed = np.zeros(shape, dtype=np.float32)
        self._strict = np.ones(len(kept), dtype=np.float32)
        """Of a sentence of small words none may be missing."""
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
        """The best wording of each active intent, the best first. Words of `courtesy` cost little
        where no sentence has them."""
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
        uncovered = (has @ covers) == 0
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
    """{list} and where its values were found."""
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


@dataclass(frozen=True, slots=True)
class Support:
    """What speaks for an intent."""

    intent: str
    words: float
    values: float

    @property
    def total(self) -> float:
        return self.words + self.values


@dataclass(slots=True)
class Evidence:
    """The words of each intent that say what is wanted, and the lists of its slots."""

    words: dict[str, set[str]] = field(default_factory=dict)
    """Intent → stems of its content words."""
    phrases: dict[str, list[re.Pattern[str]]] = field(default_factory=dict)
    """Intent → its keywords, to be found in an utterance as they are."""
    unless: dict[str, list[re.Pattern[str]]] = field(default_factory=dict)
    lists: dict[str, set[str]] = field(default_factory=dict)
    """Intent → lists of its slots; not those that take any word."""
    typed: set[str] = field(default_factory=set)
    """Lists that are no names: dates, times, numbers."""

    def weigh(self, look: Look) -> list[Support]:
        """The intents that something speaks for, the strongest first."""
        heard: dict[str, float] = {}
        idle = look.denied | look.dated
        for word, places in look.words.items():
            sure = [s for start, _, s in places if s >= _SURELY and start not in idle]
            if sure and not is_common(word):
                heard[stem(word)] = max(sure)
        for place, token in enumerate(look.tokens):
            if token.is_content and place not in idle:
                heard[stem(token.text)] = 1.0
        clear = {
            name
            for name, spans in look.spans.items()
            if any(
                s.is_clear and (s.cost < 0.1 or s.named) and s.start not in look.denied
                for s in spans
            )
        }
        text = "".join(f"{stem(token.text)} " for token in look.tokens)
        found = [self._support(intent, heard, clear, text) for intent in self.words]
        return sorted((s for s in found if s.total > 0), key=lambda s: -s.total)

    def _support(
        self, intent: str, heard: Mapping[str, float], clear: Collection[str], text: str
    ) -> Support:
        if any(pattern.search(text) for pattern in self.unless.get(intent, ())):
            return Support(intent, 0.0, 0.0)
        words = sum(
            strength / self._sharing(self.words, word)
            for word, strength in heard.items()
            if word in self.words[intent]
        )
        phrases = sum(1.0 for p in self.phrases.get(intent, ()) if p.search(text))
        values = sum(
            (_TYPED_VALUE if name in self.typed else 1.0) / self._sharing(self.lists, name)
            for name in self.lists[intent].intersection(clear)
        )
        return Support(intent, words + phrases, values)

    @staticmethod
    def _sharing(table: Mapping[str, set[str]], item: str) -> int:
        return sum(item in items for items in table.values())


@dataclass(frozen=True, slots=True)
class Filled:
    """A slot, and the words that fill it."""

    judged: Judged
    start: int
    end: int


def fill(
    look: Look,
    slots: Mapping[str, str],
    cues: Mapping[str, Collection[str]],
    asked: str = "",
) -> dict[str, Filled]:
    """Slot → its value, of those that were said. `slots`: slot → list; `cues`: slot → words that
    stand beside it in sentences.

    A value that only resembles what was said, has a rival or an unknown name beside it is a guess.
    """
    pairs = [
        (_rank(look, span, cues.get(slot, ())), slot, span)
        for slot, name in slots.items()
        for span in look.spans.get(name, ())
        if span.value is not None
        and span.start not in look.denied
        and not _is_part(span, look.spans[name])
    ]
    pairs.sort(key=lambda pair: (not pair[2].is_clear, pair[0]))
    usable = [
        pair
        for pair in pairs
        if not pair[2].bare or pair[1] == asked or _is_cued(look, pair[2], cues.get(pair[1], ()))
    ]
    shortest = sorted(usable, key=lambda pair: (pair[2].end - pair[2].start, pair[0]))
    taken = max((_assign(usable), _assign(shortest)), key=len)
    filled: dict[str, Filled] = {}
    for slot, span in taken.items():
        others = [pair for pair in pairs if pair[1] == slot and pair[2] is not span]
        free = [
            (rank, other)
            for rank, _, other in others
            if not any(other.overlaps(used) for name, used in taken.items() if name != slot)
        ]
        chosen, rival = _settle(look, span, _rank(look, span, cues.get(slot, ())), free)
        crowded = _is_crowded(look, chosen, cues.get(slot, ()), look.spans[slots[slot]])
        sure = chosen.is_clear and rival is None and not crowded
        values = [found.value for found in (chosen, rival) if found is not None and found.value]
        judged = Judged(values[0]) if sure else Judged(None, tuple(values))
        filled[slot] = Filled(judged, chosen.start, chosen.end)
    return filled


def _assign(pairs: Iterable[tuple[float, str, Span]]) -> dict[str, Span]:
    """Each slot's first span, none of whose words another slot has taken."""
    taken: dict[str, Span] = {}
    for _, slot, span in pairs:
        if slot not in taken and not any(span.overlaps(other) for other in taken.values()):
            taken[slot] = span
    return taken


def _is_part(span: Span, spans: Sequence[Span]) -> bool:
    """Whether it is a part of something longer that is no value: `ten` of `half past ten`, where
    that is too late."""
    return not span.named and any(
        other.value is None
        and other.start <= span.start
        and span.end <= other.end
        and other.end - other.start > span.end - span.start
        for other in spans
    )


def _rank(look: Look, span: Span, cues: Collection[str]) -> float:
    """Exact ones first, longer ones first, those with a cue beside them first."""
    cued = _is_cued(look, span, cues)
    return span.cost - _LENGTH_BONUS * (span.end - span.start) - (_CUE_BONUS if cued else 0.0)


def _is_cued(look: Look, span: Span, cues: Collection[str]) -> bool:
    before = look.tokens[span.start - 1].text if span.start else ""
    after = look.tokens[span.end].text if span.end < len(look.tokens) else ""
    return before in cues or after in cues


def _settle(
    look: Look, first: Span, rank: float, others: Sequence[tuple[float, Span]]
) -> tuple[Span, Span | None]:
    """Of the values that may fill a slot the one that is meant, and one that it may be instead.

    The later of two wins where words of correction stand between them.
    """
    chosen, rival = first, None
    for other_rank, other in others:
        if other.value == chosen.value:
            continue
        if other.overlaps(chosen):
            if not chosen.named:
                continue
            missed = max(0, (chosen.end - chosen.start) - (other.end - other.start))
            if other.cost + 0.15 * missed < chosen.cost + _RIVAL:
                rival = rival or other
            continue
        early, late = sorted((chosen, other), key=lambda span: span.start)
        between = {token.text for token in look.tokens[early.end : late.start]}
        if not other.is_clear:
            continue
        if between & _CORRECTIONS:
            chosen = late
        elif not other.bare and other_rank <= rank + _RIVAL:
            rival = rival or other
    if rival is not None and rival.start < chosen.start and not rival.overlaps(chosen):
        return rival, chosen
    return chosen, rival


def _is_crowded(look: Look, span: Span, cues: Collection[str], spans: Sequence[Span]) -> bool:
    """Whether an unknown name stands beside a name ("London Gatwick"), or where one of this slot
    would stand ("I am in Oslo, is it raining in Gothenburg?")."""
    if span.value is None or not (span.named and span.value.spoken[:1].isupper()):
        return False
    capitals = look.text != look.text.lower()
    same = [s for s in spans if s.is_clear and s.cost <= _SAME_NAME]
    own = {place for s in same for place in range(s.start, s.end)} | look.dated
    if span.end < len(look.tokens) and look.tokens[span.end].text in ("speaking", "calling"):
        return True
    for place, token in enumerate(look.tokens):
        if place in own or not token.is_content or token.text in look.known:
            continue
        before = place + 1 == span.start and token.name_like
        after = place == span.end and (token.name_like or not (capitals or token.after_stop))
        cue = look.tokens[place - 1].text if place else ""
        cued = token.name_like and cue in cues and cue not in _ARTICLES
        if before or after or cued:
            return True
    return False


def is_unknown(look: Look, name: str, cues: Collection[str], finder: Finder) -> bool:
    """Whether something that is no value of the list stands where one would: "in Gothenburg", a
    number out of bounds."""
    if finder.spec.type != "list":
        return any(
            span.value is None and (not span.bare or _is_cued(look, span, cues))
            for span in look.spans[name]
            if finder.spec.type in ("number", "time")
        )
    return any(
        token.is_content and token.text not in look.known and place > 0
        and look.tokens[place - 1].text in cues
        for place, token in enumerate(look.tokens)
    )  # fmt: skip


__all__ = ["Evidence", "Filled", "Fit", "Look", "Support", "Value", "WordingTable", "fill"]
