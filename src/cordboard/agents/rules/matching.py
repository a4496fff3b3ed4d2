"""Which of all sentences an utterance is, word by word.

The wordings of all intents lie side by side in one table, a column each. `fits` aligns every column
with the utterance at once (the same running-minimum alignment as `sound`, one row for each word):
words may be found by sound, words that say little may be missing or added cheaply, others at a
price. The best column of each intent is then walked back to see which words filled which slot.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from cordboard.agents.rules.clauses import denials
from cordboard.agents.rules.sound import Hit
from cordboard.agents.rules.values import Span
from cordboard.agents.rules.words import FILLERS, FUNCTION_WORDS, Token
from cordboard.config.sentences import Position, Wording

NO_FIT = 0.45
"""A reading that leaves more than this share unexplained is none."""
_NO_ANSWER = 0.6
"""The same for what was asked for: there a word more is worth a question."""
_SLOT_WEIGHT = 1.4
_COMMON_WEIGHT = 0.15
_DECISIVE = frozenset({"yes", "no", "not", "up"})
"""Small words that make the whole difference where a sentence asks for them: `hang on` is not
`hang up`, nor is a hum that is written as "Han"."""
_ADDED = 0.7
_ADDED_COMMON = 0.1
_ADDED_FILLER = 0.02
_ADDED_DENIAL = 2.0
"""A `not` that no sentence foresees: whatever else fits, that was not asked for."""
_SOUND_FACTOR = 1.5
_VALUE_FACTOR = 2.4
_UNKNOWN_VALUE = 0.5
_UNKNOWN_WORD = 0.05
_UNKNOWN_BEYOND_KNOWN = 0.25
"""Calling words unknown that hold a known value costs this more."""
_SAID = 0.05
_MOST_BESIDES_UNKNOWN = 0.2
_LONGEST_UNKNOWN = 3
_NEVER = 50.0
_SAME = 1e-4
"""Rounding of the float32 sums."""

Windows = dict[tuple[int, int], dict[int, float]]
"""(first word, after the last word) → class → cost of that class standing there."""
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Fit:
    """One intent's best wording, laid over the utterance."""

    intent: str
    cost: float
    quality: float
    """Cost relative to the weight of the wording."""
    slots: Mapping[str, tuple[str, int, int]]
    """Slot → list, first word, after the last word."""
    unknown: frozenset[str]
    """Slots filled with words that are no value of their list."""
    left_over: frozenset[int]
    """Content words that belong to nothing."""

    def is_unknown(self, slot: str) -> bool:
        return slot in self.unknown

    @property
    def is_good(self) -> bool:
        """Whether it explains enough; one that calls words unknown must explain all others."""
        limit = _NO_ANSWER if self.intent.startswith("_") else NO_FIT
        if not self.unknown:
            return self.quality <= limit
        rest = self.cost - _UNKNOWN_VALUE * len(self.unknown)
        return self.quality <= limit and rest <= _MOST_BESIDES_UNKNOWN


@dataclass(slots=True)
class _Walk:
    """The way back through one column."""

    matched: float = 0.0
    missed: float = 0.0
    slots: dict[str, tuple[str, int, int]] = field(default_factory=dict)
    unknown: set[str] = field(default_factory=set)
    left_over: set[int] = field(default_factory=set)


