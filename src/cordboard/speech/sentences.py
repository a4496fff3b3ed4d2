"""Join the tokens of an answer into sentences for a voice, each as soon as its end is certain.

The first piece of an answer is kept short, because the caller waits for it: it may end with a
comma. Numbers, abbreviations, initials, list numbers and addresses do not end a sentence. Markup
for the eye (markdown, code fences, emoji) is removed. `split_sentences` cuts a complete text by the
same rule and leaves its words as they are.

Pure, and the result does not depend on how the text is cut into tokens: a decision needs the
character after the gap and nothing else.
"""

from __future__ import annotations

import re

from cordboard.tools.speech.speakable import has_words, one_line

FIRST_MIN = 24
"""Characters from which the first piece may end with a comma: 1.5 s of speech, enough time for the
next piece to become ready."""
LONGEST = 280
"""Most characters of a piece (18 s of speech); a longer one ends at a comma, or at least at a
word."""
_ENDS = ".!?\u2026"
_WIDE_ENDS = "\u3002\uff01\uff1f"
_CLAUSE_ENDS = ",;:\u2014\u2013"
_CLOSERS = "\"')]}*_`\u201d\u2019\u00bb"
_NEVER_LAST = frozenset(
    {
        *("mr", "mrs", "ms", "dr", "prof", "st", "sr", "jr", "gen", "col", "capt", "lt", "sgt"),
        *("rev", "hon", "messrs", "mme", "mlle", "e.g", "i.e", "vs", "cf", "viz", "al", "approx"),
        *("ca", "fig", "figs", "vol", "ext", "tel", "nr", "op", "ed", "eds", "mt", "ft"),
    }
)
"""Abbreviations that never end a sentence."""
_LAST_BEFORE_CAPITAL = frozenset(
    {
        *("a.m", "p.m", "etc", "inc", "ltd", "co", "corp", "dept", "u.s", "u.k", "e.u", "d.c"),
        *("min", "max", "sec", "hr", "hrs", "jan", "feb", "mar", "apr", "jun", "jul", "aug", "sep"),
        *(
            "sept",
            "oct",
            "nov",
            "dec",
            "mon",
            "tue",
            "wed",
            "thu",
            "fri",
            "sat",
            "sun",
            "ave",
            "rd",
        ),
        *("blvd", "apt", "no", "p", "pp"),
    }
)
"""Abbreviations that may end a sentence; then a capital letter follows."""
_NUMBERED = frozenset({"no", "p", "pp", "apt"})
"""Abbreviations that a number follows in the middle of a sentence."""
_LETTERED = frozenset(
    {
        *("information", "gate", "terminal", "platform", "track", "stand", "pier", "exit", "door"),
        *("room", "hall", "block", "row", "seat", "level", "zone", "area", "section", "line"),
        *("group", "team", "class", "type", "grade", "plan", "option", "answer", "version"),
        *("vitamin", "hepatitis", "part", "phase", "runway", "taxiway", "is", "letter"),
    }
)
"""Words before a single capital letter that is a name, not an initial."""
_GAP = re.compile(r"\s+")
_LIST_NUMBER = re.compile(r"\s*(?:\d{1,3}|[a-zA-Z])[.)]\Z")
_FENCE = re.compile(r"\s*(?:```|~~~)\w*\s*\Z")
_RULE = re.compile(r"[\s|:=_*~#>-]*\Z")


