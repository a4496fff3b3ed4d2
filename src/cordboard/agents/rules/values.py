"""What may stand in the blank of a sentence, found in an utterance.

One `Finder` for each list of the rules: it gives `Span`s, places with a value and a cost. Which
span is meant is decided by the sentence around it (`matching`); whether it is sure enough to act on
by `judge`: a value that only resembles what was said, or that has a rival, is asked about.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date

from cordboard.agents.rules.dates import LONGEST, read_date, say_date
from cordboard.agents.rules.letters import (
    AlphabetHit,
    Spelled,
    find_spelled,
    lost_a_double,
    sounds_like,
)
from cordboard.agents.rules.numbers import read_digits, read_number
from cordboard.agents.rules.times import (
    LONGEST_TIME,
    is_within,
    read_time,
    say_time,
)
from cordboard.agents.rules.words import Token
from cordboard.config.rules import WordList

ICAO_LENGTH = 4
_FREE_COST = 0.1
"""A free text fits anything, so an exact match of something definite must beat it."""
_LONGEST_NAME = 3
_NO_NAME = frozenset({"speaking", "calling", "name"})
_LONGEST_NUMBER = 6
_RIVAL = 0.09
"""Two values whose costs differ less than this cannot be told apart."""
_DOUBTED_LETTERS = 0.3
"""A code whose letters add up to more doubt than this is asked about unless it is listed."""
_SURE_WHEN_DOUBLED = 0.08
_NOT_LISTED = 0.06
_NEARLY_LISTED = 0.05
"""Cost of a code that may have been meant."""


@dataclass(frozen=True, slots=True)
class Value:
    """A value as tools get it, and as the agent says it."""

    value: str | int
    spoken: str


@dataclass(frozen=True, slots=True)
class Span:
    """A value in the words `start` to `end` (exclusive); no value: something that is not listed."""

    start: int
    end: int
    value: Value | None
    cost: float
    """0 = exactly that; above `limit` it is only a guess."""
    limit: float = 0.14
    spelled: bool = False
    """Found as a whole code in alphabet words, perhaps run together; not letter by letter."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A slot as it was understood."""

    value: Value | None = None
    """Sure enough to act on."""
    guesses: tuple[Value, ...] = ()
    """What it may have been, at most two; asked about."""

    @property
    def is_unknown(self) -> bool:
        return self.value is None and not self.guesses


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What finders may look at besides the words."""

    phrases: Sequence[Span]
    """List values found by sound, of this list."""
    alphabet: Collection[AlphabetHit]
    words: Collection[str]
    """The context's own words."""
    today: date


