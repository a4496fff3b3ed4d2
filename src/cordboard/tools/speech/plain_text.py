"""Text without what is not speech: markup, control and invisible characters, pictographs.

Whatever comes out is one line and at most so long; a long text ends with a sentence. Pure functions
of linear time that never raise.
"""

from __future__ import annotations

import re
import unicodedata

MAX_SPOKEN = 1_500
"""Characters; about 100 s of speech."""

_TAG = re.compile(r"</?[a-zA-Z!][^<>]*>")
_LINK = re.compile(r"!?\[([^\[\]]*)\]\([^)\s\[]*\)")  # nothing in it may run past the next "["
_MARKS = re.compile(r"\*{1,3}|`{1,3}|~~|(?<!\w)_{1,3}(?=\S)|(?<=\S)_{1,3}(?!\w)")
_LINE_HEAD = re.compile(r"^[ \t]*(?:#{1,6}[ \t]+|[-*+•][ \t]+|>[ \t]?)", re.MULTILINE)
_LINE_END = re.compile(r"(?<=[^\s.!?,;:])[ \t]*\n\s*\n")
_SENTENCE_END = re.compile(r"[.!?](?=\s|\Z)")


def plain(text: str, most: int = MAX_SPOKEN) -> str:
    """Text fit to be spoken: no markup, no control or invisible characters, one line, capped."""
    return cut_at_sentence(one_line(text[: 20 * most]), most)


def one_line(text: str) -> str:
    """As `plain`, of any length."""
    text = _LINK.sub(r"\1", _TAG.sub(" ", text))
    text = _MARKS.sub("", _LINE_HEAD.sub("", text))
    text = _LINE_END.sub(". ", text.strip())
    if not (text.isascii() and text.isprintable()):
        text = "".join(_spoken_character(character) for character in text)
    return re.sub(r"\s+([.,;:!?])", r"\1", " ".join(text.split()))


def cut_at_sentence(text: str, most: int) -> str:
    """At most `most` characters, ending with a whole sentence if there is one, else a word."""
    if len(text) <= most:
        return text
    head = text[:most]
    ends = [match.end() for match in _SENTENCE_END.finditer(head)]
    if ends and ends[-1] > most // 4:
        return head[: ends[-1]]
    words = head[: most - 1].rpartition(" ")[0] or head[: most - 1]
    return words.rstrip(" ,;:-") + "."


def _spoken_character(character: str) -> str:
    if character in "\n\t\r":
        return " "
    category = unicodedata.category(character)
    if category in {"Cc", "Cf", "Cs", "Co", "Cn"}:
        return " " if category == "Cc" else ""
    if category == "So" and character != "°":
        return " "
    if category in {"Mn", "Me"} and "\ufe00" <= character <= "\ufe0f":
        return ""
    return character
