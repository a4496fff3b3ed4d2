"""All rules of a context, compiled once and shared by its calls.

`compile_grammar` turns rules (the context's and the built-in ones) into tables. `Grammar.look`
finds the expected words and values in one utterance; `Grammar.understand` decides its meaning:

1. A sentence of the rules, almost word for word, is taken as that sentence.
2. Otherwise the answer to the current question, if the utterance has a value of its list.
3. Otherwise the intent with the most evidence, if it is clearly ahead of the others.
4. An intent with too little evidence, or with too small a lead, is asked about.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date

from cordboard.agents.rules.builtin import (
    CANCEL,
    DESTINATIONS,
    GOODBYE,
    NO,
    REPEAT,
    TRANSFER,
    UNABLE,
    YES,
    steering_of,
    with_built_in,
)
from cordboard.agents.rules.filling import ARTICLES, Filled, fill, is_unknown
from cordboard.agents.rules.letters import ALPHABET, AlphabetHit, in_alphabet_words
from cordboard.agents.rules.matching import NEARLY, Look, Matcher, Score
from cordboard.agents.rules.sound import SoundIndex, phrase_sounds
from cordboard.agents.rules.values import Finder, Judged, Span, Surroundings, Value
from cordboard.agents.rules.words import (
    CANCELLING,
    CHANGING,
    FILLERS,
    REPLACING,
    denied_places,
    is_common,
    plain,
    plain_sentence,
    stem,
    tokenise,
    told_places,
    undone_places,
)
from cordboard.config.rules import BUILT_IN_LISTS, Intent, Rules, WordList
from cordboard.config.sentences import MAX_WORDINGS, Wording, read_sentence
from cordboard.speech.yes_or_no import is_only_an_answer, read_yes_or_no
from cordboard.tools.tool import Effects, ToolSpec

_MOST_WORDINGS = 16 * MAX_WORDINGS
"""Limit after expansion, which adds wordings to those that the configuration allows:
`(what's|how's)` becomes two words each."""
_WORD_LIMIT = 0.15
_VALUE_LIMIT = 0.34
_LETTER_LIMIT = 0.28
_SPELLED_LIMIT = 0.2
_CONFUSABLE_LIMIT = 0.05
_SURE = 0.12
_SURE_WHEN_LONG = 0.2
"""Largest difference of a list value from the written words at which it still counts as spoken;
grows with its length, since long names have few neighbours."""
_SURE_WHEN_SPELLED = 0.07
"""A whole code in alphabet words run together ("Popogolf"): another letter is about 0.1 away."""
_LONG = 900.0
"""Weight of sounds (hundredths of a consonant) from which a value is long."""
_EXACT = 0.05
_WHOLE = 0.12
_VERBATIM = 0.2
"""Distance up to which an utterance is a sentence of the rules."""
_ENOUGH = 0.6
"""Evidence that is enough by itself."""
_AHEAD = 0.3
"""Lead that it needs over the next intent."""
_WORTH_ASKING = 0.4
_FEW = 3
"""Content words of a possible answer that is not a value of the list."""
_CORRECTING = frozenset("no not wrong rather".split())
_TAIL = 4
"""Words at the end, or the beginning, of an utterance that are a farewell or a "pardon?"."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The interpretation of an utterance."""

    intent: str
    """Empty: values for the current task."""
    slots: Mapping[str, Judged]
    filled: Mapping[str, Filled]
    lists: Mapping[str, str]
    """Slot → its list."""
    verbatim: bool = False
    """True if it is a sentence word for word: waiting for more would be in vain."""
    sure: bool = True
    """True if it is clear enough to act on; otherwise the caller is asked about it."""
    corrects: bool = False
    """True if its values may replace known ones."""
    rival: str = ""
    """Another intent with the same likelihood."""


@dataclass(frozen=True, slots=True)
class Expected:
    """The values that the dialogue's question asks for."""

    intent: str
    slots: Mapping[str, str]
    """Slot → list; the slot that was asked for comes first."""
    asked: str = ""
    """The slot that was asked for."""
    refused: bool = False
    """True if other values are wanted: a bare figure is one."""