@dataclass(frozen=True, slots=True)
class Finder:
    """Finds the values of one list."""

    spec: WordList
    values: Mapping[str, Value] = field(default_factory=dict)

    def find(self, tokens: Sequence[Token], around: Surroundings) -> list[Span]:
        return list(_FINDERS[self.spec.type](self, tokens, around))

    @property
    def spells(self) -> bool:
        return self.spec.spelled or self.spec.type in ("icao", "letters")

    @property
    def has_rivals(self) -> bool:
        """Whether two of its values may sound alike; of the others the longest fit is meant."""
        return self.spec.type in ("list", "icao", "letters")

    @property
    def is_closed(self) -> bool:
        """Whether a value that fits cannot go on: asked for, it is a whole answer."""
        return self.spec.type in ("list", "icao", "letters") or (
            self.spec.type == "digits" and self.spec.length is not None
        )

    def _listed(self, tokens: Sequence[Token], around: Surroundings) -> Iterator[Span]:
        runs = list(self._spelled(tokens, around)) if self.spec.spelled else []
        clean = [(run.start, run.end) for run in runs if run.limit > 0]
        for span in around.phrases:
            if not (span.spelled and any(s < span.end and span.start < e for s, e in clean)):
                yield span
        yield from runs

    def _spelled(self, tokens: Sequence[Token], around: Surroundings) -> Iterator[Span]:
        codes = {value for value in self.values if value.isalpha()}
        for length in sorted({len(code) for code in codes} or {self._length()}):
            here = [code for code in codes if len(code) == length]
            for run in find_spelled(
                tokens, around.alphabet, length, listed=codes, words=around.words
            ):
                yield from self._spelled_as(run, sorted(here))
            if here:
                for run in find_spelled(tokens, around.alphabet, length - 1, words=around.words):
                    yield from self._resembling(run, sorted(here), _alone(run, tokens, around))

    def _spelled_as(self, run: Spelled, listed: Sequence[str]) -> Iterator[Span]:
        """A code of full length: listed, or not but allowed, or only resembling listed ones."""
        cost = min(0.2, run.doubt / 12)
        known = self.values.get(run.code)
        if known is not None:
            yield Span(run.start, run.end, known, cost)
        elif self.spec.others or self.spec.type != "list":
            sure = run.doubt <= _DOUBTED_LETTERS and (not listed or not any(run.named))
            value = Value(run.code, " ".join(run.code))
            yield Span(run.start, run.end, value, cost + _NOT_LISTED, 0.14 if sure else 0.0)
        else:
            yield Span(run.start, run.end, None, cost)
        yield from self._resembling(run, listed)

    def _resembling(
        self, run: Spelled, listed: Sequence[str], alone: bool = False
    ) -> Iterator[Span]:
        for code in listed:
            if sounds_like(run, code):
                cost = _NEARLY_LISTED + min(0.1, run.doubt / 12)
                sure = _SURE_WHEN_DOUBLED if alone and lost_a_double(run, code) else 0.0
                yield Span(run.start, run.end, self.values[code], cost, sure)

    def _length(self) -> int:
        return self.spec.length or ICAO_LENGTH

    def _numbers(self, tokens: Sequence[Token], around: Surroundings) -> Iterator[Span]:
        low = self.spec.minimum if self.spec.minimum is not None else 0
        high = self.spec.maximum if self.spec.maximum is not None else 999_999_999
        for start, end, words in _windows(tokens, _LONGEST_NUMBER):
            number = read_number(words)
            if number is None or words[-1] == "and" or words[0] == "and":
                continue
            homophone = words[0] in ("to", "too", "for", "won", "ate")
            if low <= number <= high:
                yield Span(start, end, Value(number, str(number)), 0.2 if homophone else 0.0, 0.3)
            elif not homophone:
                yield Span(start, end, None, 0.0)

    def _digits(self, tokens: Sequence[Token], around: Surroundings) -> Iterator[Span]:
        for start, end, words in _windows(tokens, 40):
            digits = read_digits(words)
            if digits is None:
                continue
            if self.spec.length is None or len(digits) == self.spec.length:
                yield Span(start, end, Value(digits, " ".join(digits)), 0.0)
            else:
                yield Span(start, end, None, 0.1)

    def _dates(self, tokens: Sequence[Token], around: Surroundings) -> Iterator[Span]:
        for start, end, words in _windows(tokens, LONGEST):
            day = read_date(words, around.today)
            if day is not None:
                yield Span(start, end, Value(day.isoformat(), say_date(day)), 0.0)

    def _times(self, tokens: Sequence[Token], around: Surroundings) -> Iterator[Span]:
        earliest, latest = self.spec.hours
        for start, end, words in _windows(tokens, LONGEST_TIME):
            moment = read_time(words, earliest, latest)
            if moment is None:
                continue
            if is_within(moment, earliest, latest):
                yield Span(start, end, Value(f"{moment:%H:%M}", say_time(moment)), 0.0)
            else:
                yield Span(start, end, None, 0.0)

    def _names(self, tokens: Sequence[Token], around: Surroundings) -> Iterator[Span]:
        for start in range(len(tokens)):
            for end in range(start + 1, min(start + _LONGEST_NAME, len(tokens)) + 1):
                token = tokens[end - 1]
                if not token.is_content or not token.text.isalpha() or token.text in _NO_NAME:
                    break
                name = " ".join(t.text.capitalize() for t in tokens[start:end])
                yield Span(start, end, Value(name, name), _FREE_COST)

    def _texts(self, tokens: Sequence[Token], around: Surroundings) -> Iterator[Span]:
        for start in range(len(tokens)):
            for end in range(start + 1, len(tokens) + 1):
                text = " ".join(token.text for token in tokens[start:end])
                yield Span(start, end, Value(text, text), _FREE_COST)


_Find = Callable[[Finder, Sequence[Token], Surroundings], Iterator[Span]]
_FINDERS: Mapping[str, _Find] = {
    "list": Finder._listed,
    "icao": Finder._spelled,
    "letters": Finder._spelled,
    "number": Finder._numbers,
    "digits": Finder._digits,
    "date": Finder._dates,
    "time": Finder._times,
    "name": Finder._names,
    "text": Finder._texts,
}


def _alone(run: Spelled, tokens: Sequence[Token], around: Surroundings) -> bool:
    """Whether no word that may be one more letter, misheard, stands right beside it."""
    return not any(
        token.is_content and token.text not in around.words
        for token in (*tokens[max(0, run.start - 1) : run.start], *tokens[run.end : run.end + 1])
    )


def _windows(tokens: Sequence[Token], longest: int) -> Iterator[tuple[int, int, list[str]]]:
    words = [token.text for token in tokens]
    for start in range(len(words)):
        for end in range(start + 1, min(start + longest, len(words)) + 1):
            yield start, end, words[start:end]


def judge(chosen: Span, spans: Collection[Span], *, crowded: bool) -> Judged:
    """Whether the chosen span is sure enough to act on.

    `crowded`: words that belong to nothing stand right beside it ("London Gatwick").
    """
    if chosen.value is None:
        return Judged()
    rivals: dict[str | int, tuple[float, Value]] = {}
    for span in spans:
        if span.value is None or span.end <= chosen.start or span.start >= chosen.end:
            continue
        missed = (chosen.end - chosen.start) - (span.end - span.start)
        cost = span.cost + 0.15 * max(0, missed)
        if span.value.value != chosen.value.value and cost < chosen.cost + _RIVAL:
            known = rivals.get(span.value.value)
            if known is None or cost < known[0]:
                rivals[span.value.value] = (cost, span.value)
    ordered = sorted(rivals.values(), key=lambda rival: (rival[0], str(rival[1].value)))
    if chosen.cost <= chosen.limit and not crowded and not ordered:
        return Judged(chosen.value)
    return Judged(None, (chosen.value, *(value for _, value in ordered[:1])))


def spoken_alias(said: str) -> str:
    """How a listed value is said, as written by the operator."""
    return re.sub(r"\s+", " ", said).strip()
