"""Everything a context understands, compiled once and shared by its calls.

`compile_grammar` turns rules (the context's and the built-in ones) into tables: a `SoundIndex` of
all words and list values, and a `WordingTable` of all sentences. `Grammar.look` finds in one
utterance what any state of a dialogue may need; `Grammar.readings` says which sentences it can be,
given which intents are expected now.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date

from cordboard.agents.rules.builtin import (
    CANCEL,
    DESTINATIONS,
    GOODBYE,
    HELLO,
    HELP,
    NO,
    PICKS,
    REPEAT,
    STEERING,
    THANKS,
    YES,
    with_built_in,
)
from cordboard.agents.rules.clauses import split_clauses
from cordboard.agents.rules.codes import in_alphabet_words, is_clear
from cordboard.agents.rules.harmless import (
    clear_values,
    find_at_once,
    speaks_against,
    the_only_one,
)
from cordboard.agents.rules.keywords import (
    MOST_WORDINGS,
    Keywords,
    compile_keywords,
    find_value,
    is_harmless,
)
from cordboard.agents.rules.letters import ALPHABET, AlphabetHit
from cordboard.agents.rules.matching import (
    Fit,
    Windows,
    WordingTable,
    slot_costs,
)
from cordboard.agents.rules.names import Names, finder_of, words_of
from cordboard.agents.rules.rewriting import rewrite, spellings
from cordboard.agents.rules.sound import SoundIndex, phrase_sounds
from cordboard.agents.rules.stories import names_a_place, points_there
from cordboard.agents.rules.values import (
    Finder,
    Judged,
    Span,
    Surroundings,
    Value,
    judge,
)
from cordboard.agents.rules.words import (
    FILLERS,
    FUNCTION_WORDS,
    Token,
    plain,
    plain_sentence,
    tokenise,
)
from cordboard.config.rules import BUILT_IN_LISTS, Intent, Rules, WordList
from cordboard.config.sentences import Wording, read_sentence
from cordboard.tools.tool import ToolSpec

VALUE_OF = "_value:"
"""Prefix of the hidden intent `just a value of this list`: the answer to a question."""
CHANGE_TO = "_change:"
"""Prefix of the hidden intent `no, rather this value`."""
PICK = "_pick:"
"""Prefix of the hidden intents `the first one` and `the second one`."""
WHICH_INTENT = "which_intent"
"""Name of the hidden list of intents by their titles, for `Did you mean ... or ...?`."""
_WORD_LIMIT = 0.36
_FUNCTION_WORD_LIMIT = 0.12
_VALUE_LIMIT = 0.34
_LETTER_LIMIT = 0.28
_SURE = 0.12
_SURE_WHEN_LONG = 0.2
"""How much a list value may differ from what was written and still be taken as said; grows with
its length, since long names have few neighbours."""
_CONFUSABLE_LIMIT = 0.05
_SPELLED_LIMIT = 0.2
_SURE_WHEN_SPELLED = 0.07
"""A whole code in alphabet words run together ("Popogolf"): another letter is about 0.1 away."""
_LONG = 900.0
"""Weight of sounds (hundredths of a consonant) from which a value counts as long."""
_EXPECTED_BONUS = 0.06
_KEYWORD_QUALITY = 0.4
"""Found by keywords: never word for word."""
_CLEARLY_SAID = 0.2
"""Quality up to which a clause wants something else."""
_SURELY_SAID = 0.1
"""The same for a clause of something longer: "good evening" is 0.13 from "goodbye"."""
_LIGHT = frozenset({REPEAT, HELP, HELLO, THANKS, YES})
"""What may be read into a sentence about something else: `what`, `sorry`, `right`."""


@dataclass(frozen=True, slots=True)
class Look:
    """What was found in one utterance, whatever it will turn out to mean."""

    text: str
    tokens: tuple[Token, ...]
    windows: Windows
    spans: Mapping[str, Sequence[Span]]

    @property
    def capitals(self) -> bool:
        """Whether the recogniser writes names with a capital letter."""
        return self.text != self.text.lower()


@dataclass(frozen=True, slots=True)
class Reading:
    """One way to understand an utterance."""

    intent: str
    cost: float
    """What is left unexplained; comparable between readings of one utterance."""
    quality: float
    """The same relative to what was explained: 0 = word for word."""
    slots: Mapping[str, Judged]
    lists: Mapping[str, str]
    """Slot → its list."""
    places: Mapping[str, tuple[int, int]]
    """Slot → first word, after the last word."""


@dataclass(frozen=True, slots=True)
class _Entry:
    """What an entry of the sound index stands for: a word of a sentence, a value (or, without
    one, a name that is confusable with a value) of a list, or a letter."""

    word: str = ""
    list: str = ""
    value: Value | None = None
    sure: float = 0.0
    spelled: bool = False
    """The value's code in alphabet words."""
    letter: str = ""