@dataclass(frozen=True, slots=True)
class _Entry:
    """The meaning of an entry of the sound index: a word of a sentence, a value (or, without one, a
    name that is confusable with a value) of a list, or a letter."""

    word: str = ""
    list: str = ""
    value: Value | None = None
    sure: float = 0.0
    letter: str = ""


@dataclass(frozen=True)
class Grammar:
    """The compiled rules of a context. Immutable; see the module's docstring."""

    intents: Mapping[str, Intent]
    steering: frozenset[str]
    slots: Mapping[str, Mapping[str, str]]
    """Intent → slot → list."""
    finders: Mapping[str, Finder]
    vocabulary: frozenset[str]
    """The words of all sentences."""
    names: frozenset[str]
    """The words of the lists' names, and of all sentences."""
    entries: Sequence[_Entry]
    index: SoundIndex
    matcher: Matcher
    cues: Mapping[str, Mapping[str, frozenset[str]]]
    """Intent → slot → words beside it: `from …`, `… nights`."""
    harmless: frozenset[str]
    """Intents that may run needlessly."""

    def look(self, text: str, today: date) -> Look:
        """Find every expected word and value in the text."""
        tokens = tokenise(text)
        words: dict[str, list[tuple[int, int, float]]] = {}
        phrases: dict[str, list[Span]] = {}
        alphabet: list[AlphabetHit] = []
        for place, token in enumerate(tokens):
            words.setdefault(stem(token.said), []).append((place, place + 1, 1.0))
        for hit in self.index.find(tokens):
            entry = self.entries[hit.entry]
            if entry.word:
                single = tokens[hit.start].text if hit.end - hit.start == 1 else ""
                if hit.cost and single not in self.names:
                    found = (hit.start, hit.end, max(0.1, 1.0 - 2 * hit.cost))
                    words.setdefault(stem(entry.word), []).append(found)
            elif entry.list:
                said = tokens[hit.start : hit.end]
                common = [is_common(token.text) for token in said]
                if hit.cost and all(common) and len(said) < len(tokens):
                    continue  # "get" beside other words is no "cut"
                loose = hit.cost > 0 and len(said) > 1 and any(common)
                sure = -1.0 if loose else entry.sure
                span = Span(hit.start, hit.end, entry.value, hit.cost, sure, named=True)
                phrases.setdefault(entry.list, []).append(span)
            else:
                alphabet.append(AlphabetHit(entry.letter, hit.start, hit.end, hit.cost))
        spans: dict[str, Sequence[Span]] = {}
        for name, finder in self.finders.items():
            near = _without_confusion(phrases.get(name, ()))
            around = Surroundings(near, alphabet, self.vocabulary, today)
            spans[name] = finder.find(tokens, around)
        denied, told, undone = denied_places(tokens), told_places(tokens), undone_places(tokens)
        return Look(text, tokens, words, spans, denied, told, undone, self.vocabulary)

    def understand(self, look: Look, expected: Expected | None = None) -> Reading | None:
        """Return the meaning of the utterance; None when nothing fits. See the module's
        docstring."""
        if not look.tokens:
            return None
        scores = self.matcher.scores(look)
        nearest = min(scores, key=lambda score: score.distance, default=Score("", 1.0))
        top = scores[0] if scores else nearest
        if nearest.intent == GOODBYE and nearest.distance <= _EXACT:
            return self._decide(look, nearest, scores)  # also as the answer to a question
        weak = top.words < _WORTH_ASKING
        if nearest.distance > _EXACT and (weak or top.is_slight):
            edge = self._at_the_edge(look)
            if edge and (weak or edge.intent == GOODBYE):
                return edge
            if weak and (answer := self._yes_or_no(look.text)):
                return answer
        light = nearest.distance <= (_VERBATIM if top.words >= _WORTH_ASKING else NEARLY)
        best = nearest if light and nearest.intent in self.steering else top
        answers = expected is not None and not self._is_other(look, top, expected)
        values = self._values(look, expected) if expected is not None and answers else None
        if values is not None and not (
            best is nearest and best.intent in self.steering and nearest.distance <= _VERBATIM
        ):
            return values
        confirming = expected is not None and not expected.asked
        revises = confirming and look.undone and best.intent in self.harmless
        if revises or (best.evidence < _WORTH_ASKING and best.distance > NEARLY):
            return self._undo(look, expected)
        if best.intent == GOODBYE and expected is not None:
            return None  # `that's it` may be a yes
        return self._decide(look, best, scores)

    def _is_other(self, look: Look, top: Score, expected: Expected) -> bool:
        """True if the utterance begins something else than the question is about."""
        same = top.intent == expected.intent
        if CANCELLING in look.undoing:
            return not (same and top.undoes)
        if same or look.undone:
            return False
        found = [s for name in expected.slots.values() for s in look.spans[name]]
        given = {p for s in found if s.is_clear and not s.bare for p in range(s.start, s.end)}
        other = {p for p, token in enumerate(look.tokens) if token.text not in FILLERS | ARTICLES}
        if top.distance <= _EXACT and len(other - given) > 1:
            return True  # a sentence, and not only a value
        kind = expected.slots.get(expected.asked, "")
        named = kind and self.finders[kind].spec.type == "name"
        framed = named and any(span.cost == 0.0 for span in look.spans[kind])
        return top.words >= 1.0 and not (framed and top.is_slight)  # "put it under Smith"

    def _undo(self, look: Look, expected: Expected | None) -> Reading | None:
        """Return the reading of a request to take back or to change something that no intent can:
        what is being discussed may be cancelled, and what is to be confirmed may be changed."""
        if expected is None or expected.intent == TRANSFER:
            return Reading(UNABLE, {}, {}, {}) if look.undone else None
        if CANCELLING in look.undoing and CANCEL in self.steering:
            return Reading(CANCEL, {}, {}, {}, verbatim=True)
        changes = CHANGING in look.undoing and not expected.asked and NO in self.steering
        return Reading(NO, {}, {}, {}) if changes else None

    def _yes_or_no(self, text: str) -> Reading | None:
        if not is_only_an_answer(text):
            return None
        name = YES if read_yes_or_no(text) else NO
        return Reading(name, {}, {}, {}, verbatim=True) if name in self.intents else None

    def _values(self, look: Look, expected: Expected) -> Reading | None:
        """Return an answer to the current question, or a correction."""
        lists, cues = expected.slots, self.cues.get(expected.intent, {})
        asked = expected.asked
        replaces = any(token.text in REPLACING for token in look.tokens) or _corrects(look)
        replaces = replaces or expected.refused
        filled = fill(look, lists, cues, asked)
        if not filled and replaces:  # `make it four`, `no, Smith`
            kinds = ("number", "time", "name" if not asked and _corrects(look) else "")
            bare = [slot for slot, name in lists.items() if self.finders[name].spec.type in kinds]
            found = [values for slot in bare if (values := fill(look, lists, cues, slot))]
            filled = found[0] if len(found) == 1 else {}
        slots = {
            slot: found.judged
            for slot, found in filled.items()
            if found.judged.value is not None or slot == asked
        }
        if asked and asked not in slots and not slots:
            content = sum(token.is_content for token in look.tokens)
            listed = self.finders[lists[asked]].spec.type == "list" and 0 < content <= _FEW
            if listed or any(span.value is None for span in look.spans[lists[asked]]):
                slots[asked] = Judged()
        if not slots:
            return None
        filled = {slot: found for slot, found in filled.items() if slot in slots}
        return Reading("", slots, filled, lists, corrects=replaces)

    def _decide(self, look: Look, best: Score, scores: Sequence[Score]) -> Reading | None:
        """Return the reading of the best intent: sure, with a rival that is nearly level, or to be
        asked about; None if it should be asked about but has no name."""
        reading, name = self._of(look, best.intent), best.intent
        if name in self.steering:
            return replace(reading, verbatim=best.distance <= _WHOLE)
        rival = ""
        if best.distance > _EXACT:
            level = [s.intent for s in scores if s.total > best.total - _AHEAD and s is not best]
            rival = next((other for other in level if other not in self.steering), "")
        if rival and self._titled(name, rival):
            return replace(reading, rival=rival)
        sure = best.distance <= _VERBATIM
        if self._asks(reading):
            sure = (sure or best.evidence >= _ENOUGH) and best.undoes
        elif name in self.harmless:
            told = best.words >= _WORTH_ASKING and not look.is_over
            refuses = best.is_slight and look.tokens[0].text == "no"
            sure = sure or (best.evidence >= _ENOUGH and told and not refuses)
        else:  # "why did you talk to a human"
            void = look.denied | look.told
            void_words = any(look.tokens[place].is_content for place in void)
            sure = best.distance <= _EXACT or (sure and best.undoes and not void_words)
        if sure and not rival:
            return replace(reading, verbatim=best.distance <= _WHOLE)
        return replace(reading, sure=False) if self._titled(name) else None

    def _asks(self, reading: Reading) -> bool:
        """True if a question comes before any action."""
        intent = self.intents[reading.intent]
        return bool(intent.confirm) or any(
            reading.slots.get(slot, Judged()).value is None
            for slot in self.slots[reading.intent]
            if slot not in intent.slots or intent.slots[slot].required
        )

    def _titled(self, *intents: str) -> bool:
        return all(self.intents[intent].title for intent in intents)

    def _of(self, look: Look, intent: str) -> Reading:
        """Return a reading of an intent with the filled slots."""
        lists, cues = self.slots[intent], self.cues.get(intent, {})
        filled = fill(look, lists, cues)
        slots = {slot: found.judged for slot, found in filled.items()}
        for slot, name in lists.items():
            if slot not in slots and is_unknown(look, name, cues.get(slot, ()), self.finders[name]):
                slots[slot] = Judged()
        return Reading(intent, slots, filled, lists)

    def _at_the_edge(self, look: Look) -> Reading | None:
        """Return a farewell that ends a longer speech, or a "pardon?" that begins one."""
        for count in range(min(_TAIL, len(look.tokens) - 1), 0, -1):
            for name, part in ((GOODBYE, look.tokens[-count:]), (REPEAT, look.tokens[:count])):
                if name == REPEAT and sum(t.text not in FILLERS for t in part) < 2:
                    continue  # many questions begin with "what"
                first = len(look.tokens) - count if name == GOODBYE else 0
                if name == GOODBYE and first in look.denied | look.told:
                    continue  # "do not hang up", "he told me to hang up"
                heard = {
                    stem(token.said): [(place, place + 1, 1.0)] for place, token in enumerate(part)
                }
                denied, none = denied_places(part), frozenset[int]()
                piece = Look("", part, heard, {}, denied, none, none, self.vocabulary)
                if self.matcher.distances(piece).get(name, 1.0) <= 0.1:
                    return Reading(name, {}, {}, {}, verbatim=True)
        return None


