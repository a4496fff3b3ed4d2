"""What the small words around a value say about it: denied, in the past, somewhere else. English.

Sentence templates need none of this, their words are known. It is for what stands between them:
"I do *not* want the weather for London", "it *rained* there *yesterday*". Pure text work.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from itertools import pairwise

from cordboard.agents.rules.words import FILLERS, FUNCTION_WORDS, Token

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
_SINCE = frozenset("than since".split())
"""`warmer than yesterday`, `since last week`: about now."""
_LACKING = frozenset(
    "sure know have got get see find hear heard seen received receive tell reach catch certain"
    " remember understand read able copy make pick had suppose".split()
)
"""`I don't have ...`, `we haven't received ...`: what is missing, not what is unwanted."""
_SUBJECTS = frozenset("i we he she they".split())
_JOINING = frozenset("and but so because or yet while although though".split())
_NEW_SUBJECTS = frozenset("i we you he she it they there my our your his her their nobody".split())
_QUESTION_WORDS = frozenset("what how which when where who whom whose why whether if that".split())
_INVERTED = _AUXILIARIES - {"am"} | {"was", "were", "did"}
_ASKED_ABOUT = frozenset("i we you he she it they there".split())
_MODALS = frozenset("would will could can should might may".split())
_SOFTENERS = frozenset("soon then still also probably maybe perhaps not never always".split())
"""Between a modal verb and its `be` in a statement: "it will soon be"."""
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
    if tokens[place].text == "never" and before.text in _SUBJECTS:
        return place + 1 < len(tokens) and tokens[place + 1].text in _LACKING
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
    """Whether a denial in the same statement reaches the word at `place`."""
    return denial_of(tokens, place) is not None


def denial_of(tokens: Sequence[Token], place: int) -> int | None:
    """The place of the denial that reaches the word at `place`."""
    denied = denials(tokens)
    first, _ = statement_with(tokens, place)
    for other in range(place - 1, max(first, place - _FAR - 1) - 1, -1):
        if other in denied:
            return other
    return None


def is_past(tokens: Sequence[Token]) -> bool:
    """Whether it is told of the past."""
    for place, token in enumerate(tokens):
        after = [other.text for other in tokens[place + 1 :] if other.text not in _BETWEEN]
        follows = after[0] if after else ""
        if place and tokens[place - 1].text in _SINCE:
            continue
        if token.text == "been":
            if follows in _PREPOSITIONS or follows in ("", "there"):
                return True
        elif token.text == "did" and (follows == "you" or follows in _LACKING):
            continue
        elif token.text == "had" and (follows in ("better", "best") or _is_perfect(tokens, place)):
            continue  # what one is going to do, or has had so far
        elif token.text in _PAST and follows not in _OPENERS:
            return True
        if token.text == "last" and follows in _SPANS:
            return True
    return False


def _is_perfect(tokens: Sequence[Token], place: int) -> bool:
    """Whether `have` or `has` goes with the word: `have not had`."""
    before = [token.text for token in tokens[:place] if token.text not in _BETWEEN]
    return before[-1:] in (["have"], ["has"])


def names_a_past_time(tokens: Sequence[Token]) -> bool:
    """Whether it says when, and that this is over: `yesterday`, `last week`, `two days ago`."""
    texts = [
        "" if place and tokens[place - 1].text in _SINCE else token.text
        for place, token in enumerate(tokens)
    ]
    if "when" in texts and {"was", "were"} & set(texts[texts.index("when") :]):
        return True
    return any(
        text in ("yesterday", "ago", "once", "used")
        or (text == "last" and texts[place + 1 : place + 2] and texts[place + 1] in _SPANS)
        for place, text in enumerate(texts)
    )


def follows_preposition(tokens: Sequence[Token], place: int) -> bool:
    """Whether the word at `place` is where something is, or goes."""
    return place > 0 and tokens[place - 1].text in _PREPOSITIONS


def split_clauses(tokens: Sequence[Token]) -> list[tuple[int, int]]:
    """(first word, after the last word) of what stands between commas and full stops."""
    starts = [place for place, token in enumerate(tokens) if token.after_stop or not place]
    return list(pairwise([*starts, len(tokens)]))


def split_statements(tokens: Sequence[Token]) -> list[tuple[int, int]]:
    """(first word, after the last word) of what has a subject and a verb of its own.

    Finer than `split_clauses`, because recognisers lose commas: "I have never flown there *and I*
    am nervous", "his plane was cancelled *would snow be* the reason", "... *is it* stormy".
    """
    return [
        (first, last)
        for start, end in split_clauses(tokens)
        for first, last in pairwise([start, *_turns(tokens, start, end), end])
        if first < last
    ]


def statement_with(tokens: Sequence[Token], place: int) -> tuple[int, int]:
    """The statement that the word at `place` belongs to."""
    return next((first, last) for first, last in split_statements(tokens) if place < last)


def _turns(tokens: Sequence[Token], start: int, end: int) -> Iterator[int]:
    """Places within a clause where a new statement or question begins."""
    since = start
    for place in range(start + 1, end - 1):
        words = [token.text for token in tokens[place:end]]
        joined = words[0] in _JOINING and _begins(words[1:])
        asks = not _has_question_word(tokens, since, place) and _is_inverted(tokens, place, words)
        if (joined or asks) and tokens[place - 1].text not in _JOINING:
            since = place
            yield place


def _begins(words: Sequence[str]) -> bool:
    """Whether a statement or a question may begin with these words."""
    rest = [word for word in words if word not in FILLERS]
    if len(rest) < 2:
        return False
    return rest[0] in _NEW_SUBJECTS or rest[0] in _QUESTION_WORDS or _opens_question(rest)


def _opens_question(words: Sequence[str]) -> bool:
    return len(words) > 1 and words[0] in _INVERTED and words[1] in _ASKED_ABOUT


def _is_inverted(tokens: Sequence[Token], place: int, words: Sequence[str]) -> bool:
    """Whether a question without a question word begins here: `is it`, `would snow be`."""
    if tokens[place - 1].text in _ASKED_ABOUT | _INVERTED | _NEW_SUBJECTS:
        return False
    if _opens_question(words):
        return True
    return (
        len(words) > 3
        and words[0] in _MODALS
        and words[2] == "be"
        and words[1] not in FUNCTION_WORDS | FILLERS | _SOFTENERS
        and not words[1].endswith("ly")
    )


def _has_question_word(tokens: Sequence[Token], start: int, end: int) -> bool:
    return any(token.text in _QUESTION_WORDS for token in tokens[start:end])


def opens_as_question(statement: Sequence[Token]) -> bool:
    """Whether it begins as questions and commands do."""
    words = [token.text for token in statement if token.text not in _LEAD_INS]
    return words != [] and words[0] in _OPENING


def is_request(tokens: Sequence[Token], about: Set[int]) -> bool:
    """Whether something is asked about the words at these places: a clause with one of them begins
    as questions and commands do, or it says `please`. A few words by themselves ("fog in Oslo")
    are no statement either."""
    if any(token.text == "please" for token in tokens):
        return True
    for start, end in split_statements(tokens):
        if about & set(range(start, end)) and opens_as_question(tokens[start:end]):
            return True
    told = any(token.text in _TELLING for token in tokens)
    return any(token.text in _ASKING for token in tokens) or not told
