"""Is a code in alphabet words, misheard and run together, still clearly that code?

"Echocera ciera alpha" has no word of the alphabet but one in it. Laid over its sounds as a whole,
Echo Sierra Sierra Alfa fits badly; but every code that differs in one letter fits worse. So the
question is not how well a listed code fits, but how far it is ahead of its nearest neighbours,
listed or not.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from cordboard.agents.rules.letters import ALPHABET
from cordboard.agents.rules.sound import whole_costs
from cordboard.agents.rules.words import Token

_LIKELY = 0.13
_AHEAD = 15.0
"""A listed code that costs up to `_LIKELY` must fit better by this much (hundredths of a consonant)
than any other code with one letter changed. Of 96 recognised codes that are one letter away from a
listed one, four came near it: at costs 0.126-0.19 and 180-30 behind, or 40 ahead at 0.153."""
_FAR_AHEAD = 80.0
"""The same at any cost."""


def in_alphabet_words(code: str) -> str:
    """`KJFK` → `kilo juliett foxtrot kilo`."""
    return " ".join(ALPHABET[letter][0] for letter in code)


@lru_cache(maxsize=256)
def _neighbours(code: str) -> tuple[str, ...]:
    """The code itself, then all codes with one letter changed, in alphabet words."""
    others = (
        code[:place] + letter + code[place + 1 :]
        for place in range(len(code))
        for letter in ALPHABET
        if letter != code[place]
    )
    return tuple(map(in_alphabet_words, (code, *others)))


def is_clear(tokens: Sequence[Token], code: str, cost: float) -> bool:
    """Whether words in which a code was found at this cost (0..1) can be no other code."""
    needed = _AHEAD if cost <= _LIKELY else _FAR_AHEAD
    return lead(tokens, code) >= needed


def lead(tokens: Sequence[Token], code: str) -> float:
    """By how much (hundredths of a consonant) the code fits these words better than others do.

    Takes about a millisecond: for the few stretches that are in doubt.
    """
    own, *others = whole_costs(tokens, _neighbours(code))
    return min(others) - own
