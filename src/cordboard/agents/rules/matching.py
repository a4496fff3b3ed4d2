"""Scores of an utterance for each intent.

Two observations make up a score. *Nearness*: the sentences of all intents lie in one table, a row
for each wording, and the utterance is compared with all rows at once as a bag of words and values.
*Evidence*: every content word of an intent's sentences and title, each of its keywords, and every
value of its lists speaks for it, in whatever wording; the more intents share a word or a list, the
less. Pure.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cordboard.agents.rules.values import Span
from cordboard.agents.rules.words import (
    CANCELLING,
    CHANGING,
    FILLERS,
    Token,
    is_common,
    stem,
    tokenise,
)
from cordboard.config.rules import Intent
from cordboard.config.sentences import Position, Wording

_SLOT_WEIGHT = 1.4
_COMMON_WEIGHT = 0.15
_ADDED = 0.7
_ADDED_COMMON = 0.1
_ADDED_FILLER = 0.02
_ADDED_DENIED = 2.0
"""Cost of a `not` that no sentence contains: the caller did not ask for that."""
_LIKELY = 0.3
"""Cost up to which a doubtful value makes a sentence likely."""
_TYPED_VALUE = 0.4
"""Evidence of a date, a time or a number; a value of a list counts 1."""
_SURELY = 0.7
"""Certainty that a heard word needs to count as evidence."""
_DOUBTFUL = 0.1
"""Cost from which a date, a time or a number does not count as evidence."""
NEARLY = 0.45
"""Distance up to which an utterance is a sentence of the rules where there is no other evidence."""
_NEARNESS = 0.5
"""Weight of a sentence word for word beside the evidence."""
Places = Sequence[tuple[int, int, float]]
"""First word, after the last word, and how surely it was heard there (0..1)."""


@dataclass(frozen=True, slots=True)
class Look:
    """The words and values found in one utterance, before its interpretation."""

    text: str
    tokens: tuple[Token, ...]
    heard: Mapping[str, Places]
    """Stem of an expected word → its places."""
    spans: Mapping[str, Sequence[Span]]
    """List → found values."""
    denied: frozenset[int]
    """Places of negated words."""
    told: frozenset[int]
    """Places of words in reported speech, or about another time."""
    undone: frozenset[int]
    """Places of words that name what the caller wants to take back or to change."""
    known: Collection[str]
    """The context's own words."""

    @property
    def undoing(self) -> tuple[frozenset[str], ...]:
        """`CANCELLING`, `CHANGING`, both or neither, by the verbs at the places `undone`."""
        verbs = {self.tokens[place].text for place in self.undone}
        return tuple(each for each in (CANCELLING, CHANGING) if not each.isdisjoint(verbs))

    @property
    def is_over(self) -> bool:
        """True if the last words report something, or are about another time."""
        content = [place for place, token in enumerate(self.tokens) if token.is_content]
        return bool(content) and content[-1] in self.told

    @property
    def dated(self) -> frozenset[int]:
        """Places of dates, times and numbers: `tomorrow` is a value, even if it has other
        meanings."""
        spans = [s for found in self.spans.values() for s in found if s.is_clear]
        sure = [span for span in spans if not (span.named or span.bare)]
        return frozenset(place for span in sure for place in range(span.start, span.end))


@dataclass(frozen=True, slots=True)
class Score:
    """The score of one intent."""

    intent: str
    distance: float
    """From its nearest sentence: missing and unexplained weight relative to that of the sentence,
    0 = word for word, at most 1."""
    words: float = 0.0
    """Evidence of words."""
    values: float = 0.0
    """Evidence of values."""
    undoes: bool = True
    """False if the caller asks to take back or to change something, and this intent, which acts,
    has no such words."""

    @property
    def evidence(self) -> float:
        return self.words + self.values

    @property
    def is_slight(self) -> bool:
        """True if one word is all that speaks for it."""
        return self.words <= 1.0 and not self.values and self.distance > NEARLY

    @property
    def total(self) -> float:
        return self.evidence + _NEARNESS * (1.0 - self.distance)


