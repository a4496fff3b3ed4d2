"""Spelled codes: KJFK, "K J F K", "kilo juliett foxtrot kilo", "kay jay eff kay", or mixed.

Codes may hold figures ("B T nine two"), and a letter may be explained ("B for Bravo", "A as in
apple"). Each word of the utterance may stand for letters in several ways, each with a doubt;
`Speller.find` joins neighbours into codes of the wanted length. Letters are easily misheard on the
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
    doubt: float
    """Sum over the characters; 0 = each written as itself."""
    named: str
    """Those characters whose own name was spoken, not a word of the alphabet."""


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
    pairs = [pair for pair in zip(run.code, code, strict=True) if pair[0] != pair[1]]
    return len(pairs) == 1 and pairs[0][0] in run.named and any({*pairs[0]} <= {*g} for g in _ALIKE)


@dataclass(frozen=True, slots=True)
class Speller:
    """Reads spelled codes."""

    listed: Collection[str] = ()
    """Codes that may also be written as one ordinary word ("Engm")."""
    words: Collection[str] = ()
    """The context's own words, which are never taken for letters ("ATIS")."""
    figures: bool = False
    """True if codes have figures."""

    def find(
        self, tokens: Sequence[Token], alphabet: Collection[AlphabetHit], length: int
    ) -> list[Spelled]:
        """Return all codes of `length` characters, the least doubtful first."""
        pieces = [[*self._pieces(tokens, place, alphabet)] for place in range(len(tokens))]
        found: dict[tuple[int, int, str], Spelled] = {}
        for start in range(len(tokens)):
            for run in _runs(pieces, start, length):
                key = (run.start, run.end, run.code)
                # `you see why I` spells nothing: not more than half may be ordinary words
                plain = run.doubt <= _HOMOPHONE_DOUBT * length / 2
                if plain and (key not in found or run.doubt < found[key].doubt):
                    found[key] = run
        kept = [run for run in found.values() if not _goes_on(pieces, run)]
        return sorted(kept, key=lambda run: (run.doubt, run.start, run.code))

    def _pieces(
        self, tokens: Sequence[Token], place: int, alphabet: Collection[AlphabetHit]
    ) -> Iterator[Spelled]:
        """Yield the possible spellings of the words from `place` on."""
        text, end = tokens[place].text, place + 1
        for hit in alphabet:
            if hit.start == place:
                yield Spelled(place, hit.end, hit.letter, hit.cost, "")
        if text == "double" and end < len(tokens):
            if tokens[end].text in ("you", "u", "ew"):
                yield Spelled(place, end + 1, "W", _WRITTEN_SMALL_DOUBT, "W")
            for one in self._pieces(tokens, end, alphabet):
                if len(one.code) == 1:
                    yield replace(one, start=place, code=one.code * 2)
        if self.figures and (digits := read_digits([text])):
            yield Spelled(place, end, digits, _WRITTEN_SMALL_DOUBT if text == "o" else 0.0, "")
            if text != "o":
                return
        elif self.figures and text in _BETWEEN:
            yield Spelled(place, end, "", 0.0, "")
        letters, doubt = self._letters(tokens[place])
        if len(letters) == 1 and doubt < _HOMOPHONE_DOUBT and (after := _explained(tokens, place)):
            yield Spelled(place, after, letters, 0.0, "")
        elif letters:
            yield Spelled(place, end, letters, doubt * len(letters), letters)

    def _letters(self, token: Token) -> tuple[str, float]:
        """Return the letters that a word stands for by itself, and the doubt about each."""
        text = token.text
        if len(text) == 1 and text.isascii() and text.isalpha():
            return text.upper(), 0.0 if token.letters or text != "a" else _WRITTEN_SMALL_DOUBT
        if token.letters and text not in self.words:
            return token.letters, 0.0
        unspeakable = text.isalpha() and not set(text) & set("aeiouy")
        short = 2 <= len(text) <= _LONGEST_PIECE
        if text not in self.words and (text.upper() in self.listed or (short and unspeakable)):
            return text.upper(), _WRITTEN_SMALL_DOUBT
        if text in _BY_NAME:
            return _BY_NAME[text], _WRITTEN_SMALL_DOUBT
        return _BY_HOMOPHONE.get(text, ""), _HOMOPHONE_DOUBT


def _explained(tokens: Sequence[Token], place: int) -> int:
    """Return the end of `B for Bravo`, `A as in apple`, `M like Mike`; 0 where no such word
    follows."""
    after = [token.text for token in tokens[place + 1 : place + 4]]
    for joint in (["for"], ["like"], ["as", "in"]):
        word = after[len(joint) : len(joint) + 1]
        if after[: len(joint)] == joint and word and word[0][0] == tokens[place].text:
            return place + 2 + len(joint)
    return 0


def _runs(pieces: list[list[Spelled]], start: int, length: int) -> Iterator[Spelled]:
    """Yield every way to spell exactly `length` characters from `start` on."""
    open_runs = [Spelled(start, start, "", 0.0, "")]
    while open_runs:
        run = open_runs.pop()
        if len(run.code) == length:
            yield run
        elif run.end < len(pieces):
            for piece in pieces[run.end]:
                code = run.code + piece.code
                if code and len(code) <= length:
                    doubt, named = run.doubt + piece.doubt, run.named + piece.named
                    open_runs.append(Spelled(start, piece.end, code, doubt, named))


def _goes_on(pieces: list[list[Spelled]], run: Spelled) -> bool:
    """True if more letters stand right before or after: then its borders are a guess."""

    def surely(piece: Spelled) -> bool:
        return piece.doubt < _WRITTEN_SMALL_DOUBT and piece.code not in ("", "I")

    near = [p for place in pieces[max(0, run.start - 2) : run.start] for p in place]
    before = any(surely(piece) for piece in near if piece.end == run.start)
    return before or any(
        surely(piece) for place in pieces[run.end : run.end + 1] for piece in place
    )