@dataclass(frozen=True)
class Grammar:
    """What a context understands. Immutable; see the module's docstring."""

    intents: Mapping[str, Intent]
    slots: Mapping[str, Mapping[str, str]]
    """Intent → slot → list."""
    finders: Mapping[str, Finder]
    vocabulary: frozenset[str]
    known: frozenset[str]
    """The same with the words of the lists' names."""
    keywords: Sequence[Keywords]
    entries: Sequence[_Entry]
    index: SoundIndex
    table: WordingTable
    names: Names
    harmless: frozenset[str]
    """Intents that may be done needlessly."""

    def look(self, text: str, today: date) -> Look:
        """Find every expected word and value in the text."""
        tokens = tokenise(text)
        hits = self.index.find(tokens)
        windows: Windows = {}
        phrases: dict[str, list[Span]] = {}
        alphabet: list[AlphabetHit] = []
        for hit in hits:
            entry = self.entries[hit.entry]
            if entry.word:
                self.table.add_word(windows, hit, entry.word)
            elif entry.list:
                sure = entry.sure
                if entry.spelled and sure < hit.cost and entry.value is not None:
                    code = str(entry.value.value).upper()
                    if is_clear(tokens[hit.start : hit.end], code, hit.cost):
                        sure = hit.cost
                span = Span(hit.start, hit.end, entry.value, hit.cost, sure, entry.spelled)
                phrases.setdefault(entry.list, []).append(span)
            else:
                alphabet.append(AlphabetHit(entry.letter, hit.start, hit.end, hit.cost))
        spans = {
            name: finder.find(
                tokens,
                Surroundings(
                    _without_confusion(phrases.get(name, ())), alphabet, self.vocabulary, today
                ),
            )
            for name, finder in self.finders.items()
        }
        for name, found in spans.items():
            self.table.add_values(windows, name, slot_costs(tokens, found))
        return Look(text, tokens, windows, spans)

    def readings(self, look: Look, active: Collection[str]) -> list[Reading]:
        """What the utterance may mean, the best first: one reading for each intent that fits."""
        if not look.tokens:
            return []
        fits = self.table.fits(look.tokens, look.windows, active)
        readings = [self._reading(look, fit) for fit in fits if fit.is_good]
        readings = [reading for reading in readings if not self._is_vetoed(look, reading)]
        readings.sort(key=lambda reading: reading.cost)
        found = self._by_keywords(look, active, readings[0] if readings else None)
        return [found, *readings] if found else readings

    def _by_keywords(
        self, look: Look, active: Collection[str], best: Reading | None
    ) -> Reading | None:
        """A reading for which only a value and words of the trade speak, if `best` is poor."""
        for rule in self.keywords:
            if rule.intent not in active or not _leaves_room(best, rule):
                continue
            places = rule.places(look.tokens)
            asked_for = VALUE_OF + rule.list in active
            found = self._find(look, rule, places, asked_for=asked_for)
            if found is None:
                continue
            # "That's all" and "have a nice day" end a request as well as a call.
            ignored = (rule.intent, GOODBYE) if rule.harmless else (rule.intent,)
            before = found[1].start if rule.harmless else None
            if self._wants_something_else(look, active, ignored, before):
                continue
            judged, span = found
            if best is not None and best.slots and judged.value is None:
                continue
            intent = VALUE_OF + rule.list if asked_for and not places else rule.intent
            cost = min(_KEYWORD_QUALITY, best.cost) if best else _KEYWORD_QUALITY
            slots, lists = {rule.slot: judged}, {rule.slot: rule.list}
            at = {rule.slot: (span.start, span.end)}
            return Reading(intent, cost, _KEYWORD_QUALITY, slots, lists, at)
        return None

    def _find(
        self, look: Look, rule: Keywords, places: frozenset[int], *, asked_for: bool
    ) -> tuple[Judged, Span] | None:
        """The value that the utterance is about, as readily as the rule's intent allows."""
        tokens, spans = look.tokens, look.spans[rule.list]
        if rule.harmless:
            found = find_at_once(rule, tokens, spans, places, self.known, capitals=look.capitals)
            if found is not None or (clear_values(tokens, spans) and not asked_for):
                return found
        return find_value(tokens, spans, places, self.known, asked_for=asked_for)

    def _is_vetoed(self, look: Look, reading: Reading) -> bool:
        """Whether a sentence fits, but what stands around its value speaks against it."""
        for rule in self.keywords:
            if rule.harmless and rule.intent == reading.intent and rule.slot in reading.places:
                place = reading.places[rule.slot]
                return speaks_against(rule, look.tokens, place, rule.places(look.tokens))
        return False

    def named(self, look: Look) -> dict[str, Value]:
        """List → the one value of it that was clearly named; for lists of harmless look-ups."""
        found: dict[str, Value] = {}
        for rule in self.keywords:
            if rule.harmless:
                spans = look.spans[rule.list]
                value = the_only_one(look.tokens, spans, self.known, capitals=look.capitals)
                if value is not None:
                    found[rule.list] = value
        return found

    def about_there(
        self, look: Look, best: Reading | None, named: Mapping[str, Value], *, waiting: bool
    ) -> Reading | None:
        """`Is it windy there?`, where one place was named just before: a reading with that one.

        `waiting`: the caller still waits for the answer about that place, so it needs no `there`.
        """
        if (best is not None and best.slots) or not (waiting or points_there(look.tokens)):
            return None
        for rule in self.keywords:
            places = rule.places(look.tokens)
            asked = bool(places) or (best is not None and best.intent == rule.intent)
            if not asked or rule.list not in named or not _leaves_room(best, rule):
                continue
            if not clear_values(look.tokens, look.spans[rule.list]) and not names_a_place(
                look.tokens, places, self.known
            ):
                slots = {rule.slot: Judged(named[rule.list])}
                lists = {rule.slot: rule.list}
                return Reading(rule.intent, 0.0, _KEYWORD_QUALITY, slots, lists, {})
        return None

    def _wants_something_else(
        self, look: Look, active: Collection[str], ignored: Collection[str], before: int | None
    ) -> bool:
        """Whether a clause by itself says goodbye, asks for a transfer, ...; or what is said of it
        `before` a word: "put me through to sales in" Boston."""
        clauses = split_clauses(look.tokens)
        parts = [(start, before) for start, end in clauses if before and start < before < end]
        for start, end in (*clauses, *parts):
            windows = {
                (first - start, last - start): costs
                for (first, last), costs in look.windows.items()
                if start <= first and last <= end
            }
            intents = [name for name in active if name in self.intents and name not in ignored]
            fits = self.table.fits(look.tokens[start:end], windows, intents)
            best = min(fits, key=lambda fit: fit.cost, default=None)
            if best is None or (best.intent in STEERING and best.intent != CANCEL):
                continue
            if best.is_good and best.quality <= _SURELY_SAID:
                return True
        return False

    def _reading(self, look: Look, fit: Fit) -> Reading:
        slots: dict[str, Judged] = {}
        for slot, (list_name, start, end) in fit.slots.items():
            crowded = any(place in fit.left_over for place in (start - 1, end))
            spans = look.spans[list_name]
            here = [span for span in spans if (span.start, span.end) == (start, end)]
            valued = [span for span in here if span.value is not None] or here
            if not valued or fit.is_unknown(slot):
                slots[slot] = Judged()
                continue
            chosen = min(valued, key=lambda span: span.cost)
            if not self.finders[list_name].has_rivals:
                spans, crowded = (), False
            slots[slot] = judge(chosen, spans, crowded=crowded)
        bonus = _EXPECTED_BONUS if fit.intent.startswith("_") else 0.0
        lists = {slot: place[0] for slot, place in fit.slots.items()}
        at = {slot: (start, end) for slot, (_, start, end) in fit.slots.items()}
        return Reading(fit.intent, fit.cost - bonus, fit.quality, slots, lists, at)

    def understood(self, look: Look, reading: Reading) -> str:
        """The text with the values that the reading is sure of in their own spelling."""
        changes = []
        for slot, judged in reading.slots.items():
            start, end = reading.places[slot]
            spec = self.finders[reading.lists[slot]].spec
            if judged.value is not None and spec.type == "list":
                said = spec.values.get(str(judged.value.value), ())
                words = look.tokens[start:end]
                changes.append((start, end, spellings(judged.value, said, words)))
        return rewrite(look.text, look.tokens, changes)


