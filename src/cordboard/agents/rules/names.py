"""All names of a context's lists, to be found where they only might have been said.

`SoundIndex` in `grammar` finds what was said; this one, made of the lists' names alone, finds what
sounds a little like it, for a recogniser that listens again (`doubts`). Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from cordboard.agents.rules.sound import SoundIndex, phrase_sounds
from cordboard.agents.rules.values import Finder, Value
from cordboard.agents.rules.words import Token, plain, tokenise
from cordboard.config.rules import WordList

MOST_NAMES = 48
"""Told to a recogniser at once; more would be cut off."""
MOST_ALIKE = 5
"""Values among which is chosen when only a few are expected."""
NAMES_OF_A_VALUE = 3
_ALMOST = 0.2
"""Up to which cost a confusable name is almost the same: "Newark" is 0.13 from New York, "Orlando"
0.05 from Arlanda, "Bristol" 0.26 from Boston."""
_LIKENESS = 0.6
"""Up to which cost a name may have been said: 0 = sounds the same, 1 = nothing in common."""


class Names:
    """See the module's docstring."""

    def __init__(self, finders: Mapping[str, Finder]) -> None:
        self._names = {
            name: tuple(said[:NAMES_OF_A_VALUE] for said in finder.spec.values.values())
            for name, finder in finders.items()
        }
        self._others = {
            name: frozenset(map(plain, finder.spec.confusable)) for name, finder in finders.items()
        }
        self._confusable = {
            name: (finder.spec.confusable, _index(finder.spec.confusable, _ALMOST))
            for name, finder in finders.items()
        }
        self._entries: list[tuple[str, int]] = []
        phrases: list[str] = []
        for name, finder in finders.items():
            for number, said in enumerate(finder.spec.values.values()):
                for phrase in map(plain, said):
                    if phrase_sounds(phrase):
                        self._entries.append((name, number))
                        phrases.append(phrase)
        self._index = _index(phrases, _LIKENESS)

    @property
    def lists(self) -> Collection[str]:
        """The lists that have names."""
        return self._names.keys()

    def all_of(self, lists: Collection[str]) -> tuple[str, ...]:
        """The names of these lists: each value's own, then the other ways to say them."""
        values = [said for name in self._names if name in lists for said in self._names[name]]
        names = [said[0] for said in values] + [other for said in values for other in said[1:]]
        return tuple(dict.fromkeys(names))[:MOST_NAMES]

    def is_other(self, tokens: Sequence[Token], lists: Collection[str]) -> bool:
        """Whether a name was heard that is listed as confusable with one of these lists."""
        text = f" {' '.join(token.said for token in tokens)} "
        others = (name for found in lists for name in self._others.get(found, ()))
        return any(f" {name} " in text for name in others)

    def almost(self, said: Sequence[Token], list_name: str) -> tuple[str, ...]:
        """The confusable names that sound almost like all of these words."""
        names, index = self._confusable[list_name]
        hits = [hit for hit in index.find(said) if hit.end - hit.start == len(said)]
        return tuple(dict.fromkeys(names[hit.entry] for hit in hits))

    def alike(self, tokens: Sequence[Token], lists: Collection[str]) -> tuple[str, ...]:
        """The names of the values that sound most like some of these words."""
        hits = [hit for hit in self._index.find(tokens) if self._entries[hit.entry][0] in lists]
        hits.sort(key=lambda hit: (hit.cost, hit.start - hit.end))
        best = [*dict.fromkeys(self._entries[hit.entry] for hit in hits)][:MOST_ALIKE]
        said = [name for list_name, number in best for name in self._names[list_name][number]]
        return tuple(dict.fromkeys(said))


def _index(phrases: Sequence[str], limit: float) -> SoundIndex:
    return SoundIndex([plain(phrase) for phrase in phrases], [limit] * len(phrases))


def finder_of(spec: WordList) -> Finder:
    """What finds the values of a list."""
    values = {code: Value(code, said[0]) for code, said in spec.values.items()}
    return Finder(spec, {value.upper(): known for value, known in values.items()})


def words_of(finder: Finder) -> Iterator[str]:
    """The words of a list's names."""
    for names in finder.spec.values.values():
        for name in names:
            yield from (token.text for token in tokenise(name))
