"""Makes an outsider's text safe for a log line and an operator's terminal. Pure.

A server's error message or stderr line may hold escape sequences that repaint a terminal, line
breaks that forge further log lines, and characters that reverse the reading direction. They are
shown as spaces.
"""

from __future__ import annotations

import unicodedata

MAX_CHARACTERS = 300

_HIDDEN = {"Cc", "Cf", "Co", "Cs", "Zl", "Zp"}
"""Unicode categories: control, format (also bidirectional), private use, surrogate, line breaks."""


def printable(text: str, limit: int = MAX_CHARACTERS) -> str:
    """Return at most `limit` characters of the text on one line, invisible ones as spaces."""
    cut = text[:limit]
    if cut.isprintable():
        return cut
    return "".join(" " if unicodedata.category(c) in _HIDDEN else c for c in cut)