class WordingTable:
    """All wordings of a context."""

    def __init__(self, rows: Sequence[tuple[str, Wording]]) -> None:
        self._rows = list(dict.fromkeys(rows))
        self._classes: dict[tuple[str, ...], int] = {}
        self._by_word: dict[str, list[int]] = {}
        self._known_value: dict[str, int] = {}
        self._any_value: dict[str, int] = {}
        self._weights: list[float] = []
        height = max((len(wording) for _, wording in self._rows), default=1)
        shape = (height, len(self._rows))
        self._class = np.zeros(shape, dtype=np.int64)
        self._weight = np.zeros(shape, dtype=np.float32)
        drop = np.full(shape, _NEVER, dtype=np.float32)
        self._new_class(("", ""), 0.0)
        for column, (intent, wording) in enumerate(self._rows):
            anchored = intent.startswith("_") or any(_is_anchor(p) for p in wording)
            for row, position in enumerate(wording):
                number = self._class_of(position, anchored=anchored)
                self._class[row, column] = number
                required = not position.optional
                self._weight[row, column] = self._weights[number] if required else 0.0
                drop[row, column] = self._drop_cost(position, number)
        self._lengths = np.array([len(wording) for _, wording in self._rows], dtype=np.int64)
        self._columns = np.arange(len(self._rows))
        self._dropped = np.zeros((height + 1, len(self._rows)), dtype=np.float32)
        np.cumsum(drop, axis=0, out=self._dropped[1:])
        self._needed = self._weight.sum(axis=0)
        self._intents = [intent for intent, _ in self._rows]
        self._columns_of: dict[str, list[int]] = {}
        for column, intent in enumerate(self._intents):
            self._columns_of.setdefault(intent, []).append(column)

    def _new_class(self, key: tuple[str, ...], weight: float) -> int:
        if key not in self._classes:
            self._classes[key] = len(self._weights)
            self._weights.append(weight)
        return self._classes[key]

    def _class_of(self, position: Position, *, anchored: bool) -> int:
        if position.list:
            known = self._new_class(("{known}", position.list), _SLOT_WEIGHT)
            any_value = self._new_class(("{any}", position.list), _SLOT_WEIGHT)
            self._known_value[position.list] = known
            self._any_value[position.list] = any_value
            return any_value if anchored else known
        number = self._new_class(position.words, _weight(position))
        for word in position.words:
            columns = self._by_word.setdefault(word, [])
            if number not in columns:
                columns.append(number)
        return number

    def _drop_cost(self, position: Position, number: int) -> float:
        if position.optional:
            return 0.0
        return _NEVER if position.list else self._weights[number]

    def add_word(self, windows: Windows, hit: Hit, word: str) -> None:
        """Note that a word of the sentences was found."""
        here = windows.setdefault((hit.start, hit.end), {})
        for number in self._by_word.get(word, ()):
            cost = self._weights[number] * hit.cost * _SOUND_FACTOR
            here[number] = min(cost, here.get(number, _NEVER))

    def add_values(
        self, windows: Windows, name: str, costs: Mapping[tuple[int, int], tuple[float, bool]]
    ) -> None:
        """Note where values of a list were found, or may stand without being known."""
        if name not in self._known_value:
            return
        for place, (cost, known) in costs.items():
            here = windows.setdefault(place, {})
            here[self._any_value[name]] = cost
            if known:
                here[self._known_value[name]] = cost

    def fits(self, tokens: Sequence[Token], windows: Windows, active: Collection[str]) -> list[Fit]:
        """The best wording of each active intent, in the order of the intents."""
        chosen = self._worth_a_look(windows, active)
        if not len(chosen):
            return []
        added = [_added_cost(token) for token in tokens]
        for place in denials(tokens):
            added[place] = _ADDED_DENIAL
        states = self._align(tokens, windows, added, chosen)
        final = states[-1][self._lengths[chosen], np.arange(len(chosen))]
        best: dict[str, int] = {}
        for place in np.argsort(final, kind="stable").tolist():
            best.setdefault(self._intents[int(chosen[place])], place)
        return [
            self._walk_back(states, windows, added, chosen, place)
            for intent, place in sorted(best.items(), key=lambda item: item[1])
            if final[place] < _NEVER and intent
        ]

    def _worth_a_look(self, windows: Windows, active: Collection[str]) -> npt.NDArray[np.int64]:
        """Columns that are active and have enough of their weight somewhere in the utterance."""
        columns = sorted(c for intent in active for c in self._columns_of.get(intent, ()))
        chosen = np.array(columns, dtype=np.int64)
        seen = np.zeros(len(self._weights), dtype=np.float32)
        for classes in windows.values():
            seen[list(classes)] = 1.0
        present = (seen[self._class[:, chosen]] * self._weight[:, chosen]).sum(axis=0)
        kept: npt.NDArray[np.int64] = chosen[present >= 0.5 * self._needed[chosen]]
        return kept

    def _align(
        self,
        tokens: Sequence[Token],
        windows: Windows,
        added: Sequence[float],
        chosen: npt.NDArray[np.int64],
    ) -> list[Floats]:
        classes = self._class[:, chosen]
        dropped = self._dropped[:, chosen]
        ending: dict[int, list[tuple[int, Floats]]] = {}
        for (start, end), costs in windows.items():
            vector = np.full(len(self._weights), _NEVER, dtype=np.float32)
            vector[list(costs)] = list(costs.values())
            ending.setdefault(end, []).append((start, vector))
        states: list[Floats] = [dropped.copy()]
        for end in range(1, len(tokens) + 1):
            state = states[-1] + np.float32(added[end - 1])
            for start, vector in ending.get(end, ()):
                np.minimum(state[1:], states[start][:-1] + vector[classes], out=state[1:])
            state -= dropped
            np.minimum.accumulate(state, axis=0, out=state)
            state += dropped
            states.append(state)
        return states

    def _walk_back(
        self,
        states: Sequence[Floats],
        windows: Windows,
        added: Sequence[float],
        chosen: npt.NDArray[np.int64],
        place: int,
    ) -> Fit:
        column = int(chosen[place])
        intent, wording = self._rows[column]
        column_states = [state[:, place].tolist() for state in states]
        word, row = len(states) - 1, len(wording)
        cost = column_states[word][row]
        walk = _Walk()
        while word or row:
            word, row = self._step(column_states, windows, added, column, (word, row), walk)
        weight = walk.matched + walk.missed
        return Fit(
            intent,
            cost,
            cost / weight if weight else _NEVER,
            walk.slots,
            frozenset(walk.unknown),
            frozenset(walk.left_over),
        )

    def _step(
        self,
        states: Sequence[Sequence[float]],
        windows: Windows,
        added: Sequence[float],
        column: int,
        at: tuple[int, int],
        walk: _Walk,
    ) -> tuple[int, int]:
        """One step back: a position found, a position left out, or a word that belongs nowhere."""
        word, row = at
        here = states[word][row]
        if row:
            number = int(self._class[row - 1, column])
            for (start, end), costs in windows.items():
                if end != word or number not in costs:
                    continue
                if abs(states[start][row - 1] + costs[number] - here) < _SAME:
                    self._note(walk, column, row - 1, (start, end), costs[number])
                    return start, row - 1
            drop = float(self._dropped[row, column] - self._dropped[row - 1, column])
            if abs(states[word][row - 1] + drop - here) < _SAME:
                walk.missed += float(self._weight[row - 1, column])
                return word, row - 1
        if added[word - 1] >= _ADDED:
            walk.left_over.add(word - 1)
        return word - 1, row

    def _note(
        self, walk: _Walk, column: int, row: int, place: tuple[int, int], cost: float
    ) -> None:
        position = self._rows[column][1][row]
        walk.matched += self._weights[int(self._class[row, column])]
        if position.list:
            walk.slots[position.slot] = (position.list, *place)
            if cost >= _UNKNOWN_VALUE and cost > 0:
                walk.unknown.add(position.slot)


