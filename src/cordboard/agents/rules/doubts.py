"""Find listed names in doubt, and interpret alternative texts for them.

In doubt is a name whose reading would lead to a question about a listed value, or to no value: one
that was only guessed or is missing, or words without a meaning. A confusable name that was heard
clearly is not in doubt. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cordboard.agent_api.dialogue import Doubt
from cordboard.agents.rules import builtin
from cordboard.agents.rules.filling import Filled
from cordboard.agents.rules.grammar import Grammar, Reading
from cordboard.agents.rules.letters import in_alphabet_words
from cordboard.agents.rules.matching import Look
from cordboard.agents.rules.sound import Hit, SoundIndex
from cordboard.agents.rules.values import Finder
from cordboard.agents.rules.words import Token, plain

MOST_NAMES = 48
"""Names given to a recogniser at once; more would be cut off."""
_MOST_ALIKE = 5
"""Values to choose among when only a few are expected."""
_NAMES_OF_A_VALUE = 3
_ALMOST = 0.2
"""Cost up to which a confusable name is almost the same: "Newark" is 0.13 from New York, "Orlando"
0.05 from Arlanda, "Bristol" 0.26 from Boston."""
_LIKENESS = 0.6
"""Cost up to which a name may have been spoken: 0 = sounds the same, 1 = nothing in common."""


def find_doubt(grammar: Grammar, look: Look, reading: Reading | None) -> Doubt | None:
    """Return the doubt if the reading leaves a listed name open, with the names it may be; else
    None."""
    named = _named(grammar)
    text = f" {' '.join(token.said for token in look.tokens)} "
    others = [plain(other) for finder in named.values() for other in finder.spec.confusable]
    if not named or not look.tokens or any(f" {other} " in text for other in others):
        return None
    if not _is_open(grammar, look, reading, named):
        return _almost_another(look, reading, named) if reading is not None else None
    guesses = [
        (reading.lists[slot], str(guess.value))
        for slot, judged in (reading.slots.items() if reading else ())
        for guess in judged.guesses
        if reading is not None and reading.lists[slot] in named
    ]
    if any(value not in named[name].spec.values for name, value in guesses):
        return None  # a code that is not listed is asked about in any case
    spelled = [
        form
        for name, value in guesses
        if named[name].spec.spelled and value.isalpha() and value.isupper()
        for form in (in_alphabet_words(value).title(), " ".join(value))
    ]
    said = [ways[:_NAMES_OF_A_VALUE] for f in named.values() for ways in f.spec.values.values()]
    names = dict.fromkeys([ways[0] for ways in said] + [way for ways in said for way in ways[1:]])
    keys = frozenset(f"{name}:{value}" for name, value in guesses)
    return Doubt(tuple(names)[:MOST_NAMES], (*spelled, *_alike(look, named)), keys)


def meaning_of(grammar: Grammar, reading: Reading, intent: str, doubt: Doubt) -> str:
    """Return the meaning of a reading of an intent with listed values. Empty unless it leaves
    nothing open, agrees with the guess, and its task is harmless or confirmed first."""
    chosen = grammar.intents.get(intent)
    if chosen is None or not (intent in grammar.harmless or chosen.confirm):
        return ""
    named, keys = _named(grammar), set()
    for slot, judged in reading.slots.items():
        if judged.value is None:
            return ""
        if reading.lists[slot] in named:
            keys.add(f"{reading.lists[slot]}:{judged.value.value}")
    if not keys or (doubt.guesses and not keys <= doubt.guesses):
        return ""
    return f"{intent} {sorted((s, j.value) for s, j in reading.slots.items())!r}"


def _named(grammar: Grammar) -> dict[str, Finder]:
    """Return the lists of names that callers say, without destinations."""
    return {
        name: finder
        for name, finder in grammar.finders.items()
        if finder.spec.type == "list" and name != builtin.DESTINATIONS
    }


def _ways(finder: Finder, found: Filled) -> tuple[str, ...]:
    """Return the ways to say the value that fills a slot."""
    value = found.judged.value
    return finder.spec.values.get(str(value.value), ()) if value is not None else ()


def _is_open(
    grammar: Grammar, look: Look, reading: Reading | None, named: Mapping[str, Finder]
) -> bool:
    if reading is None:
        return not any(span.is_clear for name in named for span in look.spans[name])
    if any(judged.value is None for judged in reading.slots.values()):
        return True
    if not reading.sure:
        for slot, found in reading.filled.items():
            here = " ".join(token.said for token in look.tokens[found.start : found.end])
            if here not in map(plain, _ways(grammar.finders[reading.lists[slot]], found)):
                return True
    intent = grammar.intents.get(reading.intent)
    return intent is not None and any(
        slot not in reading.slots and spec.required and spec.default is None
        for slot, spec in intent.slots.items()
        if reading.lists[slot] in named
    )


def _almost_another(look: Look, reading: Reading, named: Mapping[str, Finder]) -> Doubt | None:
    """Return a doubt if a correctly written value sounds almost like a confusable name."""
    for slot, found in reading.filled.items():
        finder = named.get(reading.lists[slot])
        if finder is None or not finder.spec.confusable:
            continue
        words = look.tokens[found.start : found.end]
        written = " ".join(token.said for token in words)
        known = tuple(name for name in _ways(finder, found) if plain(name) == written)
        confusable = finder.spec.confusable
        hits = _hits(confusable, _ALMOST, words)
        others = [confusable[hit.entry] for hit in hits if hit.end - hit.start == len(words)]
        if known and others:
            return Doubt(known, others=tuple(dict.fromkeys(others)))
    return None


def _alike(look: Look, named: Mapping[str, Finder]) -> tuple[str, ...]:
    """Return the names of the values that sound most like some of these words."""
    values = [ways for finder in named.values() for ways in finder.spec.values.values()]
    entries = [(ways, said) for ways in values for said in ways]
    hits = _hits([said for _, said in entries], _LIKENESS, look.tokens)
    hits.sort(key=lambda hit: (hit.cost, hit.start - hit.end))
    best = [*dict.fromkeys(entries[hit.entry][0] for hit in hits)][:_MOST_ALIKE]
    return tuple(dict.fromkeys(said for ways in best for said in ways[:_NAMES_OF_A_VALUE]))


def _hits(phrases: Sequence[str], limit: float, tokens: Sequence[Token]) -> list[Hit]:
    return SoundIndex([*map(plain, phrases)], [limit] * len(phrases)).find_all(tokens)
