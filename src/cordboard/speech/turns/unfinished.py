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
_AUXILIARIES = frozenset(
    "am is are was were be been being has have had will would can could should must may might "
    "i'm it's he's she's we're they're you're i've we've i'll we'll".split()
)
_ANNOUNCED = re.compile(
    r"(my|our|the|it's|its|account|order|booking|reference|customer|phone|telephone|flight|ticket)"
    r"( [a-z']+){0,3} (number|code)|(number|code)"
)
"""`My booking number`: the number comes after a breath."""
_WORDS = re.compile(r"[a-z']+|\d+")


def is_unfinished(text: str) -> bool:
    """Whether the last word cannot end a sentence. A text with a question mark is finished."""
    if text.rstrip().endswith("?"):
        return False
    words = _WORDS.findall(text.lower())
    if not words:
        return False
    adverb = len(words) > 1 and words[-1].endswith("ly") and words[-2] in _AUXILIARIES
    return adverb or words[-1] in _DANGLING or _ANNOUNCED.fullmatch(" ".join(words)) is not None