def _corrects(look: Look) -> bool:
    """True if the words may replace a value: `no, Smith`, `it's Smith`."""
    first = [token.text for token in look.tokens[:2]]
    return first[0] in _CORRECTING or first in (["it", "is"], ["that", "is"])


def compile_grammar(rules: Rules, toolbox: Sequence[ToolSpec]) -> Grammar:
    """Build the tables. Takes some ten ms; done once for a context and its toolbox."""
    intents, lists = with_built_in(rules, toolbox)
    for kind in BUILT_IN_LISTS:
        lists.setdefault(kind, WordList(type=kind))
    pieces = {name: plain_sentence(text) for name, text in rules.words.items()}

    def wordings(text: str) -> tuple[Wording, ...]:
        return read_sentence(plain_sentence(text), pieces, most=_MOST_WORDINGS)

    rows = [(n, w) for n, intent in intents.items() for s in intent.sentences for w in wordings(s)]
    slots: dict[str, dict[str, str]] = {name: {} for name in intents}
    for name, wording in rows:
        for position in wording:
            if position.list:
                slots[name].setdefault(position.slot, position.list)
    for name, intent in intents.items():
        said = slots[name]
        own = {slot: spec.list or said.get(slot, slot) for slot, spec in intent.slots.items()}
        slots[name] = own | {slot: kind for slot, kind in said.items() if slot not in own}
    used = dict.fromkeys(name for found in slots.values() for name in found.values())
    finders = {name: _finder_of(lists[name]) for name in used}
    steering = steering_of(intents)
    wanted = {n: i for n, i in intents.items() if n not in steering and n != GOODBYE}
    telling = {
        n: {
            name: finders[name].spec.type == "list"
            for name in slots[n].values()
            if finders[name].spec.type not in ("name", "text") and name != DESTINATIONS
        }
        for n in wanted
    }
    words = {word for _, wording in rows for p in wording for word in p.words}
    names = {t.text for f in finders.values() for said in f.spec.values.values() for n in said
             for t in tokenise(n)}  # fmt: skip
    entries, phrases, limits = _index_entries(words, finders)
    harmless = frozenset(n for n, i in intents.items() if is_harmless(i, toolbox))
    return Grammar(
        intents=intents,
        steering=steering,
        slots=slots,
        finders=finders,
        vocabulary=frozenset(words),
        names=frozenset(words | names),
        entries=entries,
        index=SoundIndex(phrases, limits),
        matcher=Matcher(rows, intents, telling, wordings, harmless),
        cues=_cues(rows),
        harmless=harmless,
    )


