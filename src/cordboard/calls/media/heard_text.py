"""How much of a sentence was said when its sound had run so far: a voice does not tell.

Words are given shares of the sound by how long they take to say: by their letters, not by their
number. Digits are whole words when they are spoken; a comma or a full stop is a pause.

Measured on 40 cuts through eight sentences of the offline voice, a recogniser telling what was
heard: 0.65 words off on average and at most one in 92 % (equal shares a word: 1.08 and 68 %).
"""

from __future__ import annotations

_DIGIT = 4.0
"""Letters' worth of a spoken digit."""
_BETWEEN = 1.0
_PAUSES = {",": 3.0, ";": 4.0, ":": 4.0, ".": 5.0, "!": 5.0, "?": 5.0}
"""Letters' worth of the pause behind a word that ends so."""


def heard_words(text: str, share: float) -> str:
    """The whole words of `text` that were heard when this share (0 to 1) of its sound was."""
    words = text.split()
    if share >= 1 or not words:
        return " ".join(words)
    spoken = [_letters(word) for word in words]
    pauses = [_BETWEEN + _PAUSES.get(word[-1], 0.0) for word in words[:-1]]
    reached = share * (sum(spoken) + sum(pauses))
    heard, at = 0, 0.0
    for letters, pause in zip(spoken, [*pauses, 0.0], strict=True):
        at += letters
        if at > reached + 1e-6:
            break
        heard += 1
        at += pause
    return " ".join(words[:heard])


def _letters(word: str) -> float:
    """How long it takes to say, in letters."""
    return sum(_DIGIT if sign.isdigit() else float(sign.isalpha()) for sign in word) or 1.0
