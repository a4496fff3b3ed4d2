"""English spelling to sounds, and the similarity of two sounds.

Not a pronouncing dictionary: a few hundred letter rules that treat both sides of a comparison the
same, so that the recogniser's text ("flesh land", "garden moon") lies close to the caller's words
(Flesland, Gardermoen). One character stands for one sound:

    p b t d k g f v T(thin) D(then) s z S(ship) Z(measure) C(church) J(judge) m n N(sing) l r w y h
    vowels: i(see) I(sit) e(bed) E(day) A(cat) @(cup, ago) o(law, lot) O(go) u(too)
    Y(my) W(now) X(boy)

The costs are in hundredths of a plain consonant. They are our own figures: pairs that a telephone
band and a small recogniser mix up (voicing, place, vowel quality) are cheap.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

CONSONANTS = "pbtdkgfvTDszSZCJmnNlrwyh"
VOWELS = "iIeEA@oOuYWX"
PHONES = CONSONANTS + VOWELS
NUMBER = {phone: index for index, phone in enumerate(PHONES)}
IntArray = npt.NDArray[np.int32]

LETTER_SOUNDS = dict(
    zip(
        "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
        "E bi si di i ef Ji EC Y JE kE el em en O pi kyu or es ti yu vi d@b@lyu eks wY zi".split(),
        strict=True,
    )
)

_WHOLE = {
    "the": "D@", "a": "@", "one": "w@n", "two": "tu", "to": "tu", "too": "tu", "four": "for",
    "eight": "Et", "of": "@v", "was": "w@z", "what": "w@t", "who": "hu", "is": "Iz", "as": "Az",
    "his": "hIz", "has": "hAz", "have": "hAv", "give": "gIv", "get": "get", "are": "or",
    "you": "yu", "your": "yor", "i": "Y", "eye": "Y", "me": "mi", "he": "hi", "we": "wi",
    "be": "bi", "she": "Si", "some": "s@m", "come": "k@m", "done": "d@n", "do": "du",
    "does": "d@z", "know": "nO", "no": "nO", "so": "sO", "go": "gO", "now": "nW", "how": "hW",
    "there": "Der", "their": "Der", "where": "wer", "were": "wr", "here": "hir", "said": "sed",
    "says": "sez", "could": "kud", "would": "wud", "should": "Sud", "people": "pip@l",
    "eyes": "Yz", "any": "eni", "many": "meni", "echo": "ekO", "quebec": "k@bek",
    "sierra": "sier@", "juliet": "Juliet", "juliett": "Juliet", "key": "ki", "xray": "eksrE",
    "alpha": "Alf@", "alfa": "Alf@", "x": "eks", "gaulle": "gol", "de": "d@", "charles": "Corlz",
    "island": "Yl@nd", "isle": "Yl", "moon": "mun", "zero": "zirO", "niner": "nYnr",
    "area": "eri@", "iron": "Yrn", "business": "bIznIs", "eighty": "Eti", "eighties": "Etiz",
    "won": "w@n", "hour": "Wr", "our": "Wr", "again": "@gen", "been": "bIn", "use": "yuz",
    "why": "wY", "by": "bY", "my": "mY", "buy": "bY", "bye": "bY", "sure": "Sur",
    "goodbye": "gudbY", "good": "gud", "wind": "wInd", "edge": "eJ",
}  # fmt: skip

_START = {
    "kn": "n", "wr": "r", "ps": "s", "gn": "n", "x": "z", "wh": "w", "mc": "m@k", "sch": "sk",
    "y": "y", "eu": "yu", "echo": "ekO", "chr": "kr", "hj": "y", "gj": "y", "kj": "S",
}  # fmt: skip
_END = {
    "tion": "S@n", "sion": "Z@n", "cian": "S@n", "ture": "Cr", "ous": "@s", "ough": "O",
    "igh": "Y", "le": "@l", "re": "r", "ed": "d", "es": "z", "ies": "iz", "ey": "i", "y": "i",
    "e": "", "a": "@", "ue": "u", "ow": "O", "ie": "i", "oe": "O", "o": "O", "mb": "m", "gue": "g",
    "que": "k", "er": "r", "or": "r", "ar": "or", "all": "ol", "ine": "in", "ew": "u", "i": "i",
    "gh": "", "ways": "wEz", "way": "wE", "land": "l@nd", "ence": "@ns", "ance": "@ns",
    "ent": "@nt", "ment": "m@nt", "s": "s", "al": "@l", "el": "@l", "en": "@n", "an": "@n",
    "on": "@n", "is": "Is", "us": "@s", "um": "@m", "age": "IJ", "oen": "un",
}  # fmt: skip
_ANYWHERE = {
    "tch": "C", "ch": "C", "sh": "S", "th": "T", "ph": "f", "ck": "k", "ng": "N", "nk": "Nk",
    "qu": "kw", "dge": "J", "dg": "J", "gh": "", "wh": "w", "sch": "S", "sc": "sk", "sci": "sY",
    "sce": "se", "ce": "se", "ci": "sI", "cy": "si", "ge": "Je", "gi": "JI", "gy": "JY", "x": "ks",
    "igh": "Y", "eigh": "E", "aigh": "E", "augh": "o", "ough": "o", "ould": "ud", "alk": "ok",
    "ee": "i", "ea": "i", "ear": "ir", "ie": "i", "ei": "i", "eu": "u", "ew": "u", "oo": "u",
    "ou": "W", "ow": "W", "oa": "O", "oi": "X", "oy": "X", "ai": "E", "ay": "E", "au": "o",
    "aw": "o", "ae": "e", "oe": "O", "ui": "u", "ue": "u", "ar": "or", "er": "r", "ir": "r",
    "or": "or", "ur": "r", "air": "er", "our": "or", "eer": "ir", "aa": "o", "ia": "i@",
    "io": "iO", "eo": "iO", "ua": "u@", "uo": "uO", "oui": "ui", "ward": "wrd", "war": "wor",
    "wor": "wr", "al": "Al", "tio": "SO", "tia": "S@", "ll": "l", "ss": "s", "tt": "t", "cc": "k",
    "zz": "z", "ff": "f", "pp": "p", "bb": "b", "dd": "d", "gg": "g", "mm": "m", "nn": "n",
    "rr": "r", "a": "A", "b": "b", "c": "k", "d": "d", "e": "e", "f": "f", "g": "g", "h": "h",
    "i": "I", "j": "J", "k": "k", "l": "l", "m": "m", "n": "n", "o": "o", "p": "p", "q": "k",
    "r": "r", "s": "s", "t": "t", "u": "@", "v": "v", "w": "w", "y": "I", "z": "z",
    "are": "er", "era": "er@", "ero": "erO", "eri": "eri",
}  # fmt: skip
_LONG = {"a": "E", "e": "i", "i": "Y", "o": "O", "u": "u", "y": "Y"}
_LONGEST_RULE = 4


@lru_cache(maxsize=4096)
def sounds(word: str) -> str:
    """Return the sounds of one lower-case word (letters only; other characters are ignored)."""
    if word in _WHOLE:
        return _WHOLE[word]
    if not any(letter in "aeiouy" for letter in word):
        return "".join(LETTER_SOUNDS.get(letter.upper(), "") for letter in word)
    found: list[str] = []
    place = 0
    while place < len(word):
        grapheme, phones = _rule(word, place)
        found.append(phones)
        place += len(grapheme)
    return _without_doubles("".join(found))


def _rule(word: str, place: int) -> tuple[str, str]:
    """Return the longest rule that fits at this place."""
    if long := _silent_e(word, place):
        return long
    for length in range(min(_LONGEST_RULE, len(word) - place), 0, -1):
        piece = word[place : place + length]
        if place == 0 and piece in _START and length < len(word):
            return piece, _START[piece]
        if place and place + length == len(word) and piece in _END:
            return piece, _END[piece]
        if piece in _ANYWHERE:
            if piece in ("ge", "gi", "ce", "ci") and length == 2:
                return piece[0], _ANYWHERE[piece][0]
            return piece, _ANYWHERE[piece]
    return word[place], ""


def _silent_e(word: str, place: int) -> tuple[str, str] | None:
    """`make`, `time`, `lines`: the vowel is long and the e silent (the end rules drop it)."""
    if word[place] not in _LONG or (place and word[place - 1] in "aeiou"):
        return None
    rest = word[place + 1 :]
    if len(rest) == 2 and rest[1] == "e" and rest[0] not in "aeiouyrw":
        return word[place], _LONG[word[place]]
    if len(rest) == 3 and rest[1:] in ("es", "ed") and rest[0] not in "aeiouyrwx":
        return word[place], _LONG[word[place]]
    return None


def _without_doubles(phones: str) -> str:
    kept = phones[:1]
    for phone in phones[1:]:
        if phone != kept[-1]:
            kept += phone
    return kept


_ALIKE = {
    8: "I@ e@ A@ o@",
    15: "iI Ie eA oO TD sz SZ",
    20: "eE uO @O @u @E Ao ie",
    25: "tT dD fT vD nN CJ SC ZJ IE EA",
    30: "fv pb kg gJ sS zZ WO Wo YX YI YE Eo iE iu Au",
    35: "td tC dJ sT zD bv vw wu yi zJ",
    45: "mn fs lr nl dg tk pt pk bd yJ kC",
    60: "lw rw hf mb dn",
}
"""Pairs that are easily taken for each other → cost."""


_WEAK = {"@": 25, "I": 35, "h": 40, "r": 35, "y": 40, "w": 60, "d": 60, "t": 70, "n": 70}
"""Sounds that are easily swallowed → cost."""


def _change_costs() -> IntArray:
    """Return CHANGE[a, b]: the cost of hearing `a` written as `b`."""
    table = np.full((len(PHONES), len(PHONES)), 100, dtype=np.int32)
    vowels = [NUMBER[v] for v in VOWELS]
    table[np.ix_(vowels, vowels)] = 40
    table[np.ix_(vowels, range(len(CONSONANTS)))] = 140
    table[np.ix_(range(len(CONSONANTS)), vowels)] = 140
    for cost, pairs in _ALIKE.items():
        for pair in pairs.split():
            first, second = NUMBER[pair[0]], NUMBER[pair[1]]
            table[first, second] = table[second, first] = cost
    np.fill_diagonal(table, 0)
    return table


def _loss_costs() -> IntArray:
    """Return the cost of each missing or added sound."""
    costs = np.full(len(PHONES), 100, dtype=np.int32)
    for phone in VOWELS:
        costs[NUMBER[phone]] = 50
    for phone, cost in _WEAK.items():
        costs[NUMBER[phone]] = cost
    return costs


CHANGE: IntArray = _change_costs()
LOSS: IntArray = _loss_costs()


def encode(phones: str) -> IntArray:
    """Return sounds as numbers, for the tables."""
    return np.array([NUMBER[phone] for phone in phones], dtype=np.int32)
