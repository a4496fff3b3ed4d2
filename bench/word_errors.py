"""Word errors, counted so that different spellings of the same sound are not errors.

`words` makes text comparable: lower case, no punctuation, contractions written out ("what's" is
"what is"), figures as words (up to 99 as a number, beyond digit by digit), a run of single letters
as one word ("E N G M", "E.N.G.M.", "E-N-G-M" and "ENGM" are the same), and the accepted spellings
in `SAME`. Names are compared as they are: "Gardermoin" for "Gardermoen" is an error.
"""

from __future__ import annotations

import re

from cordboard.agents.rules.numbers import in_words

SAME = {
    "juliet": "juliett",
    "alpha": "alfa",
    "foxtrott": "foxtrot",
    "whisky": "whiskey",
    "okay": "ok",
}
"""Words with more than one accepted spelling; the same sound."""
_CONTRACTIONS = (
    (r"\bwhat's\b", "what is"),
    (r"\bhow's\b", "how is"),
    (r"\bi'm\b", "i am"),
    (r"\bi'd\b", "i would"),
    (r"\bx ray\b", "xray"),
)
_FIGURES = dict(
    zip("0123456789", "zero one two three four five six seven eight nine".split(), strict=True)
)
_LETTER_RUN = re.compile(r"\b[a-z](?: [a-z]\b)+")


def words(text: str) -> list[str]:
    """The words of a text in their comparable form."""
    text = text.lower().replace("’", "'")  # noqa: RUF001 - a typographic apostrophe
    text = re.sub(r"(?<![\d.])[1-9]\d(?![\d.])", lambda figure: in_words(int(figure[0])), text)
    text = re.sub(r"\d", lambda figure: f" {_FIGURES[figure[0]]} ", text)
    text = re.sub(r"[^\w' ]", " ", text)
    text = " ".join(text.split())
    for short, long in _CONTRACTIONS:
        text = re.sub(short, long, text)
    text = _LETTER_RUN.sub(lambda run: run[0].replace(" ", ""), text)
    return [SAME.get(word, word) for word in text.split()]


def errors(wanted: list[str], heard: list[str]) -> int:
    """The least number of words to insert, delete or replace (Levenshtein)."""
    row = list(range(len(heard) + 1))
    for number, word in enumerate(wanted, 1):
        above, row = row, [number]
        for place, other in enumerate(heard, 1):
            row.append(min(above[place] + 1, row[-1] + 1, above[place - 1] + (word != other)))
    return row[-1]