def compile_grammar(rules: Rules, toolbox: Sequence[ToolSpec]) -> Grammar:
    """Build the tables. Takes some ten ms; done once for a context and its toolbox."""
    intents, lists = with_built_in(rules, toolbox)
    for kind in BUILT_IN_LISTS:
        lists.setdefault(kind, WordList(type=kind))
    pieces = {name: plain_sentence(text) for name, text in rules.words.items()}
    rows: list[tuple[str, Wording]] = []
    slots: dict[str, dict[str, str]] = {name: {} for name in intents}
    for name, intent in intents.items():
        for sentence in intent.sentences:
            for wording in read_sentence(plain_sentence(sentence), pieces, most=MOST_WORDINGS):
                rows.append((name, wording))
                for position in wording:
                    if position.list:
                        slots[name].setdefault(position.slot, position.list)
        for slot, spec in intent.slots.items():
            slots[name][slot] = spec.list or slots[name].get(slot, slot)
    titles = {name: (intent.title,) for name, intent in intents.items() if intent.title}
    for number, sentences in PICKS.items():
        picks = [wording for text in sentences for wording in read_sentence(text)]
        rows.extend((f"{PICK}{number}", wording) for wording in picks)
    used = dict.fromkeys(name for found in slots.values() for name in found.values())
    if len(titles) > 1:
        lists[WHICH_INTENT] = WordList(values=titles)
        used[WHICH_INTENT] = None
    for name in used:
        rows.extend(_answers(name, lists[name]))
    table = WordingTable(rows)
    finders = {name: finder_of(lists[name]) for name in used}
    vocabulary = frozenset(word for _, wording in rows for p in wording for word in p.words)
    entries, phrases, limits = _index_entries(vocabulary, finders)
    index = SoundIndex(phrases, limits)
    names = {word for finder in finders.values() for word in words_of(finder)}
    return Grammar(
        intents=intents,
        slots=slots,
        finders=finders,
        vocabulary=vocabulary,
        known=vocabulary | names,
        keywords=tuple(compile_keywords(intents, slots, pieces, toolbox)),
        entries=entries,
        index=index,
        table=table,
        harmless=frozenset(n for n, i in intents.items() if is_harmless(i, toolbox)),
        names=Names({name: finders[name] for name in used if _is_named(lists[name], name)}),
    )


