"""Find the values of an utterance that may fill the blanks of a sentence.

One `Finder` for each list of the rules: it returns `Span`s, places with a value and a cost.
`matching` assigns spans to slots.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date

from cordboard.agents.rules.dates import DATE_WORDS, LONGEST, read_date, say_date
from cordboard.agents.rules.letters import (
    AlphabetHit,
    Spelled,
    Speller,
    sounds_like,
)
from cordboard.agents.rules.numbers import (
    HOMOPHONES,
    NUMBER_WORDS,
    read_digits,
    read_number,
)
from cordboard.agents.rules.times import (
    LONGEST_TIME,
    TIME_WORDS,
    is_within,
    read_time,
    say_time,
)
from cordboard.agents.rules.words import CANCELLING, REPLACING, Token
from cordboard.config.rules import WordList

CODE_LENGTH = 4
_LONGEST_NAME = 3
_LONGEST_NUMBER = 6
_DOUBTED_LETTERS = 0.3
"""A code whose letters add up to more doubt than this is asked about unless it is listed."""
_NOT_LISTED = 0.06
_NEARLY_LISTED = 0.05
"""Cost of a code that may have been intended."""
_BARE = 0.1
"""Cost of a figure without a word that shows its kind: `seven` as a time, `two` before a time."""
_BEFORE_TIMES = frozenset("at around by about before after until till from to".split())
_NAME_CUES = frozenset(("name is", "name of"))
_INTRODUCTIONS = frozenset(("i am", "this is"))
"""Before a name with a capital letter: "I'm afraid", "this is urgent"."""
_NO_NAME = NUMBER_WORDS | DATE_WORDS | REPLACING | CANCELLING | {"name", "under"}
_MOODS = frozenset("afraid sorry sure busy late sick ill happy glad free unable able".split())
"""No names after these, in texts without capitals."""


@dataclass(frozen=True, slots=True)
class Value:
    """A value in its form for tools, and in its spoken form."""

    value: str | int
    spoken: str


@dataclass(frozen=True, slots=True)
class Span:
    """A value in the words `start` to `end` (exclusive); no value: something that is not listed."""

    start: int
    end: int
    value: Value | None
    cost: float
    """0 = exact; above `limit` it is only a guess."""
    limit: float = 0.14
    bare: bool = False
    """Counts only as an answer to a question, or beside a word of a sentence: a mere `seven` may be
    a time, a number or neither, and any word may be a name."""
    named: bool = False
    """One of several names that may sound alike."""

    @property
    def is_clear(self) -> bool:
        return self.value is not None and self.cost <= self.limit

    def overlaps(self, other: Span) -> bool:
        return self.start < other.end and other.start < self.end


@dataclass(frozen=True, slots=True)
class Judged:
    """The reading of a slot."""

    value: Value | None = None
    """The value, if certain enough to act on."""
    guesses: tuple[Value, ...] = ()
    """The possible values, at most two, that the caller is asked about."""

    @property
    def is_unknown(self) -> bool:
        return self.value is None and not self.guesses


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The context of the words for finders."""

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
        return self.spec.spelled or self.spec.type in ("icao", "letters", "code")

    @property
    def is_closed(self) -> bool:
        """True if a fitting value cannot continue: as an answer it is complete."""
        return self.spec.type in ("list", "icao", "letters", "code") or (
            self.spec.type == "digits" and self.spec.length is not None
        )

    def _listed(self, tokens: Sequence[Token], around: Surroundings) -> Iterator[Span]:
        yield from around.phrases
        if self.spec.spelled:
            yield from self._spelled(tokens, around)

    def _spelled(self, tokens: Sequence[Token], around: Surroundings) -> Iterator[Span]:
        """Yield codes that are listed, or not but allowed, or something unknown; and the listed
        codes that a spelled one sounds like."""
        codes = {value for value in self.values if value.isalpha()}
        speller = Speller(codes, around.words, figures=self.spec.type == "code")
        for length in sorted({len(code) for code in codes} or {self.spec.length or CODE_LENGTH}):
            here = sorted(code for code in codes if len(code) == length)
            for run in speller.find(tokens, around.alphabet, length):
                cost = min(0.2, run.doubt / 12)
                known = self.values.get(run.code)
                if known is not None:
                    yield Span(run.start, run.end, known, cost, named=True)
                elif self.spec.others or self.spec.type != "list":
                    sure = run.doubt <= _DOUBTED_LETTERS and not (here and run.named)
                    value = Value(run.code, " ".join(run.code))
                    limit = 0.14 if sure else 0.0
                    yield Span(run.start, run.end, value, cost + _NOT_LISTED, limit, named=True)
                else:
                    yield Span(run.start, run.end, None, cost)
                yield from self._resembling(run, here)
            for run in speller.find(tokens, around.alphabet, length - 1) if here else ():
                yield from self._resembling(run, here)

    def _resembling(self, run: Spelled, listed: Sequence[str]) -> Iterator[Span]:
        for code in listed:
            if sounds_like(run, code):
                cost = _NEARLY_LISTED + min(0.1, run.doubt / 12)
                yield Span(run.start, run.end, self.values[code], cost, 0.0, named=True)

    def _numbers(self, tokens: Sequence[Token], around: Surroundings) -> Iterator[Span]:
        low = self.spec.minimum if self.spec.minimum is not None else 0
        high = self.spec.maximum if self.spec.maximum is not None else 999_999_999
        for start, end, words in _windows(tokens, _LONGEST_NUMBER, NUMBER_WORDS):
            number = read_number(words)
            if number is None or "and" in (words[0], words[-1]):
                continue
            homophone = words[0] in HOMOPHONES
            cost = 0.2 if homophone else _BARE if _is_timed(tokens, start) else 0.0
            if low <= number <= high:
                yield Span(start, end, Value(number, str(number)), cost, 0.3, bare=True)
            elif not homophone:
                yield Span(start, end, None, cost, bare=True)

    def _digits(self, tokens: Sequence[Token], around: Surroundings) -> Iterator[Span]:
        for start, end, words in _windows(tokens, 40, NUMBER_WORDS):
            digits = read_digits(words)
            if digits is None:
                continue
            if self.spec.length is None or len(digits) == self.spec.length:
                yield Span(start, end, Value(digits, " ".join(digits)), 0.0)
            else:
                yield Span(start, end, None, 0.1)

    def _dates(self, tokens: Sequence[Token], around: Surroundings) -> Iterator[Span]:
        for start, end, words in _windows(tokens, LONGEST, DATE_WORDS):
            day = read_date(words, around.today)
            if day is not None:
                yield Span(start, end, Value(day.isoformat(), say_date(day)), 0.0)

    def _times(self, tokens: Sequence[Token], around: Surroundings) -> Iterator[Span]:
        earliest, latest = self.spec.hours
        for start, end, words in _windows(tokens, LONGEST_TIME, TIME_WORDS):
            moment = read_time(words, earliest, latest)
            if moment is None or (
                words == ["one"] and len(tokens) > 2 and not _is_timed(tokens, start)
            ):
                continue
            bare = all(read_number([word]) is not None for word in words)
            if bare and words[0] in HOMOPHONES:
                continue
            bare = bare and not _is_timed(tokens, start)
            known = is_within(moment, earliest, latest)
            value = Value(f"{moment:%H:%M}", say_time(moment)) if known else None
            yield Span(start, end, value, _BARE if bare else 0.0, bare=bare)

    def _names(self, tokens: Sequence[Token], around: Surroundings) -> Iterator[Span]:
        cased = any(token.name_like for token in tokens)
        for start in range(len(tokens)):
            before = " ".join(t.text for t in tokens[max(0, start - 2) : start])
            cued, under = before in _NAME_CUES, before.split()[-1:] == ["under"]
            if under or before in _INTRODUCTIONS:
                cued = tokens[start].name_like  # it may be "under warranty"
                if not (under or cued) and (cased or tokens[start].text in _MOODS):
                    continue
            cost = 0.0 if cued or under else 0.1
            for end in range(start + 1, min(start + _LONGEST_NAME, len(tokens)) + 1):
                token = tokens[end - 1]
                if not token.is_content or not token.text.isalpha() or token.text in _NO_NAME:
                    break
                words = " ".join(_named(t.written or t.text) for t in tokens[start:end])
                name = words.replace(" -", "-").lstrip("-")
                yield Span(start, end, Value(name, name), cost, bare=not cued)

    def _texts(self, tokens: Sequence[Token], around: Surroundings) -> Iterator[Span]:
        text = " ".join(token.text for token in tokens)
        yield Span(0, len(tokens), Value(text, text), 0.1, bare=True)


