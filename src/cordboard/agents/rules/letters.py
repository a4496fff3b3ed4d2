"""Spelled codes: KJFK, "K J F K", "kilo juliett foxtrot kilo", "kay jay eff kay", or mixed.

Codes may hold figures ("B T nine two"), and a letter may be explained ("B for Bravo", "A as in
apple"). Each word of the utterance may stand for letters in several ways, each with a doubt;
`find_spelled` joins neighbours into codes of the wanted length. Letters are easily misheard on the
telephone (`sounds_like`): a spelled code is never changed into a listed one without a question.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from cordboard.agents.rules.numbers import read_digits
from cordboard.agents.rules.words import Token

ALPHABET = {
    "A": "alfa", "B": "bravo", "C": "charlie", "D": "delta", "E": "echo", "F": "foxtrot",
    "G": "golf", "H": "hotel", "I": "india", "J": "juliett", "K": "kilo", "L": "lima", "M": "mike",
    "N": "november", "O": "oscar", "P": "papa", "Q": "quebec", "R": "romeo", "S": "sierra",
    "T": "tango", "U": "uniform", "V": "victor", "W": "whiskey", "X": "x ray", "Y": "yankee",
    "Z": "zulu",
}  # fmt: skip
"""The spelling alphabet (ICAO Annex 10, volume II, 5.2.1.3)."""
_NAMES = {
    "A": "ay", "B": "bee", "C": "cee", "D": "dee", "F": "ef eff", "G": "gee jee",
    "H": "aitch", "J": "jay", "K": "kay", "L": "el ell elle", "M": "em", "N": "en", "P": "pee",
    "Q": "queue cue", "S": "ess", "T": "tee", "V": "vee",
    "W": "doubleyou", "X": "ex", "Z": "zee zed",
}  # fmt: skip
_HOMOPHONES = {
    "A": "eh hey", "B": "be", "C": "see sea si", "D": "de", "E": "ee he", "F": "if", "G": "ji",
    "H": "age each", "I": "eye", "K": "key ok", "M": "am", "N": "an end and in", "O": "oh owe",
    "P": "pea", "R": "are our", "S": "es as", "T": "tea", "U": "you ewe", "V": "we", "X": "eggs",
    "Y": "why",
}  # fmt: skip
"""Ordinary words that a recogniser writes for letters."""
_BY_NAME = {name: letter for letter, names in _NAMES.items() for name in names.split()}
_BY_HOMOPHONE = {name: letter for letter, names in _HOMOPHONES.items() for name in names.split()}
_HOMOPHONE_DOUBT = 0.5
_WRITTEN_SMALL_DOUBT = 0.1
"""A lower-case `a`, or letters run together in small type."""
_LONGEST_PIECE = 8
_BETWEEN = frozenset("then and um uh er so".split())
"""Words that may stand between the characters of a code with figures."""
_ALIKE = ("BCDEGPTVZ", "AEHJK", "MN", "FSX", "IY", "QU")
"""Names of letters that sound alike on a telephone line."""


@dataclass(frozen=True, slots=True)
class Spelled:
    """A code spelled in the words `start` to `end` (exclusive)."""

    start: int
    end: int
    code: str
    doubts: tuple[float, ...]
    """Doubt per character; 0 = written as that character."""
    named: tuple[bool, ...]
    """Per character: True if its own name was spoken, not a word of the alphabet."""

    @property
    def doubt(self) -> float:
        return sum(self.doubts)


@dataclass(frozen=True, slots=True)
class AlphabetHit:
    """A word of the spelling alphabet found by sound."""

    letter: str
    start: int
    end: int
    cost: float


def in_alphabet_words(code: str) -> str:
    """`KJFK` → `kilo juliett foxtrot kilo`."""
    return " ".join(ALPHABET[letter] for letter in code)


def sounds_like(run: Spelled, code: str) -> bool:
    """True if one spelled letter may have been misheard, or lost, to give `code`."""
    if len(code) == len(run.code) + 1:
        return any(code[:gap] + code[gap + 1 :] == run.code for gap in range(len(code)))
    if len(code) != len(run.code):
        return False
    places = [place for place, letter in enumerate(code) if letter != run.code[place]]
    if len(places) != 1 or not run.named[places[0]]:
        return False
    pair = {code[places[0]], run.code[places[0]]}
    return any(pair <= set(group) for group in _ALIKE)


def find_spelled(
    tokens: Sequence[Token],
    alphabet: Collection[AlphabetHit],
    length: int,
    *,
    listed: Collection[str] = (),
    words: Collection[str] = (),
    figures: bool = False,
) -> list[Spelled]:
    """Return all codes of `length` characters, the least doubtful first.

    `listed` are codes that may also be written as one ordinary word ("Engm"); `words` are the
    context's own words, which are never taken for letters ("ATIS"). `figures`: codes have some.
    """
    pieces = [
        [*_readings(tokens, place, alphabet, listed, words, figures)]
        for place in range(len(tokens))
    ]
    found: dict[tuple[int, int, str], Spelled] = {}
    for start in range(len(tokens)):
        for run in _runs(pieces, start, length):
            key = (run.start, run.end, run.code)
            if key not in found or run.doubt < found[key].doubt:
                found[key] = run
    kept = [run for run in found.values() if _is_plain(run) and not _goes_on(pieces, run)]
    return sorted(kept, key=lambda run: (run.doubt, run.start, run.code))


@dataclass(frozen=True, slots=True)
class _Reading:
    end: int
    letters: str
    doubt: float
    named: bool = True


def _readings(
    tokens: Sequence[Token],
    place: int,
    alphabet: Collection[AlphabetHit],
    listed: Collection[str],
    words: Collection[str],
    figures: bool,
) -> Iterator[_Reading]:
    """Yield the possible spellings of the words from `place` on."""
    token = tokens[place]
    for hit in alphabet:
        if hit.start == place:
            yield _Reading(hit.end, hit.letter, hit.cost, named=False)
    if token.text == "double" and place + 1 < len(tokens):
        if tokens[place + 1].text in ("you", "u", "ew"):
            yield _Reading(place + 2, "W", _WRITTEN_SMALL_DOUBT)
        for reading in _readings(tokens, place + 1, alphabet, listed, words, figures):
            if len(reading.letters) == 1:
                yield replace(reading, letters=reading.letters * 2)
    if figures and (digits := read_digits([token.text])):
        yield _Reading(place + 1, digits, _WRITTEN_SMALL_DOUBT if token.text == "o" else 0.0)
        if token.text != "o":
            return
    elif figures and token.text in _BETWEEN:
        yield _Reading(place + 1, "", 0.0)
    yield from _letter(tokens, place, listed, words)


def _letter(
    tokens: Sequence[Token], place: int, listed: Collection[str], words: Collection[str]
) -> Iterator[_Reading]:
    """Yield the possible spellings of one word, with the word that explains it."""
    token = tokens[place]
    written = _written(token, listed, words)
    if written and len(written[0]) == 1 and (end := _explained(tokens, place)):
        yield _Reading(end, written[0], 0.0, named=False)
    elif written:
        yield _Reading(place + 1, *written)
    elif token.text in _BY_NAME:
        yield _Reading(place + 1, _BY_NAME[token.text], _WRITTEN_SMALL_DOUBT)
    elif token.text in _BY_HOMOPHONE:
        yield _Reading(place + 1, _BY_HOMOPHONE[token.text], _HOMOPHONE_DOUBT)


def _explained(tokens: Sequence[Token], place: int) -> int:
    """Return the end of `B for Bravo`, `A as in apple`, `M like Mike`; 0 where no such word
    follows."""
    after = [token.text for token in tokens[place + 1 : place + 4]]
    for joint in (["for"], ["like"], ["as", "in"]):
        size = len(joint)
        word = after[size : size + 1]
        if after[:size] == joint and word and word[0][0] == tokens[place].text:
            return place + 2 + size
    return 0


def _written(
    token: Token, listed: Collection[str], words: Collection[str]
) -> tuple[str, float] | None:
    """Return letters that the recogniser wrote as such, and the doubt about them."""
    text = token.text
    if len(text) == 1 and text.isascii() and text.isalpha():
        return text.upper(), 0.0 if token.letters or text != "a" else _WRITTEN_SMALL_DOUBT
    if text in words:
        return None
    if token.letters:
        return token.letters, 0.0
    unspeakable = text.isalpha() and not set(text) & set("aeiouy")
    if text.upper() in listed or (2 <= len(text) <= _LONGEST_PIECE and unspeakable):
        return text.upper(), _WRITTEN_SMALL_DOUBT
    return None


def _runs(pieces: list[list[_Reading]], start: int, length: int) -> Iterator[Spelled]:
    """Yield every way to spell exactly `length` characters from `start` on."""
    open_runs = [Spelled(start, start, "", (), ())]
    while open_runs:
        run = open_runs.pop()
        if len(run.code) == length:
            yield run
        elif run.end < len(pieces):
            for reading in pieces[run.end]:
                count = len(reading.letters)
                if len(run.code) + count <= length and (count or run.code):
                    open_runs.append(
                        Spelled(
                            start,
                            reading.end,
                            run.code + reading.letters,
                            run.doubts + (reading.doubt,) * count,
                            run.named + (reading.named,) * count,
                        )
                    )


def _is_plain(run: Spelled) -> bool:
    """True if enough of it is certain letters: `you see why I` spells nothing."""
    sure = sum(doubt < _HOMOPHONE_DOUBT for doubt in run.doubts)
    return sure * 2 >= len(run.code)


def _goes_on(pieces: list[list[_Reading]], run: Spelled) -> bool:
    """True if more letters stand right before or after: then its borders are a guess."""

    def surely(reading: _Reading) -> bool:
        return reading.doubt < _WRITTEN_SMALL_DOUBT and reading.letters not in ("", "I")

    after = run.end < len(pieces) and any(surely(reading) for reading in pieces[run.end])
    before = any(
        reading.end == run.start and surely(reading)
        for place in range(max(0, run.start - 2), run.start)
        for reading in pieces[place]
    )
    return after or before
