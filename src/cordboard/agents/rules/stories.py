"""What a caller tells around a value: who somebody is, what is over, what is not wanted. English.

"I'm not asking about Oslo, I want Bergen": both are clearly heard, one is meant. "This is Logan
from dispatch, I need Kastrup": Logan is a person here. For look-ups that do no harm such words are
all that speaks against a value (`harmless`); whatever else is told around it does not matter. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence, Set
from itertools import pairwise

from cordboard.agents.rules.clauses import (
    denial_of,
    follows_preposition,
    is_past,
    names_a_past_time,
    split_clauses,
    statement_with,
)
from cordboard.agents.rules.words import FILLERS, Token

_TITLES = frozenset("mr mrs ms miss mister dr doctor professor captain uncle aunt".split())
_RELATIVES = frozenset(
    "son daughter husband wife brother sister friend cousin uncle aunt nephew niece colleague boss"
    " boyfriend girlfriend partner neighbour neighbor law".split()
)
_NAME_FAR = 3
"""Words from `name` to the name: "my name is Logan"."""
_CALLED = frozenset("named called".split())
_SPEAKING = frozenset("speaking calling".split())
_INTRODUCED = frozenset("from with speaking calling here".split())
_DROPPED = frozenset("forget skip ignore scratch cancel drop disregard stop".split())
_DROPPED_FAR = 4
"""Words between `cancel` and what is cancelled: "cancel my flight to Stockholm"."""
_ENOUGH = re.compile(
    r"\b(?:that (?:is|was) (?:all|it|everything)|that will be (?:all|it)|(?:done|finished) with"
    r"|no (?:more|longer)|enough of|(?:leave|leaving|count|rule) out"
    r"|already (?:have|has|had|got|heard|know|knew)|(?:have|has) already)\b"
)
"""What makes an end of it in the same clause: "that's all for Oslo", "I already have Oslo"."""
_ALREADY = re.compile(r"\b(?:have|has|got|know|heard)\b.* already$")
_WANTING = frozenset(
    "want wants wanted need needs needed ask asks asking asked mean meant interested care cares"
    " look looking talk talking talked give tell read get check weather information atis say said"
    " request requesting call calling like after about flying going"
    " travelling traveling heading".split()
)
"""Between a denial and the place: it is not wanted, or nobody goes there. Any other denial tells a
story: "I have never flown to New York"."""
_BARE = FILLERS | frozenset("in at to for from of over into near about the a any".split())
"""Alone between a denial and the place: "not in Oslo"."""
_RATHER = frozenset("but rather instead".split())
"""What ends the reach of a denial: "not Oslo but Bergen"."""
_CORRECTIONS = frozenset("sorry correction wait".split())
_ANYTHING = frozenset("anything everything anywhere everywhere all any".split())
_INSTEAD = frozenset(("instead of", "rather than", "other than", "apart from", "aside from"))
_IRREGULAR_PAST = frozenset(
    "lost paid left won sent fell spoke flew went met saw came took bought ate drove wrote slept"
    " began used grew broke stole gave felt knew ran taught built".split()
)
_REPORTING = frozenset("heard said told says read reports reported claims claimed".split())
_STATES = frozenset(
    "is are am be been being was were get gets got getting has have had it was need".split()
)
"""Before a word in -ed: no past but a state ("is delayed", "get stranded")."""
_NO_PAST = frozenset(
    "need speed indeed feed exceed proceed interested supposed scheduled expected worried red bed"
    " embed shed filed planned diverted cleared routed assigned asked wanted needed mentioned"
    " reported promised texted hoped agreed decided arranged".split()
)
_ELSEWHERE = frozenset("when who whose whom where why which".split())
_HOW_ELSE = frozenset("much many far long old often big tall late early".split())
_WHAT_ELSE = frozenset("time day date year gate terminal".split())
_ASKED_WITHIN = frozenset("know tell me wonder wondering ask say sure out see".split())
_LEAD_INS = FILLERS | frozenset("and or but um uh then excuse pardon sorry".split())
_PARTINGS = frozenset("goodbye bye".split())
_PLACE_WORDS = frozenset("at in to into near over around via".split())
_CALENDAR = frozenset(
    "monday tuesday wednesday thursday friday saturday sunday january february march april may june"
    " july august september october november december christmas easter".split()
)
_AROUND = frozenset(
    "yet again present presently recent recently latest still already soon later early late"
    " tomorrow minute minutes hour hours half quarter week weekend exactly only even ever also"
    " else though anyway maybe perhaps because since before after until till while if whether"
    " airport airports airfield aerodrome field tower approach departure departures arrival"
    " arrivals ground radio information international terminal gate area region side end"
    " leaves leaving lands landing arrives arriving departs departing takes taking goes flies"
    " flying first once twice over copy roger thanks".split()
)
"""What stands beside the name of a place without being a part of it, however it was written."""


def is_person(tokens: Sequence[Token], start: int, end: int) -> bool:
    """Whether the words `start` to `end` (exclusive) are somebody's name."""
    before = [token.text for token in tokens[max(0, start - 2) : start]]
    after = tokens[end].text if end < len(tokens) else ""
    last = before[-1] if before else ""
    if last in _TITLES or last in _CALLED:
        return True
    if last in _RELATIVES and not tokens[start].after_stop:
        return True
    if after in _SPEAKING and not follows_preposition(tokens, start):
        return True
    if before[-2:] in (["this", "is"], ["i", "am"]) and after in _INTRODUCED:
        return True
    if tokens[start].after_stop and after == "here":
        return True
    return _is_named(tokens, start)