_Find = Callable[[Finder, Sequence[Token], Surroundings], Iterator[Span]]
_FINDERS: Mapping[str, _Find] = {
    "list": Finder._listed,
    "icao": Finder._spelled,
    "letters": Finder._spelled,
    "code": Finder._spelled,
    "number": Finder._numbers,
    "digits": Finder._digits,
    "date": Finder._dates,
    "time": Finder._times,
    "name": Finder._names,
    "text": Finder._texts,
}


def _named(word: str) -> str:
    """Return a word of a name with its capitals: as it was written if it has some; `o'brien` is
    O'Brien."""
    if word != word.lower():
        return word
    return re.sub(r"(^|['-])(\w)(?!$)", lambda match: match[1] + match[2].upper(), word)


def _is_timed(tokens: Sequence[Token], start: int) -> bool:
    return start > 0 and tokens[start - 1].text in _BEFORE_TIMES


def _windows(
    tokens: Sequence[Token], longest: int, allowed: Collection[str]
) -> Iterator[tuple[int, int, list[str]]]:
    """Yield stretches of words that are all figures or `allowed`."""
    words = [token.text for token in tokens]
    for start in range(len(words)):
        for end in range(start + 1, min(start + longest, len(words)) + 1):
            if words[end - 1] not in allowed and not words[end - 1][0].isdigit():
                break
            yield start, end, words[start:end]
