"""What the caller said as it was understood: misheard names put right in the recogniser's text.

"Weather for Echo Gulf Lima, Lima" was taken as EGLL, so the caller said Golf; "I need Castrop" was
taken as Kastrup. Only what a reading was sure of is rewritten, in the operator's own spelling; the
rest stays as the recogniser wrote it. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cordboard.agents.rules.codes import in_alphabet_words
from cordboard.agents.rules.sound import whole_costs
from cordboard.agents.rules.values import Value
from cordboard.agents.rules.words import Token, plain


def rewrite(
    text: str, tokens: Sequence[Token], changes: Iterable[tuple[int, int, Sequence[str]]]
) -> str:
    """`text` with each stretch of words (first, after the last) in the likeliest of its spellings.

    A stretch that is written as one of them already stays as it is, punctuation and all.
    """
    for start, end, spellings in sorted(changes, reverse=True):
        words = tokens[start:end]
        here = " ".join(token.text for token in words)
        usable = [spelling for spelling in spellings if plain(spelling)]
        if not usable or any(plain(spelling) == here for spelling in usable):
            continue
        if not _is_whole(tokens, start, end):
            continue
        costs = whole_costs(words, [plain(spelling) for spelling in usable])
        best = usable[costs.index(min(costs))]
        text = text[: words[0].begin] + best + text[words[-1].end :]
    return text


def spellings(value: Value, said: Sequence[str], words: Sequence[Token]) -> tuple[str, ...]:
    """The ways in which a value may have been said in these words; none for letters, which stay as
    they were written."""
    code = str(value.value).upper()
    if any(token.letters for token in words):
        return ()
    spelled = code.isascii() and code.isalpha()
    return (*said, *((in_alphabet_words(code).title(),) if spelled else ()))


def _is_whole(tokens: Sequence[Token], start: int, end: int) -> bool:
    """Whether the stretch begins and ends where words of the text do ("Papa-Golf" is one)."""
    if tokens[start].begin == tokens[end - 1].end:
        return False
    before = start and tokens[start - 1].begin == tokens[start].begin
    after = end < len(tokens) and tokens[end].begin == tokens[end - 1].begin
    return not before and not after
