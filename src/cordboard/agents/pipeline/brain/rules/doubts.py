"""When a listed name is in doubt, and what another hearing may make of it.

In doubt is what would lead to a question about a listed value, or to none at all: a value that was
only guessed at or is missing, or words that make no sense. A confusable name that was clearly heard
is in no doubt. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from cordboard.agents.pipeline.brain.base import Doubt
from cordboard.agents.pipeline.brain.rules import builtin
from cordboard.agents.pipeline.brain.rules.grammar import Grammar, Reading
from cordboard.agents.pipeline.brain.rules.letters import in_alphabet_words
from cordboard.agents.pipeline.brain.rules.matching import Filled, Look
from cordboard.agents.pipeline.brain.rules.sound import SoundIndex
from cordboard.agents.pipeline.brain.rules.values import Finder, Value
from cordboard.agents.pipeline.brain.rules.words import plain

MOST_NAMES = 48
"""Given to a recogniser at once; more would be cut off."""
_MOST_ALIKE = 5
"""Values among which is chosen when only a few are expected."""
_NAMES_OF_A_VALUE = 3
_ALMOST = 0.2
"""Up to which cost a confusable name is almost the same: "Newark" is 0.13 from New York, "Orlando"
0.05 from Arlanda, "Bristol" 0.26 from Boston."""
_LIKENESS = 0.6
"""Up to which cost a name may have been said: 0 = sounds the same, 1 = nothing in common."""


def find_doubt(grammar: Grammar, look: Look, reading: Reading | None) -> Doubt | None:
    """Whether the reading leaves a listed name open, and which it may be."""
    named = _named(grammar)
    said = [names for _, _, names in _values(named)]
    names = tuple(dict.fromkeys([n[0] for n in said] + [o for n in said for o in n[1:]]))
    if not names or not look.tokens or _names_another(look, named):
        return None
    if not _is_open(grammar, look, reading):
        return _almost_another(look, reading, named) if reading is not None else None
    guesses = [
        (reading.lists[slot], guess)
        for slot, judged in (reading.slots.items() if reading else ())
        for guess in judged.guesses
        if reading is not None and reading.lists[slot] in named
    ]
    if any(str(guess.value) not in named[name].spec.values for name, guess in guesses):
        return None  # a code that is not listed is asked about in any case
    spelled = [
        form
        for name, guess in guesses
        if named[name].spec.spelled and str(guess.value).isalpha() and str(guess.value).isupper()
        for form in (in_alphabet_words(str(guess.value)).title(), " ".join(str(guess.value)))
    ]
    alike = (*spelled, *_alike(look, named))
    return Doubt(names[:MOST_NAMES], alike, frozenset(_key(name, guess) for name, guess in guesses))


def meaning_of(grammar: Grammar, reading: Reading, intent: str, doubt: Doubt) -> str:
    """What a reading of an intent with listed values says, if it leaves nothing open, agrees with
    what was guessed at, and acting on it does no harm or is asked about first; else nothing."""
    chosen = grammar.intents.get(intent)
    if chosen is None or not (intent in grammar.harmless or chosen.confirm):
        return ""
    named = _named(grammar)
    keys = set()
    for slot, judged in reading.slots.items():
        if judged.value is None:
            return ""
        if reading.lists[slot] in named:
            keys.add(_key(reading.lists[slot], judged.value))
    if not keys or (doubt.guesses and not keys <= doubt.guesses):
        return ""
    return f"{intent} {sorted((s, j.value) for s, j in reading.slots.items())!r}"


def _named(grammar: Grammar) -> dict[str, Finder]:
    """The lists of names that callers say: not destinations."""
    return {
        name: finder
        for name, finder in grammar.finders.items()
        if finder.spec.type == "list" and name != builtin.DESTINATIONS
    }


def _as_written(look: Look, found: Filled, finder: Finder) -> bool:
    """Whether the words are a way to say the value, letter by letter."""
    value = found.judged.value
    said = finder.spec.values.get(str(value.value), ()) if value is not None else ()
    here = " ".join(token.said for token in look.tokens[found.start : found.end])
    return here in map(plain, said)


def _values(named: Mapping[str, Finder]) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """List, value and the first ways to say it."""
    for name, finder in named.items():
        for value, said in finder.spec.values.items():
            yield name, value, said[:_NAMES_OF_A_VALUE]


def _names_another(look: Look, named: Mapping[str, Finder]) -> bool:
    """Whether a confusable name was heard as it is."""
    text = f" {' '.join(token.said for token in look.tokens)} "
    others = (other for finder in named.values() for other in finder.spec.confusable)
    return any(f" {plain(other)} " in text for other in others)


def _almost_another(look: Look, reading: Reading, named: Mapping[str, Finder]) -> Doubt | None:
    """Whether a value that was written as it is sounds almost like a confusable name."""
    for slot, found in reading.filled.items():
        finder, value = named.get(reading.lists[slot]), found.judged.value
        if finder is None or value is None or not finder.spec.confusable:
            continue
        words = look.tokens[found.start : found.end]
        written = " ".join(token.said for token in words)
        said = finder.spec.values.get(str(value.value), ())
        known = tuple(name for name in said if plain(name) == written)
        confusable = finder.spec.confusable
        hits = _index(confusable, _ALMOST).find_all(words)
        others = [confusable[hit.entry] for hit in hits if hit.end - hit.start == len(words)]
        if known and others:
            return Doubt(known, others=tuple(dict.fromkeys(others)))
    return None


def _is_open(grammar: Grammar, look: Look, reading: Reading | None) -> bool:
    if reading is None:
        return not any(span.is_clear for name in _named(grammar) for span in look.spans[name])
    if not reading.sure and not all(
        _as_written(look, found, grammar.finders[reading.lists[slot]])
        for slot, found in reading.filled.items()
    ):
        return True
    intent = grammar.intents.get(reading.intent)
    if intent is not None and any(
        slot not in reading.slots and spec.required and spec.default is None
        for slot, spec in intent.slots.items()
        if grammar.finders[reading.lists[slot]].spec.type == "list"
    ):
        return True
    return any(judged.value is None for judged in reading.slots.values())


def _alike(look: Look, named: Mapping[str, Finder]) -> tuple[str, ...]:
    """The names of the values that sound most like some of these words."""
    entries = [
        (name, value, plain(said))
        for name, finder in named.items()
        for value, names in finder.spec.values.items()
        for said in names
    ]
    hits = _index([said for _, _, said in entries], _LIKENESS).find_all(look.tokens)
    hits.sort(key=lambda hit: (hit.cost, hit.start - hit.end))
    best = [*dict.fromkeys(entries[hit.entry][:2] for hit in hits)][:_MOST_ALIKE]
    names = {(name, value): said for name, value, said in _values(named)}
    return tuple(dict.fromkeys(said for found in best for said in names[found]))


def _index(phrases: Sequence[str], limit: float) -> SoundIndex:
    listed = [plain(phrase) for phrase in phrases]
    return SoundIndex(listed, [limit] * len(listed))


def _key(list_name: str, value: Value) -> str:
    return f"{list_name}:{value.value}"
