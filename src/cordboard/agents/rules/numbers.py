"""Numbers in words and figures, both ways. English, up to 999 999. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

_SMALL = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen"
    " sixteen seventeen eighteen nineteen"
).split()
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
_ORDINALS = {
    "first": 1, "second": 2, "third": 3, "fourth": 4, "fifth": 5, "sixth": 6, "seventh": 7,
    "eighth": 8, "ninth": 9, "tenth": 10, "eleventh": 11, "twelfth": 12, "thirteenth": 13,
    "fourteenth": 14, "fifteenth": 15, "sixteenth": 16, "seventeenth": 17, "eighteenth": 18,
    "nineteenth": 19, "twentieth": 20, "thirtieth": 30, "fortieth": 40, "fiftieth": 50,
    "sixtieth": 60, "seventieth": 70, "eightieth": 80, "ninetieth": 90,
}  # fmt: skip
_ORDINAL_OF = {number: word for word, number in _ORDINALS.items()}
_VALUE = {word: number for number, word in enumerate(_SMALL)}
_VALUE |= {word: 10 * number for number, word in enumerate(_TENS, start=2)}
_DIGIT = {word: str(number) for number, word in enumerate(_SMALL[:10])}
_DIGIT |= {"oh": "0", "o": "0", "niner": "9", "tree": "3", "fife": "5", "fower": "4"}
"""Includes the spoken figures of radio telephony (ICAO Annex 10, volume II, 5.2.1.4)."""
HOMOPHONES = {"to": "two", "too": "two", "for": "four", "won": "one", "ate": "eight"}
_FIGURES = re.compile(r"\d{1,3}(,\d{3})+|\d+")
NUMBER_WORDS = frozenset({*_VALUE, *_ORDINALS, *_DIGIT, *HOMOPHONES}) | {
    "and", "hundred", "thousand", "double", "triple", "point",
}  # fmt: skip
"""Words that numbers are made of, besides figures."""


def in_words(number: int) -> str:
    """`22` → `twenty two`."""
    if number < 20:
        return _SMALL[number]
    if number < 100:
        ten, one = divmod(number, 10)
        return _TENS[ten - 2] + (f" {_SMALL[one]}" if one else "")
    for size, name in ((1000, "thousand"), (100, "hundred")):
        if number >= size:
            head, rest = divmod(number, size)
            return f"{in_words(head)} {name}" + (f" {in_words(rest)}" if rest else "")
    return str(number)


def ordinal_in_words(number: int) -> str:
    """`22` → `twenty second`."""
    if number in _ORDINAL_OF:
        return _ORDINAL_OF[number]
    if 20 < number < 100:
        ten, one = divmod(number, 10)
        return f"{_TENS[ten - 2]} {_ORDINAL_OF[one]}"
    return f"{in_words(number)}th"


def spell_out(figures: str) -> str:
    """Return the spoken words for figures of the recogniser: `80s`, `3rd`, `17:30`."""
    if match := re.fullmatch(r"(\d{1,2}):(\d{2})", figures):
        hour, minute = int(match[1]), int(match[2])
        return f"{in_words(hour)} {in_words(minute)}" if minute else in_words(hour)
    match = re.fullmatch(r"([\d,]+)(?:\.(\d+))?(st|nd|rd|th|s)?", figures)
    if match is None:
        return " ".join(re.findall(r"[a-z]+", figures)) or "number"
    whole, fraction, ending = match[1].replace(",", "") or "0", match[2], match[3]
    if len(whole) > 6 or (len(whole) > 1 and whole[0] == "0"):
        return " ".join(_SMALL[int(digit)] for digit in whole)
    words = in_words(int(whole))
    if fraction:
        return f"{words} point " + " ".join(_SMALL[int(digit)] for digit in fraction)
    if ending == "s":
        return words[:-1] + "ies" if words.endswith("y") else f"{words}s"
    return ordinal_in_words(int(whole)) if ending else words


def read_number(words: Sequence[str]) -> int | None:
    """Return the number that all these words form; None when they form none."""
    if len(words) == 1:
        figures = words[0]
        if _FIGURES.fullmatch(figures):
            return int(figures.replace(",", ""))
        if HOMOPHONES.get(figures):
            return _VALUE[HOMOPHONES[figures]]
    return _read_words([part for word in words if word != "and" for part in _as_words(word)])


def read_ordinal(words: Sequence[str]) -> int | None:
    """Return the ordinal: `third`, `3rd`, `twenty first`; also plain numbers."""
    if len(words) == 1 and (match := re.fullmatch(r"(\d+)(?:st|nd|rd|th)", words[0])):
        return int(match[1])
    if words and words[-1] in _ORDINALS:
        last = _ORDINALS[words[-1]]
        if len(words) == 1:
            return last
        head = _VALUE.get(words[0], 0) if len(words) == 2 else 0
        return head + last if head >= 20 and last < 10 else None
    return read_number(words)


def read_digits(words: Sequence[str]) -> str | None:
    """Return a row of figures spoken one by one or in groups: `five five five 1234`, `double
    two`."""
    digits = ""
    times, ten = 1, False
    for word in words:
        if word in ("double", "triple"):
            times = 2 if word == "double" else 3
            continue
        part = re.sub(r"[,.]", "", word) if word[:1].isdigit() else _DIGIT.get(word)
        if part is None and word in _VALUE:
            part = str(_VALUE[word])
        if part is None or not part.isdigit():
            return None
        if ten and times == 1 and word in _DIGIT and part != "0":
            digits = digits[:-1]  # `forty six` is 46
        digits += part * times
        times, ten = 1, word in _TENS
    return digits or None


def _as_words(word: str) -> list[str]:
    return in_words(int(word)).split() if word.isdigit() and len(word) <= 6 else [word]


def _read_words(words: list[str]) -> int | None:
    """Read whole numbers in words; refuses rows such as `one two`, which are digits."""
    if not words or words[0] in ("hundred", "thousand"):
        return None
    total = part = 0
    last = 1000
    for word in words:
        if word == "thousand" and part and not total:
            total, part, last = part * 1000, 0, 1000
        elif word == "hundred" and 0 < part < 10:
            part, last = part * 100, 100
        elif word in _VALUE:
            value = _VALUE[word]
            if value >= last or (last < 100 and (value >= 10 or last < 20)):
                return None
            part, last = part + value, value or 1
        else:
            return None
    return total + part
