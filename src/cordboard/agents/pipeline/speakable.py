"""What of a text can be spoken. Pure."""

from __future__ import annotations

import re

_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_MARKUP = re.compile(r"[*_`#<>|~\[\]]+")
_SPACE = re.compile(r"[ \t\r\f\v]+")


def speakable(text: str) -> str:
    """``text`` without what is markup and not speech: links, emphasis, headings, brackets."""
    return _SPACE.sub(" ", _MARKUP.sub(" ", _LINK.sub(r"\1", text))).strip()


def has_words(text: str) -> bool:
    """Whether there is a letter or a digit in it."""
    return any(map(str.isalnum, text))
