"""What the small words around a value say about it: denied, in the past, somewhere else. English.

Sentence templates need none of this, their words are known. It is for what stands between them:
"I do *not* want the weather for London", "it *rained* there *yesterday*". Pure text work.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from itertools import pairwise

from cordboard.agents.pipeline.brain.rules.words import FILLERS, Token

_DENIALS = frozenset("not never neither nor except without".split())
_AUXILIARIES = frozenset("do does can could would will should is are am have has may might".split())
_PRONOUNS = frozenset("you i we it he she they there this that".split())
_BE = frozenset(("is", "are"))
_FAR = 6
"""Words that a denial reaches ahead of itself."""
_PAST = frozenset("was were did had been yesterday ago".split())
_OPENERS = frozenset(
    "wondering hoping thinking asking told going planning looking calling curious after interested"
    " supposed trying able".split()
)
"""`I was wondering ...`: a past that asks for the present."""
_BETWEEN = frozenset("just only simply really actually not also".split())
_SPANS = frozenset("year month week night summer winter spring autumn time".split())
"""`last year` is the past; `the last report` is not."""
_LACKING = frozenset(
    "sure know have got get see find hear heard seen received receive tell reach catch certain"
    " remember understand read able copy make pick".split()
)
"""`I don't have ...`, `we haven't received ...`: what is missing, not what is unwanted."""
_SUBJECTS = frozenset("i we he she they".split())
_PREPOSITIONS = frozenset("in at to for from into over near via of around".split())

AFTER_PLACES = frozenset(
    "leaves leaving lands landing arrives arriving departs departing takes taking goes flies flying"
    " soon later week weekend".split()
)
"""Words that come after the name of a place without being part of it."""

_LEAD_INS = frozenset(
    "hi hello hey good morning afternoon evening well so ok now and or but um uh then".split()
)
_OPENING = (
    _AUXILIARIES | frozenset("what which how who when where why any tell give get read say".split())
) - {"am", "have"}
_ASKING = frozenset(
    "what how whether wondering wonder know want need like ask check request".split()
)
_TELLING = frozenset("i my me we our he she they his her their is are has have the a".split())


def denials(tokens: Sequence[Token]) -> frozenset[int]:
    """Places of words that deny; not the `not` of a polite question (`Don't you have ...?`)."""
    return frozenset(
        place
        for place, token in enumerate(tokens)
        if token.text in _DENIALS and not _is_polite(tokens, place)
    )


def _is_polite(tokens: Sequence[Token], place: int) -> bool:
    before = tokens[place - 1] if place else None
    if before is None:
        return False
    if before.text == "why" or _is_lacking(tokens, place):
        return True
    opens = before.after_stop or (place > 1 and tokens[place - 2].text in ("why", "and", "but"))
    if before.text not in _AUXILIARIES or not opens:
        return False
    follows = tokens[place + 1].text if place + 1 < len(tokens) else ""
    return before.text in _BE or follows in _PRONOUNS


def _is_lacking(tokens: Sequence[Token], place: int) -> bool:
    """Whether somebody tells what he does *not* know, have or hear."""
    opens = tokens[place - 1].after_stop and tokens[place - 1].text in ("can", "could", "have")
    if not opens and (place < 2 or tokens[place - 2].text not in _SUBJECTS):
        return False
    follows = [token.text for token in tokens[place + 1 :] if token.text not in FILLERS | {"yet"}]
    return (
        tokens[place - 1].text in _AUXILIARIES | _PAST
        and follows[:1] != []
        and (follows[0] in _LACKING)
    )


def is_denied(tokens: Sequence[Token], place: int) -> bool:
    """Whether a denial in the same clause reaches the word at `place`."""
    denied = denials(tokens)
    for distance in range(_FAR + 1):
        if place - distance - 1 < 0 or tokens[place - distance].after_stop:
            return False
        if place - distance - 1 in denied:
            return True
    return False


def is_past(tokens: Sequence[Token]) -> bool:
    """Whether it is told of the past."""
    for place, token in enumerate(tokens):
        after = [other.text for other in tokens[place + 1 :] if other.text not in _BETWEEN]
        follows = after[0] if after else ""
        if token.text == "been":
            if follows in _PREPOSITIONS or follows in ("", "there"):
                return True
        elif token.text == "did" and (follows == "you" or follows in _LACKING):
            continue
        elif token.text == "had" and follows in ("better", "best"):
            continue  # what one is going to do
        elif token.text in _PAST and follows not in _OPENERS:
            return True
        if token.text == "last" and follows in _SPANS:
            return True
    return False


def follows_preposition(tokens: Sequence[Token], place: int) -> bool:
    """Whether the word at `place` is where something is, or goes."""
    return place > 0 and tokens[place - 1].text in _PREPOSITIONS


def split_clauses(tokens: Sequence[Token]) -> list[tuple[int, int]]:
    """(first word, after the last word) of what stands between commas and full stops."""
    starts = [place for place, token in enumerate(tokens) if token.after_stop or not place]
    return list(pairwise([*starts, len(tokens)]))


def is_request(tokens: Sequence[Token], about: Set[int]) -> bool:
    """Whether something is asked about the words at these places: a clause with one of them begins
    as questions and commands do, or it says `please`. A few words by themselves ("fog in Oslo")
    are no statement either."""
    if any(token.text == "please" for token in tokens):
        return True
    for start, end in split_clauses(tokens):
        words = [token.text for token in tokens[start:end] if token.text not in _LEAD_INS]
        if words and words[0] in _OPENING and about & set(range(start, end)):
            return True
    told = any(token.text in _TELLING for token in tokens)
    return any(token.text in _ASKING for token in tokens) or not told
