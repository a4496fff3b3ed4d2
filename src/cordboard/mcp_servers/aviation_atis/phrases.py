"""Numbers, letters and runways as a controller speaks them. Pure text, no weather.

Digits one by one, whole hundreds and thousands as such: ICAO Annex 10 volume II, 5.2.1.4.1;
spelling alphabet: the same volume, 5.2.1.3. Only "niner" is spelled as pronounced, the other digits
are ordinary words, because a speech synthesiser reads the text.
"""

from __future__ import annotations

import re
import unicodedata

DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "niner")

ALPHABET = dict(
    zip(
        "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
        "Alfa Bravo Charlie Delta Echo Foxtrot Golf Hotel India Juliett Kilo Lima Mike November "
        "Oscar Papa Quebec Romeo Sierra Tango Uniform Victor Whiskey Xray Yankee Zulu".split(),
        strict=True,
    )
)

_SIDES = {"L": "left", "R": "right", "C": "centre"}
_COMPASS = ("north", "northeast", "east", "southeast", "south", "southwest", "west", "northwest")
# Letters that Unicode decomposition does not change, in the spelling aviation uses for them.
_LETTERS = str.maketrans(
    {
        "æ": "ae",
        "Æ": "Ae",
        "ø": "oe",
        "Ø": "Oe",
        "å": "aa",
        "Å": "Aa",
        "ß": "ss",
        "ł": "l",
        "Ł": "L",
    }
)
_SYMBOLS = {"%": " percent ", "&": " and ", "+": " plus ", "°": " degrees "}
_NUMBER = re.compile(r"(?<![A-Za-z0-9])(\d{2})([LRC])\b|(\d+)(?:\.(\d+))?")
_UNSPEAKABLE = re.compile(r"[^A-Za-z ,.']")


def digits(number: int | str) -> str:
    """``"1350"`` -> ``"one three five zero"``; other characters than digits are dropped."""
    return " ".join(DIGITS[int(digit)] for digit in str(number) if digit in "0123456789")


def signed(number: int) -> str:
    return f"minus {digits(-number)}" if number < 0 else digits(number)


def rounded(number: int) -> str:
    """Speak a height or distance: whole hundreds and thousands as such, others by digit."""
    if number < 100 or number % 100:
        return digits(number)
    thousands, hundreds = number // 1000, number % 1000 // 100
    parts = []
    if thousands:
        parts.append(f"{digits(thousands)} thousand")
    if hundreds:
        parts.append(f"{DIGITS[hundreds]} hundred")
    return " ".join(parts)


def spelled(letters: str) -> str:
    """``"ENGM"`` -> ``"Echo November Golf Mike"``."""
    return " ".join(
        ALPHABET[letter] if letter in ALPHABET else digits(letter) for letter in letters.upper()
    )


def runway(name: str) -> str:
    """``"22L"`` -> ``"two two left"``. A doubled side (``"RR"``, outermost) is spoken once."""
    side = _SIDES.get(name[-1:], "")
    return f"{digits(name)} {side}".strip()


def frequency(megahertz: str) -> str:
    """``"118.300"`` -> ``"one one eight decimal three"``."""
    whole, _, fraction = megahertz.partition(".")
    return f"{digits(whole)} decimal {digits(fraction.rstrip('0') or '0')}"


def compass(degrees: int) -> str:
    return _COMPASS[round(degrees / 45) % 8]


def listed(items: list[str]) -> str:
    """``["a", "b", "c"]`` -> ``"a, b and c"``."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"


def speakable(text: str) -> str:
    """Return free text (names, advisories) with numbers in words and without symbols.

    The result has only ASCII letters, spaces, commas, full stops and apostrophes. Diacritics are
    removed (``Zürich`` -> ``Zurich``), other scripts are dropped. It begins and ends with a letter,
    or is empty.
    """
    folded = unicodedata.normalize("NFKD", text.translate(_LETTERS))
    folded = "".join(letter for letter in folded if not unicodedata.combining(letter))
    for symbol, word in _SYMBOLS.items():
        folded = folded.replace(symbol, word)
    folded = re.sub(r"[!?;:]", ".", folded)
    plain = _UNSPEAKABLE.sub(" ", _NUMBER.sub(_number_in_words, folded))
    plain = re.sub(r"\s+([,.])", r"\1", re.sub(r"\s+", " ", plain))
    return re.sub(r"[,.]*\.[,.]*", ".", plain).strip(" ,.'")


def _number_in_words(match: re.Match[str]) -> str:
    runway_number, side, whole, fraction = match.groups()
    if runway_number:
        return f" {runway(runway_number + side)} "
    words = digits(whole)
    return f" {words} decimal {digits(fraction)} " if fraction else f" {words} "