@dataclass(frozen=True, slots=True)
class _Evidence:
    """The words and lists that count for one intent."""

    intent: str
    words: Mapping[str, float]
    """Stem → weight."""
    lists: Mapping[str, float]
    keywords: Sequence[re.Pattern[str]]
    """Patterns over stems."""
    harmless: bool

    def weigh(self, heard: Collection[str], text: str) -> float:
        words = sum(self.words.get(word, 0.0) for word in heard)
        return words + sum(1.0 for pattern in self.keywords if pattern.search(text))

    def knows(self, words: Collection[str]) -> bool:
        """True if one of these words speaks for the intent."""
        stems = [stem(word) for word in words]
        return any(self.weigh((word,), f"{word} ") for word in stems)


class Matcher:
    """All wordings and all evidence of a context."""

    def __init__(
        self,
        rows: Sequence[tuple[str, Wording]],
        intents: Mapping[str, Intent],
        lists: Mapping[str, Mapping[str, bool]],
        wordings: Callable[[str], Iterable[Wording]],
        harmless: Collection[str],
    ) -> None:
        """`rows`: intent and wording of every sentence. `lists`: intents that evidence may speak
        for → lists of their slots → True if the values are names. `wordings` reads a template.
        `harmless`: intents that may run needlessly."""
        self._fill_table(list(dict.fromkeys(rows)))
        stems: dict[str, set[str]] = {}
        for name in lists:
            said = [token.text for token in tokenise(intents[name].title)]
            said += [w for intent, row in rows if intent == name for p in row for w in p.words]
            stems[name] = {stem(word) for word in said if not is_common(word)}
        sharing = Counter(word for found in stems.values() for word in found)
        sharing_lists = Counter(name for found in lists.values() for name in found)
        self._evidence = [
            _Evidence(
                name,
                {word: 1.0 / sharing[word] for word in stems[name]},
                {
                    found: (1.0 if named else _TYPED_VALUE) / sharing_lists[found]
                    for found, named in lists[name].items()
                },
                [_pattern(w) for text in intents[name].keywords for w in wordings(text)],
                name in harmless,
            )
            for name in lists
        ]

    def _fill_table(self, rows: Sequence[tuple[str, Wording]]) -> None:
        self._intents = [intent for intent, _ in rows]
        classes: dict[tuple[str, ...], int] = {}
        for _, wording in rows:
            for position in wording:
                classes.setdefault(_key(position), len(classes))
        self._columns: dict[str, list[int]] = {}
        """Stem, or {list} → its columns."""
        for key, number in classes.items():
            for word in key:
                self._columns.setdefault(word, []).append(number)
        self._has = np.zeros((len(rows), len(classes)), dtype=np.float32)
        self._needed = np.zeros_like(self._has)
        for row, (_, wording) in enumerate(rows):
            for position in wording:
                column = classes[_key(position)]
                self._has[row, column] = 1.0
                if not position.optional:
                    self._needed[row, column] = _weight(position)
        self._whole = np.maximum(self._needed.sum(axis=1), 0.3)

    def scores(self, look: Look) -> list[Score]:
        """Return the scores of the intents that may be meant, the best first."""
        distances = self.distances(look)
        asked, said = look.undoing, _observed(look, frozenset())
        others = _observed(look, look.undone) if asked else said
        found = []
        for each in self._evidence:
            distance = distances.pop(each.intent, 1.0)
            undoes = not asked or any(each.knows(words) for words in asked)
            undoes = undoes or (each.harmless and CANCELLING not in asked)
            heard, values, text = said if undoes else others
            words, given = each.weigh(heard, text), sum(each.lists.get(n, 0.0) for n in values)
            distance = distance if undoes else 1.0
            if words or given or distance < 1.0:
                found.append(Score(each.intent, distance, words, given, undoes))
        found += [Score(name, distance) for name, distance in distances.items()]
        return sorted(found, key=lambda s: (not s.evidence, -s.total))

    def distances(self, look: Look) -> dict[str, float]:
        """Return the distance of each intent's nearest sentence, if it is less than 1."""
        places: dict[int, list[tuple[int, int, float]]] = {}
        for word, heard in (*look.heard.items(), *_values(look)):
            for column in self._columns.get(word, ()):
                places.setdefault(column, []).extend(heard)
        columns = list(places)
        if not columns:
            return {}
        strengths = [max(strength for _, _, strength in found) for found in places.values()]
        covers = np.zeros((len(columns), len(look.tokens)), dtype=np.float32)
        for cover, spots in zip(covers, places.values(), strict=True):
            for start, end, _ in spots:
                cover[start:end] = 1.0
        # All values are finite. Now and then BLAS flags an invalid one (seen once in a long run of
        # the tests), which as a warning says nothing to an operator.
        with np.errstate(invalid="ignore"):
            found = self._needed[:, columns] @ np.array(strengths, dtype=np.float32)
            missing = self._needed.sum(axis=1) - found
            uncovered = ((self._has[:, columns] @ covers) == 0).astype(np.float32)
            added = [_added(look, place) for place in range(len(look.tokens))]
            distance = (missing + uncovered @ np.array(added, dtype=np.float32)) / self._whole
        best: dict[str, float] = {}
        for row in np.argsort(distance, kind="stable").tolist():
            if distance[row] > 1.0:
                break
            best.setdefault(self._intents[row], float(distance[row]))
        return best