def _weight(position: Position) -> float:
    if position.list:
        return _SLOT_WEIGHT
    common = all(
        (word in FUNCTION_WORDS or word in FILLERS) and word not in _DECISIVE
        for word in position.words
    )
    return _COMMON_WEIGHT if common else 1.0


def _is_anchor(position: Position) -> bool:
    """Whether the position shows by itself that this wording is meant."""
    return not position.optional and not position.list and _weight(position) == 1.0


def _added_cost(token: Token) -> float:
    if token.text in FILLERS:
        return _ADDED_FILLER
    return _ADDED_COMMON if token.text in FUNCTION_WORDS else _ADDED


def slot_costs(
    tokens: Sequence[Token], spans: Sequence[Span]
) -> dict[tuple[int, int], tuple[float, bool]]:
    """(first word, after the last) → cost and whether a value of the list stands there."""
    costs: dict[tuple[int, int], tuple[float, bool]] = {}
    for start in range(len(tokens)):
        for end in range(start + 1, min(start + _LONGEST_UNKNOWN, len(tokens)) + 1):
            if not tokens[end - 1].is_content:
                break
            cost = _UNKNOWN_VALUE + _UNKNOWN_WORD * (end - start - 1)
            if any(s.cost <= _SAID and start <= s.start and s.end <= end for s in spans):
                cost += _UNKNOWN_BEYOND_KNOWN
            costs[start, end] = (cost, False)
    for span in spans:
        place = (span.start, span.end)
        if span.value is None:
            cost, known = _UNKNOWN_VALUE + _VALUE_FACTOR * span.cost, False
        else:
            cost, known = min(_VALUE_FACTOR * span.cost, _UNKNOWN_VALUE - 0.01), True
        if place not in costs or cost < costs[place][0]:
            costs[place] = (cost, known)
    return costs
