"""When a name is in doubt, and what another hearing may make of it.

In doubt is what would lead to a question about a listed value, or to none at all: a value that was
only guessed at or is missing, or words that make no sense. A value that was named clearly and is
not wanted ("not Paris", "I was in Paris") is in no doubt, and neither is a confusable name. Pure.
"""

from __future__ import annotations

from collections.abc import Collection

from cordboard.agent_api.dialogue import Doubt
from cordboard.agents.rules.codes import in_alphabet_words
from cordboard.agents.rules.grammar import Grammar, Look, Reading
from cordboard.agents.rules.harmless import clear_values
from cordboard.agents.rules.values import Value
from cordboard.agents.rules.words import plain


def find_doubt(
    grammar: Grammar, look: Look, reading: Reading | None, active: Collection[str]
) -> Doubt | None:
    """Whether the best reading leaves a listed name open, and which it may be."""
    slots = [grammar.slots[intent] for intent in active if intent in grammar.slots]
    lists = {name for found in slots for name in found.values()}
    names = grammar.names.all_of(lists)
    if not names or grammar.names.is_other(look.tokens, lists):
        return None
    if not _is_open(grammar, look, reading):
        return _almost_another(grammar, look, reading) if reading is not None else None
    guesses = tuple(
        (reading.lists[slot], guess)
        for slot, judged in (reading.slots.items() if reading else ())
        for guess in judged.guesses
        if reading is not None and reading.lists[slot] in grammar.names.lists
    )
    if any(str(guess.value) not in grammar.finders[name].spec.values for name, guess in guesses):
        return None  # a code that is not listed is asked about in any case
    spelled = [
        form
        for name, guess in guesses
        if grammar.finders[name].spec.spelled
        for form in _spelled(str(guess.value))
    ]
    alike = (*spelled, *grammar.names.alike(look.tokens, lists))
    return Doubt(names, alike, frozenset(_key(name, guess) for name, guess in guesses))


def _almost_another(grammar: Grammar, look: Look, reading: Reading) -> Doubt | None:
    """Whether a value that was written as it is sounds almost like a confusable name."""
    for slot, judged in reading.slots.items():
        place = reading.places.get(slot)
        if judged.value is None or place is None or reading.lists[slot] not in grammar.names.lists:
            continue
        list_name, words = reading.lists[slot], look.tokens[place[0] : place[1]]
        written = " ".join(token.said for token in words)
        said = grammar.finders[list_name].spec.values.get(str(judged.value.value), ())
        known = tuple(name for name in said if plain(name) == written)
        others = grammar.names.almost(words, list_name)
        if known and others:
            return Doubt(known, others=others)
    return None


def _spelled(code: str) -> tuple[str, ...]:
    """A code in the ways in which it may be spelled; nothing for others than letters."""
    if not (code.isascii() and code.isalpha() and code.isupper()):
        return ()
    return in_alphabet_words(code).title(), " ".join(code)


def _is_open(grammar: Grammar, look: Look, reading: Reading | None) -> bool:
    if reading is None:
        return not any(clear_values(look.tokens, look.spans[r.list]) for r in grammar.keywords)
    intent = grammar.intents.get(reading.intent)
    if intent is not None and any(
        slot not in reading.slots and spec.required and spec.default is None
        for slot, spec in intent.slots.items()
    ):
        return True
    return any(judged.value is None for judged in reading.slots.values())


def meaning_of(grammar: Grammar, reading: Reading, intent: str, doubt: Doubt) -> str:
    """What a reading of an intent with listed values says, if it leaves nothing open, agrees with
    what was guessed at, and acting on it does no harm or is asked about first; else nothing."""
    chosen = grammar.intents.get(intent)
    if chosen is None or not (intent in grammar.harmless or chosen.confirm):
        return ""
    values = {slot: judged.value for slot, judged in reading.slots.items()}
    if any(value is None for value in values.values()):
        return ""
    keys = {
        _key(reading.lists[slot], value)
        for slot, value in values.items()
        if value is not None and reading.lists[slot] in grammar.names.lists
    }
    if not keys or (doubt.guesses and not keys <= doubt.guesses):
        return ""
    return f"{reading.intent} {sorted(values.items(), key=repr)}"


def _key(list_name: str, value: Value) -> str:
    return f"{list_name}:{value.value}"
