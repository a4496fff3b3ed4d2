"""From a recogniser's text to words: one `Token` for each, in a spelling that can be compared.

"What's the ATIS for K.J.F.K.?" becomes what / is / the / atis / for / kjfk, the last one marked as
letters. Pure text work; templates go through `plain_sentence` so that both sides look alike.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from cordboard.agents.rules.numbers import NUMBER_WORDS, spell_out

LONGEST_UTTERANCE = 40
"""Most words of an utterance; of a longer one the end counts, where people say their request."""

CONTRACTIONS = {
    "what's": "what is", "whats": "what is", "how's": "how is", "where's": "where is",
    "that's": "that is", "it's": "it is", "there's": "there is", "here's": "here is",
    "who's": "who is", "when's": "when is", "let's": "let us", "i'm": "i am", "i'd": "i would",
    "i'll": "i will", "i've": "i have", "we're": "we are", "we'd": "we would", "we'll": "we will",
    "we've": "we have", "you're": "you are", "you'd": "you would", "don't": "do not",
    "doesn't": "does not", "didn't": "did not", "can't": "can not", "cannot": "can not",
    "couldn't": "could not", "won't": "will not", "isn't": "is not", "aren't": "are not",
    "wasn't": "was not", "weren't": "were not", "haven't": "have not", "hasn't": "has not",
    "hadn't": "had not", "wouldn't": "would not", "shouldn't": "should not",
    "needn't": "need not", "gonna": "going to", "wanna": "want to", "gimme": "give me",
    "lemme": "let me", "o'clock": "oclock", "good-bye": "goodbye", "good-by": "goodbye",
    "to-morrow": "tomorrow", "to-day": "today", "bye-bye": "bye bye", "okay": "ok", "o.k.": "ok",
    "p.m.": "pm", "a.m.": "am", "name's": "name is",
}  # fmt: skip

FILLERS = frozenset(
    "please um uh uhm er erm ah oh well so ok hi hello hey thanks thank you good morning afternoon"
    " evening day sir madam maam yeah now right currently then just actually kindly today tonight"
    " moment again yes speaking calling".split()
)
"""Words without meaning here unless a sentence template contains them."""

FUNCTION_WORDS = frozenset(
    "a an the this that these those and or but if of for at in on to from by with into over about"
    " near is are was were be been am do does did has have had will would can could may might"
    " should shall must i me my mine we us our you your he she it its they them there here what"
    " which who how when where why as not no some any all also too like want need get got let"
    " tell give know say see hear looking look going go is up out one s"
    " someone somebody anyone anybody something anything".split()
)
"""Grammar words: leaving them out or adding them says little."""

COMMON = FILLERS | FUNCTION_WORDS

_DENIALS = frozenset("not never neither nor without except".split())
_AUXILIARIES = frozenset("do does did can could would will should is are am have has was".split())
_SUBJECTS = frozenset("i we you he she it they there this that".split())
_LACKING = frozenset("sure know remember hear catch understand find mind certain".split())
"""Words after a denial that name something missing, not unwanted: `I am not sure`."""
_REACH = 6
"""Most words of a denial's clause, where nothing else ends it."""
_TURNS = frozenset("but and so because just rather instead actually only now thanks thank".split())
"""Words that begin another clause."""
_ASKING = frozenset("how what when where which".split())
_FAREWELLS = frozenset(("bye", "goodbye"))
_REPORTS = frozenset("say says said tells told asked thinks thought wrote".split())
_CALLER = frozenset(("i", "we", "me", "us", "to"))
CANCELLING = frozenset(
    "cancel delete remove undo scrap withdraw cancelled canceled deleted removed"
    " cancellation".split()
)
CHANGING = frozenset(
    "change changes move reschedule postpone changed moved rescheduled postponed".split()
)
REPLACING = CHANGING | frozenset("no rather actually instead make mean meant".split())
"""Words beside which another value replaces a known one."""
_WANTING = frozenset("want need like have get".split())
_BEFORE_NOUNS = frozenset("a an the this that my your his her any of for with".split())
_NOT_NOW = frozenset("was were had did yesterday ago already last used later".split())

