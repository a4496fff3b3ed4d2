"""Clues of a draft text about the end of the turn. Small rules for English; pure.

A draft gets the first clue of these that fits: nothing, a complete answer (only the dialogue can
say), a listener's murmur, dictation under way, words that plainly continue, or words.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import Enum


class TextClue(Enum):
    """The clue of a text about the turn it may end."""

    NOTHING = "nothing"
    """No words."""
    COMPLETE = "complete"
    """A complete answer to the question."""
    MURMUR = "murmur"
    """A listener's murmur."""
    BEGINNING = "beginning"
    """A first word that may become a murmur (`I` of `I see`), while the voice continues."""
    DICTATION = "dictation"
    """Digits or letters, probably not all of them."""
    DANGLING = "dangling"
    """The last word cannot end a sentence."""
    ONE_WORD = "one_word"
    """Perhaps complete, but too short for its melody to be judged."""
    WORDS = "words"
    """Words that may be complete or not."""

    @property
    def has_words(self) -> bool:
        """True if the text contains words that need an answer."""
        return self not in (TextClue.NOTHING, TextClue.MURMUR, TextClue.BEGINNING)


_HUM = re.compile(r"m+|h+m+|u+[hm]+|e+r+m*|o+h+|a+h+a*|(m+|u+[hm]*|h+m+|e+h+)-?h+[aeu]*[hm]+")
"""Mm, hmm, uh, um, oh, aha, and mm-hmm, mhm, uh-huh, mm-huh as recognisers write them."""
_MURMURS = frozenset(
    "okay ok right alright yeah yes yep yup sure good great nice fine cool exactly indeed".split()
)
_MURMURED_PHRASES = frozenset({"i see", "got it", "all right", "of course", "very good", "uh huh"})
_BEGINNINGS = frozenset(phrase.split()[0] for phrase in _MURMURED_PHRASES)
_WORD = re.compile(r"[a-z]+(?:['-][a-z]+)*|\d+")
_MOST_MURMURS = 4

_SHORT_ANSWER = 3
"""A complete answer of up to this many words is taken at once; longer ones may have a tail
("please") behind a comma's pause of about 0.3 s. The dialogue counts digits and letters."""
_CLOSING = re.compile(
    r"\b(bye|thanks|thank you|very much|so much|day|evening|night|weekend|later|all|everything|"
    r"nothing else|bye now|goodbye)\W*$"
)
"""The end of a farewell: no tail follows, however long it was."""
_DANGLING = frozenset(
    "a an the for at in on of to from with and or but my is are was it's i'm i'd um uh er well "
    "about near into between your their our this these than because while if whether whose which "
    "currently am be been being another every not cannot can't don't didn't doesn't isn't aren't "
    "won't i".split()
)
_AUXILIARIES = frozenset(
    "am is are was were be been being has have had will would can could should must may might "
    "i'm it's he's she's we're they're you're i've we've i'll we'll".split()
)
_NUMBER_ANNOUNCED = re.compile(
    r"(my|our|the|it's|its|account|order|booking|reference|customer|phone|telephone|flight|ticket)"
    r"( [a-z']+){0,3} (number|code)|(number|code)"
)
"""`My booking number`: the number comes after a breath."""
_WORDS = re.compile(r"[a-z']+|\d+")
_DIGITS = frozenset(
    "zero oh o one two three four five six seven eight nine double triple hundred".split()
)
_SPELLING = frozenset(
    "alpha alfa bravo charlie delta echo foxtrot golf hotel india juliet juliett kilo lima mike "
    "november oscar papa quebec romeo sierra tango uniform victor whiskey whisky xray x-ray yankee "
    "zulu".split()
)
_NOT_LETTERS = frozenset("ai")
_SIGNS_ANNOUNCED = re.compile(r"\b(number|code|digits|pin|account|spell(ed|ing|s)?|letters?)\b")
_PHONE_LENGTHS = frozenset((7, 8, 10, 11))
"""Lengths at which a dictated number may be complete: then the voice decides."""


def clue_of(text: str, *, complete: bool) -> TextClue:
    """Return the clue of a draft. `complete`: the dialogue takes it for a complete answer."""
    words = _WORD.findall(text.lower())
    if not words:
        return TextClue.NOTHING
    ended = _is_sign(words[-1]) or _CLOSING.search(text.lower())
    if complete and (len(words) <= _SHORT_ANSWER or ended):
        return TextClue.COMPLETE
    if is_murmur(text):
        return TextClue.MURMUR
    if _is_dictation(words, text):
        return TextClue.DICTATION
    if text.rstrip().endswith(("...", ",", "-", "\u2026")) or is_unfinished(text):
        return TextClue.DANGLING
    return TextClue.ONE_WORD if len(words) == 1 else TextClue.WORDS


def is_murmur(text: str) -> bool:
    """True if it contains only backchannels: `mm-hmm`, `okay, okay`, `yeah, I see`."""
    words = _WORD.findall(text.lower())
    place = 0
    count = 0
    while place < len(words):
        if words[place] in _MURMURS or _HUM.fullmatch(words[place]):
            place += 1
        elif " ".join(words[place : place + 2]) in _MURMURED_PHRASES:
            place += 2
        else:
            return False
        count += 1
    return 0 < count <= _MOST_MURMURS


def begins_with_murmur(text: str) -> bool:
    """True if the first word is a murmur: `okay, but what about Oslo?`"""
    words = _WORD.findall(text.lower())
    return bool(words) and is_murmur(words[0])


def may_become_murmur(text: str) -> bool:
    """True if it is the beginning of a murmured phrase: `I` of `I see`."""
    words = _WORD.findall(text.lower())
    return len(words) == 1 and words[0] in _BEGINNINGS


def _is_dictation(words: Sequence[str], text: str) -> bool:
    """True if it ends in digits or letters, and more of them may follow."""
    tail = 0
    for word in reversed(words):
        if not _is_sign(word):
            break
        tail += 1
    if not tail:
        return False
    signs = words[len(words) - tail :]
    count = sum(len(sign) if sign.isdigit() or len(sign) == 1 else 1 for sign in signs)
    announced = bool(_SIGNS_ANNOUNCED.search(" ".join(words[: len(words) - tail])))
    if all(sign.isdigit() or sign in _DIGITS for sign in signs):
        if count in _PHONE_LENGTHS or (count > 11):
            return False
        return count >= 3 or announced
    if text.rstrip().endswith("?"):
        return False
    return announced or 2 * tail >= len(words)


def _is_sign(word: str) -> bool:
    return (
        word.isdigit()
        or word in _DIGITS
        or word in _SPELLING
        or (len(word) == 1 and (word not in _NOT_LETTERS))
    )


def is_unfinished(text: str) -> bool:
    """True if the last word cannot end a sentence. A text with a question mark is finished.

    A caller who stops after "the weather for" is looking for a name, not waiting for an answer.
    """
    if text.rstrip().endswith("?"):
        return False
    words = _WORDS.findall(text.lower())
    if not words:
        return False
    adverb = len(words) > 1 and words[-1].endswith("ly") and words[-2] in _AUXILIARIES
    return (
        adverb or words[-1] in _DANGLING or _NUMBER_ANNOUNCED.fullmatch(" ".join(words)) is not None
    )