def _is_named(tokens: Sequence[Token], start: int) -> bool:
    """`My name is Logan`, `Logan is my son's name`."""
    for first, last in split_clauses(tokens):
        if first <= start < last:
            names = [place for place in range(first, last) if tokens[place].text == "name"]
            return any(place > start or start - place <= _NAME_FAR for place in names)
    return False


def is_rejected(tokens: Sequence[Token], place: int, *, asked_after: bool = False) -> bool:
    """Whether the word at `place` is what the caller does *not* want.

    `asked_after`: a question beside it is about that place (`questions`), so a denial that only
    tells a story does not matter.
    """
    reach = tokens[max(0, place - 7) : place]
    texts = [token.text for token in reach]
    if len(texts) >= 2 and texts[-1] == "but" and texts[-2] in _ANYTHING:
        return True
    if " ".join(texts[-2:]) in _INSTEAD:
        return True
    for distance in range(1, _DROPPED_FAR + 2):
        at = place - distance
        if at < 0 or tokens[at + 1].after_stop:
            break
        if tokens[at].text in _DROPPED or (
            tokens[at].text == "mind" and at and tokens[at - 1].text == "never"
        ):
            return True
    clause, until = _clause_with(tokens, place)
    if _ENOUGH.search(until) or _ALREADY.search(clause):
        return True
    turned = [number for number, text in enumerate(texts) if text in _RATHER]
    if turned and not any(text in ("not", "never") for text in texts[turned[-1] :]):
        return False
    denial = denial_of(tokens, place)
    if denial is None or not asked_after:
        return denial is not None
    between = [token.text for token in tokens[denial + 1 : place]]
    return all(text in _BARE for text in between) or any(text in _WANTING for text in between)


def _clause_with(tokens: Sequence[Token], place: int) -> tuple[str, str]:
    """The statement with the word at `place`: all its words, and those before that one."""
    first, last = statement_with(tokens, place)
    texts = [token.text for token in tokens[first:last]]
    return " ".join(texts), " ".join(texts[: place - first])


def corrections(tokens: Sequence[Token]) -> list[int]:
    """Places of words with which somebody corrects what he said before: "no, sorry", "I mean"."""
    texts = [token.text for token in tokens]
    return [
        place
        for place, text in enumerate(texts)
        if text in _CORRECTIONS
        or (text in ("mean", "meant") and place and texts[place - 1] == "i")
        or (text == "no" and tokens[place].after_stop)
    ]