_LETTERS = re.compile(r"(?<![\w'])(?:[A-Za-z][.\-] ?){2,}[A-Za-z]?(?![\w'])\.?")
_WORD = re.compile(
    r"\d{1,2}:\d{2}|\d+(?:[.,]\d+)*(?:st|nd|rd|th|s)?|[^\W\d_]+(?:['.\-][^\W\d_]+)*\.?"
)
_LONG_L = re.compile(r"([aeiouy]\w*[aeiouy])ll$")
"""`cancelled` and `canceled`, but not `called`."""
_TEMPLATE_WORD = re.compile(r"(?<![{<\w'])[^\W_](?:[\w'\-]*\w)?(?![\w}>':])")
_FOLD = str.maketrans(
    {"\u2019": "'", "\u02bc": "'", "`": "'", "\u2013": "-", "\u2014": " ", "æ": "ae", "ø": "o"}
    | {"å": "a", "Æ": "Ae", "Ø": "O", "Å": "A", "ä": "a", "ö": "o", "ü": "u", "é": "e", "è": "e"}
    | {"ê": "e", "ó": "o", "á": "a", "ñ": "n", "ç": "c", "ß": "ss", "í": "i", "ú": "u", "ô": "o"}
    | {"â": "a", "î": "i"}
)


@dataclass(frozen=True, slots=True)
class Token:
    """One word of an utterance."""

    text: str
    """The word in lower case; figures stay figures."""
    said: str
    """The word with figures written out: `22` is `twenty two`."""
    written: str = ""
    """The word as the recogniser wrote it; with the hyphen that joins it to the one before."""
    letters: str = ""
    """The letters in capitals, if the recogniser wrote single letters or an abbreviation; else
    empty."""
    after_stop: bool = False
    """True if a comma, full stop or the like stands before it, or nothing does."""
    name_like: bool = False
    """True if it has a capital letter and does not begin a sentence."""
    begin: int = 0
    """Position of its first character in the text. 0, like `end`, where that is not known."""
    end: int = 0
    """Position after its last character in the text."""

    @property
    def is_content(self) -> bool:
        return self.text not in COMMON


def is_common(word: str) -> bool:
    return word in COMMON


def tokenise(text: str) -> tuple[Token, ...]:
    """Return the words of a recogniser's text; the last `LONGEST_UTTERANCE` of them."""
    length = len(text)
    text = text.translate(_FOLD)
    in_place = len(text) == length
    words = re.findall(r"[A-Za-z]{3,}", text)
    if text.isupper() and len(words) >= 3:
        text = text.lower()
    text = _LETTERS.sub(_closed_up, text)
    tokens: list[Token] = []
    done = 0
    for match in _WORD.finditer(text):
        before = text[max(0, done - 1) : match.start()]
        found = _tokens_of(match[0])
        if found:
            begins = not tokens or any(mark in before for mark in ".!?")
            stop = begins or any(mark in before for mark in ",;:")
            named = match[0][0].isupper() and not begins and not found[0].letters
            named = named and found[0].text != "i"
            place = (match.start(), match.start() + len(match[0].rstrip(".")))
            begin, end = place if in_place else (0, 0)
            found[0] = replace(found[0], after_stop=stop, name_like=named)
            tokens.extend(replace(token, begin=begin, end=end) for token in found)
        done = match.end()
    return tuple(tokens[-LONGEST_UTTERANCE:])


def _closed_up(letters: re.Match[str]) -> str:
    """Return `K. J. F. K.` as `KJFK`, in the same space."""
    return re.sub(r"[.\- ]", "", letters[0]).ljust(len(letters[0]))


def plain(text: str) -> str:
    """Return the same words as one string, for comparing and for hashing."""
    return " ".join(token.said for token in tokenise(text))


def plain_sentence(template: str) -> str:
    """Return a sentence template with each word as `tokenise` would write it."""

    def plain_word(match: re.Match[str]) -> str:
        return plain(match[0]) or match[0].lower()

    return _TEMPLATE_WORD.sub(plain_word, template.translate(_FOLD))


def _tokens_of(word: str) -> list[Token]:
    lower = word.lower()
    known = CONTRACTIONS.get(lower) or CONTRACTIONS.get(lower.rstrip("."))
    if known:
        return [Token(part, part) for part in known.split()]
    word = word.rstrip(".")
    if word[0].isdigit():
        return [Token(word.lower(), spell_out(word.lower()))]
    if "-" in word or "." in word:
        parts = re.findall(r"(-?)([^-.]+)", word)
        return [replace(t, written=dash + t.written) for dash, p in parts for t in _tokens_of(p)]
    lower = re.sub(r"'s$|'", "", word.lower())
    if not lower:
        return []
    letters = word if word.isalpha() and word.isascii() and _is_abbreviation(word) else ""
    return [Token(lower, lower, re.sub(r"'s$", "", word), letters)]