def _is_named(spec: WordList, name: str) -> bool:
    """Whether its values are names that callers say: not destinations, not titles."""
    return spec.type == "list" and name not in (DESTINATIONS, WHICH_INTENT)


def _leaves_room(best: Reading | None, rule: Keywords) -> bool:
    """Whether the keywords of a rule may say more than the best sentence does."""
    if best is None:
        return True
    if best.intent in _LIGHT or (rule.harmless and best.intent in (NO, GOODBYE)):
        return best.quality > _CLEARLY_SAID
    if best.intent not in (rule.intent, VALUE_OF + rule.list):
        # "Pass me the weather" is no transfer to an unknown desk.
        unknown = [judged.is_unknown for judged in best.slots.values()]
        return rule.harmless and unknown != [] and all(unknown)
    return all(judged.value is None for judged in best.slots.values())


def _answers(name: str, spec: WordList) -> Iterator[tuple[str, Wording]]:
    """The hidden sentences with which a question for this list is answered or corrected."""
    lead = "[it is|that is|this is|i said|i mean|i would like|make it|rather|take]"
    if spec.type == "name":
        lead = "[my] [name] [it|this] [is|i am]"
    noun = f"[{name.replace('_', ' ')}]" if name.replace("_", "").isalpha() else ""
    answer = f"{lead} {{{name}}} {noun} [please|speaking]"
    change = f"(no|not|wrong|rather|actually|change|instead) [that|it] [is] [to] {lead} {{{name}}}"
    for prefix, sentence in ((VALUE_OF, answer), (CHANGE_TO, change)):
        for wording in read_sentence(plain_sentence(sentence)):
            yield prefix + name, wording


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
        common = word in FUNCTION_WORDS or word in FILLERS
        add(_Entry(word=word), word, _FUNCTION_WORD_LIMIT if common else _WORD_LIMIT)
    for name, finder in finders.items():
        for value in finder.values.values():
            for said in finder.spec.values[str(value.value)]:
                phrase = plain(said)
                entry = _Entry(list=name, value=value, sure=sureness(phrase))
                add(entry, phrase, _VALUE_LIMIT)
            code = str(value.value).upper()
            if finder.spec.spelled and code.isascii() and code.isalpha():
                entry = _Entry(list=name, value=value, sure=_SURE_WHEN_SPELLED, spelled=True)
                add(entry, in_alphabet_words(code), _SPELLED_LIMIT)
        for said in finder.spec.confusable:
            add(_Entry(list=name), plain(said), _CONFUSABLE_LIMIT)
    if any(finder.spells for finder in finders.values()):
        for letter, names in ALPHABET.items():
            for said in names:
                add(_Entry(letter=letter), said, _LETTER_LIMIT)
    return entries, phrases, limits


def _without_confusion(spans: Sequence[Span]) -> list[Span]:
    """The values found, where those that may be a confusable name are only guesses."""
    names = [span for span in spans if span.value is None]
    found: list[Span] = []
    for span in spans:
        if span.value is None:
            continue
        confused = span.cost > 0 and any(
            name.start <= span.start and span.end <= name.end and name.cost < span.cost
            for name in names
        )
        found.append(replace(span, limit=0.0) if confused else span)
    return found


def sureness(phrase: str) -> float:
    """How much may differ before a listed phrase is only a guess."""
    weight = 70.0 * len(phrase_sounds(phrase))
    return _SURE + (_SURE_WHEN_LONG - _SURE) * min(1.0, max(0.0, (weight - 300) / (_LONG - 300)))


__all__ = [
    "CHANGE_TO",
    "Grammar",
    "Look",
    "PICK",
    "Reading",
    "VALUE_OF",
    "WHICH_INTENT",
    "compile_grammar",
]