def _cues(rows: Iterable[tuple[str, Wording]]) -> dict[str, dict[str, frozenset[str]]]:
    """Return intent → slot → words right before and after it in sentences."""
    cues: dict[str, dict[str, set[str]]] = {}
    for intent, wording in rows:
        for place, position in enumerate(wording):
            if position.list:
                here = cues.setdefault(intent, {}).setdefault(position.slot, set())
                for other in wording[max(0, place - 1) : place]:
                    here.update(f"{word} …" for word in other.words)
                for other in wording[place + 1 : place + 2]:
                    here.update(f"… {word}" for word in other.words)
    return {i: {s: frozenset(words) for s, words in found.items()} for i, found in cues.items()}


def is_harmless(intent: Intent, toolbox: Sequence[ToolSpec]) -> bool:
    """True if doing it needlessly costs nothing but time: as the operator says, otherwise if its
    tool only reads."""
    if intent.confirm is not None or intent.transfer is not None or intent.hang_up:
        return False
    if intent.harmless is not None:
        return intent.harmless
    effects = {spec.name: spec.effects for spec in toolbox}
    return intent.tool is None or effects.get(intent.tool) is Effects.READ_ONLY


def _finder_of(spec: WordList) -> Finder:
    values = {code: Value(code, said[0]) for code, said in spec.values.items()}
    return Finder(spec, {value.upper(): known for value, known in values.items()})


