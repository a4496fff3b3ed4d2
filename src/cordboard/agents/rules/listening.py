"""Expectations of the recogniser, and doubts that a second hearing may settle.

Hints for each state of a dialogue, a check for partial texts that are a complete answer, and names
in doubt: those whose reading would lead to a question about a listed value, or to no value. A
confusable name that was heard clearly is not in doubt. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from cordboard.agent_api.dialogue import Doubt
from cordboard.agents.rules.builtin import DESTINATIONS, GOODBYE, NO, YES
from cordboard.agents.rules.grammar import Expected, Grammar, Reading
from cordboard.agents.rules.letters import in_alphabet_words
from cordboard.agents.rules.matching import Look
from cordboard.agents.rules.sound import Hit, SoundIndex
from cordboard.agents.rules.states import Asking, Choosing, Confirming, Offering, State
from cordboard.agents.rules.values import Finder
from cordboard.agents.rules.words import Token, plain, tokenise
from cordboard.config.rules import Rules
from cordboard.speech.yes_or_no import is_plain_answer

MOST_HINT_WORDS = 70
MOST_NAMES = 48
"""Names given to a recogniser at once; more would be cut off."""
_GOING_ON = frozenset(
    "the a an my your for at in on to of with from about and or but is are am um i we could can"
    " would might may how do does have".split()
)
"""Words that are followed by more."""
_CAPITALS = re.compile(r"\b[A-Z]{2,}\b(?![^{]*\})")
"""Words that the operator wrote in capitals in sentences: ATIS, METAR."""
_MOST_ALIKE = 5
"""Values to choose among when only a few are expected."""
_NAMES_OF_A_VALUE = 3
_ALMOST = 0.2
"""Cost up to which a confusable name is almost the same: "Newark" is 0.13 from New York, "Orlando"
0.05 from Arlanda, "Bristol" 0.26 from Boston."""
_LIKENESS = 0.6
"""Cost up to which a name may have been spoken: 0 = sounds the same, 1 = nothing in common."""


def expected_in(state: State) -> Expected | None:
    """Return the values that may be spoken now; those of an open question first."""
    match state:
        case Asking(task=task, slot=slot) | Choosing(task=task, slot=slot):
            return Expected(task.intent, {slot: task.lists[slot], **task.lists}, slot)
        case Confirming(task=task):
            return Expected(task.intent, task.lists, refused=task.confirmed)
    return None


def is_whole_answer(look: Look, reading: Reading | None, state: State, grammar: Grammar) -> bool:
    """True if waiting for more words would be in vain."""
    if reading is None or reading.rival or not reading.sure or look.tokens[-1].text in _GOING_ON:
        return False
    if reading.intent in (YES, NO):
        asked = isinstance(state, (Confirming, Choosing, Offering))
        return asked and is_plain_answer(look.text)
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
    chosen: list[str] = []
    left = MOST_HINT_WORDS
    for phrase in dict.fromkeys(_hints(state, grammar, rules)):
        left -= len(phrase.split())
        if left < 0:
            break
        chosen.append(phrase)
    return tuple(chosen)


def _hints(state: State, grammar: Grammar, rules: Rules) -> Iterator[str]:
    expected = expected_in(state)
    slots = expected.slots if expected is not None else {}
    asked = (
        [slots[expected.asked]] if expected is not None and expected.asked else [*slots.values()]
    )
    lists = [name for name in dict.fromkeys((*asked, *grammar.finders)) if name != DESTINATIONS]
    names = {name: [v.spoken for v in grammar.finders[name].values.values()] for name in lists}
    intents = rules.intents.values()
    for name in lists:
        yield from _spelling_examples(grammar.finders[name], rules, alone=name in asked)
    yield from (spoken for name in asked for spoken in names.get(name, ()))
    yield from (token.text for i in intents for token in tokenise(i.title) if token.is_content)
    for text in (*rules.words.values(), *(text for i in intents for text in i.sentences)):
        yield from _CAPITALS.findall(text)
    yield from (spoken for name in lists for spoken in names[name])
    for finder in map(grammar.finders.__getitem__, lists):
        for value in finder.values.values():  # "Kastrup" of Copenhagen Kastrup is hardest alone
            first, _, last = value.spoken.rpartition(" ")
            if first and last in finder.spec.values[str(value.value)]:
                yield last


def _spelling_examples(finder: Finder, rules: Rules, *, alone: bool) -> Iterator[str]:
    """Yield sentences that show the recogniser the spelling of a value: letter by letter, and in
    words of the alphabet.

    Recognisers now and then write their example instead of the spoken words, so it is made of
    letters of the listed codes, but not listed.
    """
    codes = [code for code in finder.values if code.isascii() and code.isalpha()]
    if not finder.spec.spelled or not codes:
        return
    frame = "{}, please."
    for intent in rules.intents.values():
        named = [v.spoken for v in finder.values.values() if v.spoken in intent.example]
        if named and not alone:
            frame = intent.example.replace(named[0], "{}")
            break
    one, other = (_made_up(codes, step) for step in (1, 5))
    yield frame.replace("{}", " ".join(one))
    yield frame.replace("{}", in_alphabet_words(one).title())
    yield f"{in_alphabet_words(other).title()}, please."


def _made_up(codes: Sequence[str], step: int) -> str:
    """Return a code that has at each place a letter of the listed codes, but is not one of them."""
    alike = [code for code in codes if len(code) == len(codes[0])]
    for shift in range(len(alike)):
        letters = (alike[(shift + step * p) % len(alike)][p] for p in range(len(codes[0])))
        code = "".join(letters)
        if code not in codes:
            return code
    return codes[0][::-1]


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
    said = [ways[:_NAMES_OF_A_VALUE] for f in named.values() for ways in f.spec.values.values()]
    names = dict.fromkeys([ways[0] for ways in said] + [way for ways in said for way in ways[1:]])
    keys = frozenset(f"{name}:{value}" for name, value in guesses)
    return Doubt(tuple(names)[:MOST_NAMES], _alike(look, named), keys)


def meaning_of(grammar: Grammar, reading: Reading, intent: str, doubt: Doubt) -> str:
    """Return the meaning of a reading of an intent with listed values. Empty unless it leaves
    nothing open, agrees with the guess, and its task is harmless or confirmed first."""
    chosen = grammar.intents.get(intent)
    if chosen is None or not (intent in grammar.harmless or chosen.confirm):
        return ""
    values = {slot: judged.value for slot, judged in reading.slots.items()}
    named = _named(grammar)
    keys = {f"{reading.lists[s]}:{v.value}" for s, v in values.items()
            if v is not None and reading.lists[s] in named}  # fmt: skip
    if None in values.values() or not keys or (doubt.guesses and not keys <= doubt.guesses):
        return ""
    return f"{intent} {sorted(values.items())!r}"


def _named(grammar: Grammar) -> dict[str, Finder]:
    """Return the lists of names that callers say, without destinations."""
    return {
        name: finder
        for name, finder in grammar.finders.items()
        if finder.spec.type == "list" and name != DESTINATIONS
    }


def _is_open(
    grammar: Grammar, look: Look, reading: Reading | None, named: Mapping[str, Finder]
) -> bool:
    if reading is None:
        return not any(span.is_clear for name in named for span in look.spans[name])
    intent = grammar.intents.get(reading.intent)
    missing = intent is not None and any(
        slot not in reading.slots and spec.required and spec.default is None
        for slot, spec in intent.slots.items()
        if reading.lists[slot] in named
    )
    return missing or any(judged.value is None for judged in reading.slots.values())


def _almost_another(look: Look, reading: Reading, named: Mapping[str, Finder]) -> Doubt | None:
    """Return a doubt if a correctly written value sounds almost like a confusable name."""
    for slot, found in reading.filled.items():
        finder, value = named.get(reading.lists[slot]), found.judged.value
        if finder is None or value is None:
            continue
        words = look.tokens[found.start : found.end]
        written = " ".join(token.said for token in words)
        known = tuple(
            n for n in finder.spec.values.get(str(value.value), ()) if plain(n) == written
        )
        hits = [
            h
            for h in _hits(finder.spec.confusable, _ALMOST, words)
            if h.end - h.start == len(words)
        ]
        others = dict.fromkeys(finder.spec.confusable[hit.entry] for hit in hits)
        if known and others:
            return Doubt(known, others=tuple(others))
    return None


def _alike(look: Look, named: Mapping[str, Finder]) -> tuple[str, ...]:
    """Return the names of the values that sound most like some of these words."""
    values = [ways for finder in named.values() for ways in finder.spec.values.values()]
    entries = [(ways, said) for ways in values for said in ways]
    hits = _hits([said for _, said in entries], _LIKENESS, look.tokens)
    hits.sort(key=lambda hit: (hit.cost, hit.start - hit.end))
    best = [*dict.fromkeys(entries[hit.entry][0] for hit in hits)][:_MOST_ALIKE]
    return tuple(dict.fromkeys(said for ways in best for said in ways[:_NAMES_OF_A_VALUE]))


def _hits(phrases: Iterable[str], limit: float, tokens: Sequence[Token]) -> list[Hit]:
    said = [plain(phrase) for phrase in phrases]
    return SoundIndex(said, [limit] * len(said)).find(tokens)