class SentenceSplitter:
    """Splits one answer into sentences."""

    def __init__(self) -> None:
        self._text = ""
        self._at = 0
        """Position up to which no piece ends."""
        self._first = True

    def feed(self, piece: str) -> list[str]:
        """Take more text; return the completed pieces, ready to be spoken."""
        self._text += piece
        said: list[str] = []
        while (end := self._next_end()) is not None:
            self._take(end, said)
        return said

    def flush(self) -> list[str]:
        """Return the rest: the answer is over, or the model pauses."""
        said: list[str] = []
        self._take(len(self._text), said)
        return said

    def _take(self, end: int, said: list[str]) -> None:
        raw, self._text, self._at = self._text[:end], self._text[end:], 0
        words = clean(raw)
        if words:
            self._first = False
            said.append(words)

    def _next_end(self) -> int | None:
        """Return the position at which the next piece ends; None while it is not known yet."""
        text = self._text
        while self._at < len(text):
            at = self._at
            character = text[at]
            if character == "\n" and self._line_ends(at):
                return at + 1
            if character in _WIDE_ENDS:
                return at + 1
            if character.isspace() and character != "\n":
                follows = _next_word(text, at)
                if follows is None:
                    return None
                if self._ends_before(at, follows):
                    return at
            self._at = at + 1
        return None

    def _line_ends(self, at: int) -> bool:
        line = self._text[:at]
        return bool(line.strip()) and _LIST_NUMBER.match(line) is None

    def _ends_before(self, at: int, follows: str) -> bool:
        """True if the piece ends before the gap at `at`."""
        text = self._text
        if text[at - 1 : at].isspace() or at == 0:
            return False
        head = text[:at].rstrip(_CLOSERS)
        if not head.strip():
            return False
        if not _in_link(text[:at]):
            if head[-1] in _ENDS and _sentence_ends(head, follows):
                return True
            if self._first and at >= FIRST_MIN and head[-1] in _CLAUSE_ENDS:
                return not (follows.isdigit() and head[-2:-1].isdigit())
        clause = head[-1] in _CLAUSE_ENDS
        return at >= LONGEST if clause else at >= LONGEST + 60


def split_sentences(text: str) -> tuple[str, ...]:
    """Split a complete text into its sentences, in their own words."""
    text = text.strip()
    sentences: list[str] = []
    begin = 0
    for gap in _GAP.finditer(text):
        head = text[begin : gap.start()].rstrip(_CLOSERS)
        ends = head and head[-1] in _ENDS and _sentence_ends(head, text[gap.end()])
        if ends or head.endswith(tuple(_WIDE_ENDS)):
            sentences.append(text[begin : gap.start()])
            begin = gap.end()
    return (*sentences, text[begin:]) if text else ()


def clean(text: str) -> str:
    """Return one piece as it is spoken; empty when it contains no words."""
    if _FENCE.match(text) or _RULE.match(text):
        return ""
    shown = text.strip()
    if shown.startswith("|") and shown.endswith("|"):
        shown = ", ".join(cell.strip() for cell in shown.strip("|").split("|") if cell.strip())
    words = one_line(shown)
    return words if has_words(words) else ""


def _next_word(text: str, at: int) -> str | None:
    """Return the first character after the gap that begins at `at`; None if it has not come yet."""
    for character in text[at:]:
        if character == "\n":
            return character
        if not character.isspace():
            return character
    return None


def _sentence_ends(head: str, follows: str) -> bool:
    """True if the mark at the end of `head` ends a sentence when `follows` comes next."""
    if head[-1] != ".":
        return True
    if _LIST_NUMBER.match(head.rpartition("\n")[2]):
        return False
    word = re.split(r"[\s(\[\"'\u201c\u201d/-]", head[:-1])[-1]
    known = word.casefold()
    if known in _NEVER_LAST:
        return False
    if len(word) == 1 and word.isupper() and word != "I":
        before = head[:-2].rstrip().rpartition(" ")[2].casefold()
        return before in _LETTERED and not follows.islower()
    if known in _LAST_BEFORE_CAPITAL:
        return not (follows.islower() or (follows.isdigit() and known in _NUMBERED))
    return True


def _in_link(text: str) -> bool:
    """True if `text` ends in the middle of `[words](address)`."""
    opened = text.rfind("[", max(0, len(text) - 200))
    return opened >= 0 and "]" not in text[opened:]