def is_over(tokens: Sequence[Token], place: int, *, any_verb: bool) -> bool:
    """Whether the statement with the word at `place` tells of the past. `any_verb`: a past tense
    is enough ("my train left Oslo")."""
    first, last = statement_with(tokens, place)
    statement = tokens[first:last]
    if any_verb:
        return is_past(statement) or _has_past_verb(statement) or _is_back(statement)
    return is_past(statement) and not _is_reported(statement)


def _is_back(statement: Sequence[Token]) -> bool:
    """`I have just come back from ...`"""
    texts = [token.text for token in statement]
    return any(pair in (("back", "from"), ("returned", "from")) for pair in pairwise(texts))


def _is_reported(statement: Sequence[Token]) -> bool:
    """`I heard there was lightning at ...`: somebody else's present."""
    told = [place for place, token in enumerate(statement) if token.text in _REPORTING]
    return bool(told) and not is_past(statement[: told[0]]) and not names_a_past_time(statement)


def _has_past_verb(clause: Sequence[Token]) -> bool:
    if any(token.text in ("has", "have") for token in clause):
        return False
    for place, token in enumerate(clause):
        before = clause[place - 1].text if place else ""
        if before in _STATES or before == "to" or token.name_like:
            continue
        if token.text in _IRREGULAR_PAST:
            return True
        regular = len(token.text) > 4 and token.text.endswith("ed")
        if regular and place and token.text not in _NO_PAST:
            return True
    return False


def says_goodbye(tokens: Sequence[Token]) -> bool:
    """Whether it takes leave in so many words."""
    return any(token.text in _PARTINGS for token in tokens)


def asks_something_else(tokens: Sequence[Token]) -> bool:
    """Whether it asks when, who, where, how much, ..., or says goodbye."""
    if says_goodbye(tokens):
        return True
    for first, last in split_clauses(tokens):
        texts = [token.text for token in tokens[first:last] if token.text not in _LEAD_INS]
        for place, text in enumerate(texts):
            if place and texts[place - 1] not in _ASKED_WITHIN:
                continue
            follows = texts[place + 1] if place + 1 < len(texts) else ""
            if text in _ELSEWHERE or (text == "how" and follows in _HOW_ELSE):
                return True
            if text == "what" and follows in _WHAT_ELSE:
                return True
    return False


def is_name(tokens: Sequence[Token], place: int, *, capitals: bool) -> bool:
    """Whether the word at `place` may be the name of a place. `capitals`: names are written so."""
    token = tokens[place]
    if token.text in _AROUND or token.text in _CALENDAR or not token.is_content:
        return False
    if not token.text.isalpha():
        return False
    return token.name_like or not (capitals or token.text.endswith(("ly", "ing")))


def is_elsewhere(tokens: Sequence[Token], place: int) -> bool:
    """Whether a name at `place` is where something is, or goes."""
    return place > 0 and tokens[place - 1].text in _PLACE_WORDS


def points_there(tokens: Sequence[Token]) -> bool:
    """Whether it says `there` of a place: not `there is`, `is there any`, `hello there`."""
    for place, token in enumerate(tokens):
        if token.text != "there":
            continue
        before = tokens[place - 1].text if place else ""
        follows = tokens[place + 1] if place + 1 < len(tokens) else None
        ends = follows is None or follows.after_stop or follows.text in FILLERS
        if before in ("hello", "hi", "hey") or not place:
            continue
        if ends or before not in ("is", "are", "be", "was", "will"):
            return True
    return False


def names_a_place(tokens: Sequence[Token], keywords: Set[int], known: Collection[str]) -> bool:
    """Whether some place is named that is not known: "is it snowing in Gothenburg"."""
    return any(
        is_name(tokens, place, capitals=not follows_preposition(tokens, place))
        for place, token in enumerate(tokens)
        if place not in keywords and token.text not in known
    )
