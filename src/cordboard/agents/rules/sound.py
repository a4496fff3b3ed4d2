"""Find expected words in an utterance by their sound.

A `SoundIndex` is built once from everything a context may expect: words of its sentences, ways to
say its list values, the spelling alphabet. `find` aligns each of them with the utterance's sounds,
beginning and ending at word borders only, and returns the places where it fits. So one expected
word may be found in two written ones ("fox trot") or two in one.

All entries are aligned at once, row by row, with numpy: one row for each sound of the utterance.
Measured with 400 entries and 12 words: see docs/offline-agent.md. Nothing is remembered between
calls; the index is shared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cordboard.agents.rules.phones import CHANGE, LETTER_SOUNDS, LOSS, IntArray, encode, sounds
from cordboard.agents.rules.words import Token

_START_BITS = 6
"""The word at which a match began is stored in the low bits of its cost."""
_START_MASK = (1 << _START_BITS) - 1
_NEVER = 1 << 28
_FULL_LIMIT_WEIGHT = 260
"""Entries lighter than this (about four sounds) must fit better than long ones."""


@dataclass(frozen=True, slots=True)
class Hit:
    """One expected entry, found in the words `start` to `end` (exclusive)."""

    entry: int
    start: int
    end: int
    cost: float
    """0 = sounds the same; 1 = nothing in common."""


class SoundIndex:
    """Expected words and phrases, ready for lookup. `limits` bound the cost of each."""

    def __init__(self, phrases: Sequence[str], limits: Sequence[float]) -> None:
        self._by_text: dict[str, list[int]] = {}
        for number, phrase in enumerate(phrases):
            self._by_text.setdefault(phrase, []).append(number)
        self._longest_text = max((len(phrase.split()) for phrase in phrases), default=0)
        codes = [encode(phrase_sounds(phrase)) for phrase in phrases]
        self._columns = np.arange(len(codes))
        self._lengths = np.array([len(code) for code in codes], dtype=np.int32)
        padded = np.zeros((max(map(len, codes), default=0), len(codes)), dtype=np.int32)
        for column, code in enumerate(codes):
            padded[: len(code), column] = code
        self._lost = np.zeros((len(padded) + 1, len(codes)), dtype=np.int32)
        np.cumsum(LOSS[padded] << _START_BITS, axis=0, out=self._lost[1:])
        change = CHANGE[:, padded] << _START_BITS
        self._steps: IntArray = (change - np.diff(self._lost, axis=0)).astype(np.int32)
        """[heard sound, place, entry] → cost of hearing it for that one, minus the cost of losing
        it."""
        self._whole = self._lost[self._lengths, self._columns]
        self._weights = (self._whole >> _START_BITS).astype(np.float64)
        self._limits = np.array(limits) * np.minimum(1.0, self._weights / _FULL_LIMIT_WEIGHT)

    def find(self, tokens: Sequence[Token]) -> list[Hit]:
        """Return every place where an entry fits within its limit; at most one start for each
        end."""
        found = {(hit.entry, hit.end): hit for hit in self._by_spelling(tokens)}
        for hit in self._by_sound([encode(token_sounds(token)) for token in tokens]):
            found.setdefault((hit.entry, hit.end), hit)
        return list(found.values())

    def _by_spelling(self, tokens: Sequence[Token]) -> list[Hit]:
        hits: list[Hit] = []
        for start in range(len(tokens)):
            text = ""
            for end in range(start + 1, min(start + self._longest_text, len(tokens)) + 1):
                text = f"{text} {tokens[end - 1].said}" if text else tokens[end - 1].said
                hits += [Hit(entry, start, end, 0.0) for entry in self._by_text.get(text, ())]
        return hits

    def _by_sound(self, spoken: Sequence[IntArray]) -> list[Hit]:
        """Align all entries with the words' sounds; see the module's docstring.

        Costs are kept relative to `_lost` (the cost of leaving out the entry so far), so that
        allowing sounds to be missing is a running minimum down each column.
        """
        state = np.zeros_like(self._lost)
        gain = np.empty_like(state)
        kept = np.empty_like(state[1:])
        hits: list[Hit] = []
        for word, code in enumerate(spoken):
            phones = code.tolist()
            for place, phone in enumerate(phones):
                np.add(state[:-1], self._steps[phone], out=gain[1:])
                np.add(state[1:], int(LOSS[phone]) << _START_BITS, out=kept)
                np.minimum(gain[1:], kept, out=gain[1:])
                gain[0] = word + 1 if place == len(phones) - 1 else _NEVER
                np.minimum.accumulate(gain, axis=0, out=state)
            if phones:
                self._collect(state, word + 1, hits)
        return hits

    def _collect(self, state: IntArray, end: int, hits: list[Hit]) -> None:
        whole = state[self._lengths, self._columns] + self._whole
        costs = (whole >> _START_BITS) / self._weights
        for column in np.nonzero(costs <= self._limits)[0].tolist():
            start = int(whole[column]) & _START_MASK
            if start < end:
                hits.append(Hit(column, start, end, float(costs[column])))


def phrase_sounds(phrase: str) -> str:
    """The sounds of a phrase in plain words."""
    return "".join(sounds(word) for word in phrase.split())


def token_sounds(token: Token) -> str:
    """The sounds of a word; an abbreviation without a vowel is spelled."""
    if token.letters and (len(token.letters) == 1 or not set(token.letters) & set("AEIOUY")):
        return "".join(LETTER_SOUNDS[letter] for letter in token.letters)
    return phrase_sounds(token.said)
