"""The caller's possible next words, for each state of a dialogue.

Expected values, hints for the recogniser, and a check for partial texts that are a complete answer.
Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from cordboard.agents.rules.builtin import DESTINATIONS, GOODBYE, NO, YES
from cordboard.agents.rules.grammar import Expected, Grammar, Reading
from cordboard.agents.rules.letters import in_alphabet_words
from cordboard.agents.rules.matching import Look
from cordboard.agents.rules.states import (
    Asking,
    Choosing,
    Confirming,
    Offering,
    State,
)
from cordboard.agents.rules.words import tokenise
from cordboard.config.rules import Rules

MOST_HINT_WORDS = 70
_GOING_ON = frozenset(
    "the a an my your for at in on to of with from about and or but is are am um i we could can"
    " would might may how do does have".split()
)
"""Words that are followed by more."""
_CAPITALS = re.compile(r"\b[A-Z]{2,}\b")
"""Words that the operator wrote in capitals in sentences: ATIS, METAR."""


def expected_in(state: State) -> Expected | None:
    """Return the values that may be spoken now; those of an open question first."""
    match state:
        case Asking(task=task, slot=slot) | Choosing(task=task, slot=slot):
            return Expected(task.intent, {slot: task.lists[slot], **task.lists}, slot)
        case Confirming(task=task):
            return Expected(task.intent, task.lists)
    return None


def is_whole_answer(look: Look, reading: Reading | None, state: State, grammar: Grammar) -> bool:
    """True if waiting for more words would be in vain."""
    if reading is None or reading.rival or not reading.sure or look.tokens[-1].text in _GOING_ON:
        return False
    if reading.intent in (YES, NO):
        return isinstance(state, (Confirming, Choosing, Offering))
    if reading.intent in grammar.steering or reading.intent == GOODBYE:
        return reading.verbatim
    if not reading.slots or not all(
        judged.value is not None and grammar.finders[reading.lists[slot]].is_closed
        for slot, judged in reading.slots.items()
    ):
        return False
    if reading.intent:
        return reading.verbatim and set(grammar.slots[reading.intent]) <= set(reading.slots)
    filled = {p for found in reading.filled.values() for p in range(found.start, found.end)}
    return not any(token.is_content for p, token in enumerate(look.tokens) if p not in filled)


def hints_for(state: State, grammar: Grammar, rules: Rules) -> tuple[str, ...]:
    """Return names and words of the domain, those asked for first; at most `MOST_HINT_WORDS` words.

    A phrase that ends in a full stop or question mark is an example of a sentence.
    """
    return tuple(_first_words(_hints(state, grammar, rules)))


def _hints(state: State, grammar: Grammar, rules: Rules) -> Iterator[str]:
    expected = expected_in(state)
    asked: list[str] = []
    if expected is not None:
        slots = expected.slots
        asked = [slots[expected.asked]] if expected.asked else [*dict.fromkeys(slots.values())]
    lists = [name for name in dict.fromkeys((*asked, *grammar.finders)) if name != DESTINATIONS]
    for name in lists:
        yield from _spelling_examples(name, grammar, rules, alone=name in asked)
    values = {name: [*grammar.finders[name].values.values()] for name in lists}
    for name in asked:
        yield from (value.spoken for value in values.get(name, ()))
    for intent in rules.intents.values():
        yield from (token.text for token in tokenise(intent.title) if token.is_content)
    texts = [text for intent in rules.intents.values() for text in intent.sentences]
    for text in (*rules.words.values(), *texts):
        yield from _CAPITALS.findall(re.sub(r"\{[^}]*\}", "", text))
    for name in lists:
        yield from (value.spoken for value in values[name])
    for name in lists:
        for value in values[name]:  # "Kastrup" of Copenhagen Kastrup: heard alone it is hardest
            *first, last = value.spoken.split()
            if first and last in grammar.finders[name].spec.values[str(value.value)]:
                yield last


def _spelling_examples(name: str, grammar: Grammar, rules: Rules, *, alone: bool) -> Iterator[str]:
    """Yield sentences that show the recogniser the spelling of a value: letter by letter, and in
    words of the alphabet.

    Recognisers now and then write their example instead of the spoken words, so it is not a listed
    code.
    """
    finder = grammar.finders[name]
    codes = [str(value.value).upper() for value in finder.values.values()]
    codes = [code for code in codes if code.isascii() and code.isalpha()]
    if not finder.spec.spelled or not codes:
        return
    one, other = _made_up(codes, 1), _made_up(codes, 5)
    frame = "{}, please."
    for intent in rules.intents.values():
        named = [v.spoken for v in finder.values.values() if v.spoken in intent.example]
        if named and not alone:
            frame = intent.example.replace(named[0], "{}")
            break
    yield frame.replace("{}", " ".join(one))
    yield frame.replace("{}", in_alphabet_words(one).title())
    yield f"{in_alphabet_words(other).title()}, please."


def _made_up(codes: Sequence[str], step: int) -> str:
    """Return a code that has at each place a letter of the listed codes, but is not one of them."""
    alike = [code for code in codes if len(code) == len(codes[0])]
    for shift in range(len(alike)):
        places = enumerate(range(shift, shift + len(codes[0]) * step, step))
        code = "".join(alike[other % len(alike)][place] for place, other in places)
        if code not in codes:
            return code
    return codes[0][::-1]


def _first_words(phrases: Iterable[str]) -> Iterator[str]:
    count = 0
    for phrase in dict.fromkeys(phrases):
        count += len(phrase.split())
        if count > MOST_HINT_WORDS:
            return
        yield phrase
