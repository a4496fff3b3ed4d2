"""Evidence for each intent in an utterance, independent of the wording.

Every content word of an intent's sentences and title, each of its keywords, and every value of its
lists is evidence. A word or list weighs less the more intents share it. Pure.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from cordboard.agents.rules.matching import Look, is_common
from cordboard.agents.rules.words import stem, tokenise
from cordboard.config.rules import Intent
from cordboard.config.sentences import Wording

_TYPED_VALUE = 0.4
"""Evidence of a date, a time or a number; a value of a list counts 1."""
_SURELY = 0.7
"""Certainty that a heard word needs to count as evidence."""
_DOUBTFUL = 0.1
"""Cost from which a date, a time or a number does not count as evidence."""


@dataclass(frozen=True, slots=True)
class Support:
    """The evidence for an intent in one utterance."""

    intent: str
    words: float
    values: float

    @property
    def total(self) -> float:
        return self.words + self.values


@dataclass(frozen=True, slots=True)
class Evidence:
    """The words and lists that count for one intent."""

    intent: str
    words: Mapping[str, float]
    """Stem → weight."""
    lists: Mapping[str, float]
    phrases: Sequence[re.Pattern[str]]
    """The keywords, as patterns over stems."""
    unless: Sequence[re.Pattern[str]]

    def weigh(self, heard: Mapping[str, float], values: Collection[str], text: str) -> Support:
        """Weigh the evidence. `heard`: stem → certainty; `values`: the lists with a value in the
        utterance; `text`: the stems of the utterance."""
        if any(pattern.search(text) for pattern in self.unless):
            return Support(self.intent, 0.0, 0.0)
        words = sum(sure * self.words.get(word, 0.0) for word, sure in heard.items())
        phrases = sum(1.0 for pattern in self.phrases if pattern.search(text))
        return Support(
            self.intent, words + phrases, sum(self.lists.get(name, 0.0) for name in values)
        )


def weigh_all(evidence: Iterable[Evidence], look: Look) -> list[Support]:
    """Return the intents with any evidence."""
    heard: dict[str, float] = {}
    idle = look.denied | look.dated
    for word, places in look.words.items():
        sure = [s for start, _, s in places if s >= _SURELY and start not in idle]
        if sure and not is_common(word):
            heard[stem(word)] = max(sure)
    for place, token in enumerate(look.tokens):
        if token.is_content and place not in idle:
            heard[stem(token.text)] = 1.0
    values = {
        name
        for name, spans in look.spans.items()
        for s in spans
        if s.is_clear and (s.named or s.cost < _DOUBTFUL) and s.start not in look.denied
    }
    text = "".join(f"{stem(token.text)} " for token in look.tokens)
    found = [each.weigh(heard, values, text) for each in evidence]
    return [support for support in found if support.total > 0]


def compile_evidence(
    rows: Iterable[tuple[str, Wording]],
    intents: Mapping[str, Intent],
    lists: Mapping[str, Mapping[str, bool]],
    wordings: Callable[[str], Iterable[Wording]],
) -> tuple[Evidence, ...]:
    """Compile the evidence. `rows`: intent and wording of every sentence; `lists`: intent → list of
    its slots → True if its values are names; `wordings` reads a template."""
    words: dict[str, set[str]] = {}
    for name in intents:
        words[name] = {token.text for token in tokenise(intents[name].title)}
    for name, wording in rows:
        if name in words:
            words[name].update(word for position in wording for word in position.words)
    stems = {n: {stem(word) for word in found if not is_common(word)} for n, found in words.items()}
    sharing = Counter(word for found in stems.values() for word in found)
    sharing_lists = Counter(name for found in lists.values() for name in found)

    def patterns(texts: Iterable[str]) -> list[re.Pattern[str]]:
        return [_pattern(wording) for text in texts for wording in wordings(text)]

    return tuple(
        Evidence(
            name,
            {word: 1.0 / sharing[word] for word in stems[name]},
            {
                found: (1.0 if named else _TYPED_VALUE) / sharing_lists[found]
                for found, named in lists[name].items()
            },
            patterns(intent.keywords),
            patterns(intent.unless),
        )
        for name, intent in intents.items()
    )


def _pattern(wording: Wording) -> re.Pattern[str]:
    """Return a pattern that finds the wording, which has words only, in an utterance's stems."""
    pattern = ""
    for position in wording:
        words = "|".join(re.escape(stem(word)) for word in position.words)
        pattern += f"(?:(?:{words}) )?" if position.optional else f"(?:{words}) "
    return re.compile(rf"(?<![^ ])(?:{pattern})")