def _observed(look: Look, idle: frozenset[int]) -> tuple[set[str], set[str], str]:
    """Return the stems of the content words that were heard, the lists with a value, and the text
    as stems; without the words at the places `idle`."""
    void = look.denied | idle
    passive = void | look.dated
    heard = {
        word
        for word, places in look.heard.items()
        if any(
            sure >= _SURELY
            and start not in passive
            and (end - start > 1 or look.tokens[start].is_content)
            for start, end, sure in places
        )
    }
    values = {
        name
        for name, spans in look.spans.items()
        for s in spans
        if s.is_clear and (s.named or s.cost < _DOUBTFUL) and s.start not in void
    }
    tokens = (token for place, token in enumerate(look.tokens) if place not in idle)
    return heard, values, "".join(f"{stem(token.text)} " for token in tokens)


def _added(look: Look, place: int) -> float:
    token = look.tokens[place]
    if token.text in ("not", "never") and place in look.denied:
        return _ADDED_DENIED
    if token.text in FILLERS:
        return _ADDED_FILLER
    return _ADDED if token.is_content else _ADDED_COMMON


def _key(position: Position) -> tuple[str, ...]:
    return (f"{{{position.list}}}",) if position.list else tuple(map(stem, position.words))


def _values(look: Look) -> Iterable[tuple[str, Places]]:
    """Yield each {list} with the places of its values."""
    for name, spans in look.spans.items():
        found = [s for s in spans if s.value is not None and (s.is_clear or s.cost <= _LIKELY)]
        if found:
            yield f"{{{name}}}", [(span.start, span.end, 1.0 - span.cost) for span in found]


def _weight(position: Position) -> float:
    if position.list:
        return _SLOT_WEIGHT
    common = all(is_common(word) for word in position.words)
    return _COMMON_WEIGHT if common else 1.0


def _pattern(wording: Wording) -> re.Pattern[str]:
    """Return a pattern that finds the wording, which has words only, in an utterance's stems."""
    pattern = ""
    for position in wording:
        words = "|".join(re.escape(stem(word)) for word in position.words)
        pattern += f"(?:(?:{words}) )?" if position.optional else f"(?:{words}) "
    return re.compile(rf"(?<![^ ])(?:{pattern})")
