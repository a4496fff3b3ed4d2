"""A question about the present in other words than those that name the place. English.

"I have never flown to New York before and I am nervous. Is it stormy?": the place is named in a
denial, or in the past, but what is asked is asked now. So a denial or a past binds within its own
statement only; another statement that asks, and names no place itself, is about the one place that
was named. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence, Set

from cordboard.agents.rules.clauses import (
    denials,
    is_past,
    is_request,
    names_a_past_time,
    opens_as_question,
    split_statements,
    statement_with,
)
from cordboard.agents.rules.stories import names_a_place, points_there
from cordboard.agents.rules.values import Span
from cordboard.agents.rules.words import FILLERS, FUNCTION_WORDS, Token

_CONFIRMING = frozenset("case true right so really still bad sure correct yet over".split())
"""What is left of a question for confirmation: "is that still the case"."""
_POINTING = frozenset("that this it she he they".split())
_PAST_QUESTIONS = frozenset("did was were".split())
_CHANGED = frozenset(
    "better worse improved changed cleared calmed eased lifted stopped died gone".split()
)
"""What is left of a question whether it is as it was: "is it any better"."""
_HOPING = frozenset("hope hopefully hoping wonder wondering worried afraid bet guess".split())
"""Who hopes that there is no fog asks whether there is."""


def is_asked_after(
    tokens: Sequence[Token],
    span: Span,
    named: Collection[Span],
    keywords: Set[int],
    known: Collection[str],
) -> bool:
    """Whether a question is about the place at `span`, the only one of those `named`, though it is
    named in a denial or in the past. `keywords` are the places of the words of the trade, `known`
    the context's words."""
    if any(other.value != span.value for other in named):
        return False
    first, last = statement_with(tokens, span.start)
    if keywords & set(range(first, last)) and _asks_itself(tokens[first:last]):
        return True
    return any(
        _asks(tokens, first, last, keywords, known)
        for first, last in split_statements(tokens)
        if not any(first < other.end and other.start < last for other in named)
    )


def asks_anything(tokens: Sequence[Token]) -> bool:
    """Whether any statement is a question or a command."""
    return any(
        tokens[first].text in _PAST_QUESTIONS or opens_as_question(tokens[first:last])
        for first, last in split_statements(tokens)
    )


def in_a_question(tokens: Sequence[Token], span: Span, keywords: Set[int]) -> bool:
    """Whether the value at `span` stands in a question that has a word of the trade."""
    first, last = statement_with(tokens, span.start)
    return bool(keywords & set(range(first, last))) and opens_as_question(tokens[first:last])


def _asks_itself(own: Sequence[Token]) -> bool:
    """Whether the statement with the place asks, for all its denial: "is it true that the fog has
    not lifted in ...", "I hope it is not foggy in ...", "what was the wind at ... again"."""
    if names_a_past_time(own):
        return False
    if own[0].text in _PAST_QUESTIONS or opens_as_question(own):
        return True
    return not is_past(own) and any(token.text in _HOPING for token in own)


def _asks(
    tokens: Sequence[Token], first: int, last: int, keywords: Set[int], known: Collection[str]
) -> bool:
    """Whether these words ask for something of the trade as it is now, of no place of their own."""
    statement = tokens[first:last]
    about = {place - first for place in keywords if first <= place < last}
    if is_past(statement) or names_a_place(statement, about, known):
        return False
    if opens_as_question(statement):
        confirms = _only_confirms(statement, told=bool(keywords))
        return bool(about) or confirms or points_there(statement)
    return bool(about) and not denials(statement) and is_request(statement, about)


def _only_confirms(statement: Sequence[Token], *, told: bool) -> bool:
    """`Is that still the case?`, where something of the trade was `told`; `Is it any better?`"""
    words = [token.text for token in statement]
    if not any(word in _POINTING for word in words[:3]):
        return False
    content = {word for word in words if word not in FUNCTION_WORDS and word not in FILLERS}
    changed = bool(content & _CHANGED)
    return (told or changed) and content <= _CONFIRMING | _CHANGED | {"down", "off"}