def _is_abbreviation(word: str) -> bool:
    return word.isupper() and (len(word) <= 6) and word not in ("I", "A", "OK")


@lru_cache(maxsize=4096)
def stem(word: str) -> str:
    """Return the word without its English ending: `closing`, `closed` and `close` are `clos`."""
    for ending in ("ing", "ies", "ed", "es", "s", "y", "e"):
        root = word.removesuffix(ending)
        if root != word and len(root) >= 3:
            word = root[:-1] if root[-1] == root[-2] and root[-1] not in "ls" else root
            break
    return _LONG_L.sub(r"\1l", word)


def denied_places(tokens: Sequence[Token]) -> frozenset[int]:
    """Return the places of the denials and of the rest of their clauses. `Don't you have ...?`,
    `why not` and `I am not sure` deny nothing. Numbers and letters are never denied."""
    places: set[int] = set()
    left = 0
    for place, token in enumerate(tokens):
        before = tokens[place - 1].text if place else ""
        parts = token.text in _FAREWELLS and before not in _DENIALS
        if token.after_stop or token.text in _TURNS or parts or _is_figure(token.text):
            left = 0
        after = tokens[place + 1].text if place + 1 < len(tokens) else ""
        denies = token.text in _DENIALS or (token.text, after) == ("no", "more")
        if denies and not _is_polite(tokens, place, after):
            left = _REACH
        if left:
            places.add(place)
            left -= 1
    return frozenset(places)


def told_places(tokens: Sequence[Token]) -> frozenset[int]:
    """Return the places of words that ask for nothing now: words that another person said, and
    clauses about another time. `I was wondering` asks for the present."""
    places: set[int] = set()
    clause: list[int] = []
    told = reported = False
    for place, token in enumerate(tokens):
        before = tokens[place - 1].text if place else ""
        after = tokens[place + 1].text if place + 1 < len(tokens) else ""
        asks = token.text in _ASKING | _FAREWELLS or (
            token.text in _AUXILIARIES and after in _SUBJECTS
        )
        turns = asks or (token.text in _TURNS and token.text != "and")
        if token.after_stop or (turns and not reported):
            clause, told, reported = [], False, False
        clause.append(place)
        if token.text in _REPORTS and len(clause) > 1 and before not in _CALLER | _AUXILIARIES:
            told = reported = True
        elif token.text in _NOT_NOW and not after.endswith("ing"):
            told = True
            places.update(clause)
        if told:
            places.add(place)
    return frozenset(places)


def undone_places(tokens: Sequence[Token]) -> frozenset[int]:
    """Return the places of clauses that ask to take back or to change what they name: `cancel my
    appointment`, `I want my appointment moved`. A noun (`an oil change`) asks for neither, unless
    it is made (`make a change to my appointment`)."""
    places: set[int] = set()
    clause: list[int] = []
    undone = False
    for place, token in enumerate(tokens):
        if token.after_stop or token.text in _TURNS:
            clause, undone = [], False
        clause.append(place)
        before = tokens[place - 1].text if len(clause) > 1 else "to"
        if token.text in CANCELLING | CHANGING and not undone:
            ahead = {tokens[p].text for p in clause}
            verb = not token.text.endswith("ed") and is_common(before)
            undone = verb and before not in _BEFORE_NOUNS
            if not undone and not ahead.isdisjoint({"make"} if verb else _WANTING):
                undone = True
                places.update(clause)
        if undone:
            places.add(place)
    return frozenset(places)


def _is_figure(text: str) -> bool:
    return text in NUMBER_WORDS or len(text) == 1


def _is_polite(tokens: Sequence[Token], place: int, follows: str) -> bool:
    if follows in _LACKING or not place:
        return follows in _LACKING
    before = tokens[place - 1]
    opens = before.after_stop or tokens[place - 2].text in ("why", "and", "but")
    return before.text == "why" or (
        opens
        and (
            before.text in ("is", "are", "was")
            or (before.text in _AUXILIARIES and follows in _SUBJECTS)
        )
    )
