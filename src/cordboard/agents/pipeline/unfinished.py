"""Does a text plainly go on? A small rule for English, applied to what was heard at a pause.

A caller who stops after "the weather for" is looking for a name, not waiting for an answer.
"""

from __future__ import annotations

import re

_DANGLING = frozenset(
    "a an the for at in on of to from with and or but my is are was it's i'm i'd um uh er well "
    "about near into between your their our this these than because while if whether whose which "
    "currently am be been being another every not cannot can't don't didn't doesn't isn't aren't "
    "won't i".split()
)
_WORDS = re.compile(r"[a-z']+|\d+")


def is_unfinished(text: str) -> bool:
    """Whether the last word cannot end a sentence. A text with a question mark is finished."""
    if text.rstrip().endswith("?"):
        return False
    words = _WORDS.findall(text.lower())
    return bool(words) and words[-1] in _DANGLING