def _index_entries(
    vocabulary: Collection[str], finders: Mapping[str, Finder]
) -> tuple[list[_Entry], list[str], list[float]]:
    entries: list[_Entry] = []
    phrases: list[str] = []
    limits: list[float] = []

    def add(entry: _Entry, phrase: str, limit: float) -> None:
        if phrase_sounds(phrase):
            entries.append(entry)
            phrases.append(phrase)
            limits.append(limit)

    for word in sorted(vocabulary):
        if not is_common(word):
            add(_Entry(word=word), word, _WORD_LIMIT)
    for name, finder in finders.items():
        for value in finder.values.values():
            for said in finder.spec.values[str(value.value)]:
                phrase = plain(said)
                add(_Entry(list=name, value=value, sure=sureness(phrase)), phrase, _VALUE_LIMIT)
            code = str(value.value).upper()
            if finder.spec.spelled and code.isascii() and code.isalpha():
                entry = _Entry(list=name, value=value, sure=_SURE_WHEN_SPELLED)
                add(entry, in_alphabet_words(code), _SPELLED_LIMIT)
        for said in finder.spec.confusable:
            add(_Entry(list=name), plain(said), _CONFUSABLE_LIMIT)
    if any(finder.spells for finder in finders.values()):
        for letter, said in ALPHABET.items():
            add(_Entry(letter=letter), said, _LETTER_LIMIT)
    return entries, phrases, limits


def _without_confusion(spans: Sequence[Span]) -> list[Span]:
    """Return the found values; those that may be a confusable name are only guesses."""
    names = [span for span in spans if span.value is None]
    found: list[Span] = []
    for span in spans:
        if span.value is None:
            continue
        confused = span.cost > 0 and any(
            name.start <= span.start and span.end <= name.end and name.cost < span.cost
            for name in names
        )
        found.append(replace(span, limit=-1.0) if confused else span)
    return found


def sureness(phrase: str) -> float:
    """Return the largest difference at which a listed phrase is more than a guess."""
    weight = 70.0 * len(phrase_sounds(phrase))
    return _SURE + (_SURE_WHEN_LONG - _SURE) * min(1.0, max(0.0, (weight - 300) / (_LONG - 300)))
