"""When a look-up that does no harm may begin without asking first.

To ask back costs the caller a turn, to hear a public weather report too much costs seconds. So for
an intent that only reads, one value that was clearly named is enough, with one of the intent's
`keywords` or, where nothing else in the context takes such a value, without: "My sister is flying
into Bergen this evening." What speaks against it is in `stories`: the value is somebody's name, it
is over, it is not wanted. What may be another name ("London Gatwick") is asked about. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence, Set

from cordboard.agents.rules.clauses import is_request
from cordboard.agents.rules.keywords import (
    Keywords,
    is_another,
    is_loose,
    rank,
)
from cordboard.agents.rules.questions import in_a_question, is_asked_after
from cordboard.agents.rules.stories import (
    asks_something_else,
    corrections,
    is_elsewhere,
    is_name,
    is_over,
    is_person,
    is_rejected,
    says_goodbye,
)
from cordboard.agents.rules.values import Judged, Span, Value, judge
from cordboard.agents.rules.words import Token

_EXACT = 0.04
"""Without a keyword a value must be written as it is, or with a capital letter;"""
_EXACT_CODE = 0.07
"""a code word by word. A code that is not listed costs 0.06 by itself."""
_CODE_WORDS = 4


def clear_values(tokens: Sequence[Token], spans: Collection[Span]) -> list[Span]:
    """What was clearly named, the best first; of values that overlap only the best."""
    found: list[Span] = []
    for span in sorted(spans, key=rank):
        if span.value is None or span.cost > span.limit or is_loose(tokens, span):
            continue
        if all(span.end <= other.start or span.start >= other.end for other in found):
            found.append(span)
    return found


def meant_values(
    tokens: Sequence[Token],
    clear: Collection[Span],
    keywords: Set[int],
    asked_after: Callable[[Span], bool] = lambda _: False,
) -> list[Span]:
    """Those of the clearly named values that nothing speaks against. `asked_after`: whether a
    question beside a value is about it, so that it may be named in a denial or in the past."""
    turns = corrections(tokens)
    corrected = [turn for turn in turns if any(span.start > turn for span in clear)]
    return [
        span
        for span in clear
        if not any(span.end <= turn for turn in corrected)
        and not is_person(tokens, span.start, span.end)
        and not _is_against(tokens, span.start, keywords, asked_after(span))
    ]


def _is_against(tokens: Sequence[Token], place: int, keywords: Set[int], asked_after: bool) -> bool:
    if is_rejected(tokens, place, asked_after=asked_after):
        return True
    return not asked_after and is_over(tokens, place, any_verb=not keywords)


def the_only_one(
    tokens: Sequence[Token], spans: Collection[Span], known: Collection[str], *, capitals: bool
) -> Value | None:
    """The one value that was clearly named and not rejected, whatever was asked about it: what a
    question in the next turn may be about."""
    clear = clear_values(tokens, spans)
    meant = meant_values(tokens, clear, frozenset(), lambda _: True)
    if len({span.value for span in meant}) != 1:
        return None
    explained = _explained(tokens, known, meant)
    if _may_be_another_name(tokens, meant[0], explained, capitals=capitals):
        return None
    return meant[0].value


def find_at_once(
    rule: Keywords,
    tokens: Sequence[Token],
    spans: Collection[Span],
    keywords: Set[int],
    known: Collection[str],
    *,
    capitals: bool = True,
) -> tuple[Judged, Span] | None:
    """The value that an utterance is about, to be looked up or (as guesses) asked about.

    None when it is about none. `keywords` are the places of the intent's words; `known` are the
    context's own words; `capitals`: the recogniser writes names with a capital letter.
    """
    clear = clear_values(tokens, spans)

    def asked_after(span: Span) -> bool:
        return is_asked_after(tokens, span, clear, keywords, known)

    meant = meant_values(tokens, clear, keywords, asked_after)
    asked = [span for span in meant if in_a_question(tokens, span, keywords)]
    meant = asked or meant  # "I fly from Oslo, is it windy in Bergen?"
    if not meant:
        return None
    chosen = meant[0]
    others = [span for span in meant if is_another(tokens, span, chosen)]
    if not keywords and (others or not _is_enough(rule, tokens, chosen)):
        return None
    if others:
        pair = sorted((chosen, others[0]), key=lambda span: span.start)
        return Judged(None, tuple(span.value for span in pair if span.value)), chosen
    explained = keywords | _explained(tokens, known, meant)
    doubtful = _may_be_another_name(tokens, chosen, explained, capitals=capitals)
    doubtful = doubtful or (capitals and not _is_exact(tokens, chosen))
    about = keywords | set(range(chosen.start, chosen.end))
    if keywords and not is_request(tokens, about):
        otherwise = _says_otherwise(rule, tokens, chosen.start, chosen.end)
        doubtful = doubtful or otherwise or says_goodbye(tokens)
    return judge(chosen, spans, crowded=doubtful), chosen


def speaks_against(
    rule: Keywords, tokens: Sequence[Token], place: tuple[int, int], keywords: Set[int]
) -> bool:
    """Whether a value that a sentence template has found at `place` is not to be taken."""
    start, end = place
    if is_person(tokens, start, end) or is_rejected(tokens, start):
        return True
    if keywords:
        return is_over(tokens, start, any_verb=False)
    past = is_over(tokens, start, any_verb=True)
    return past or _says_otherwise(rule, tokens, start, end) or asks_something_else(tokens)


def _says_otherwise(rule: Keywords, tokens: Sequence[Token], start: int, end: int) -> bool:
    """Whether other words than the value's own show that something else is wanted."""
    return rule.says_otherwise(tokens[:start]) or rule.says_otherwise(tokens[end:])


def _is_enough(rule: Keywords, tokens: Sequence[Token], chosen: Span) -> bool:
    """Whether the value by itself shows what is wanted."""
    if (
        not rule.sole
        or _says_otherwise(rule, tokens, chosen.start, chosen.end)
        or asks_something_else(tokens)
    ):
        return False
    return _is_exact(tokens, chosen)


def _is_exact(tokens: Sequence[Token], span: Span) -> bool:
    """Whether it is written as it is, or at least as a name."""
    named = any(token.name_like for token in tokens[span.start : span.end])
    code = span.end - span.start >= _CODE_WORDS and span.cost <= _EXACT_CODE
    return span.cost <= _EXACT or named or code


def _explained(
    tokens: Sequence[Token], known: Collection[str], meant: Collection[Span]
) -> set[int]:
    """Places of the context's own words and of the values."""
    own = {place for place, token in enumerate(tokens) if token.text in known}
    return own | {place for span in meant for place in range(span.start, span.end)}


def _may_be_another_name(
    tokens: Sequence[Token], chosen: Span, explained: Set[int], *, capitals: bool
) -> bool:
    """Whether a name stands right beside the value, or is where it happens: "is it foggy in
    Gothenburg". Where the value itself is written small, any unknown word after it may be a name.
    """
    first = tokens[chosen.start]
    purpose = _purpose_after(tokens, chosen)
    capitals = capitals and (first.name_like or first.after_stop or bool(first.letters))
    for place, token in enumerate(tokens):
        if chosen.start <= place < chosen.end or place in explained or place == purpose:
            continue
        before = place + 1 == chosen.start and not first.after_stop
        if before and is_name(tokens, place, capitals=True):
            return True
        after = place == chosen.end and (not token.after_stop or _is_apposed(tokens, place))
        if after and is_name(tokens, place, capitals=capitals):
            return True
        elsewhere = token.name_like and is_elsewhere(tokens, place)
        if elsewhere and is_name(tokens, place, capitals=True) and _matters(tokens, place):
            return True
    return False


def _purpose_after(tokens: Sequence[Token], chosen: Span) -> int | None:
    """The verb of "driving up to Trondheim to fetch grandma", however it was written; "from Oslo to
    Bergen" has none."""
    origin = chosen.start and tokens[chosen.start - 1].text in ("from", "between")
    follows = tokens[chosen.end].text if chosen.end < len(tokens) else ""
    return chosen.end + 1 if follows == "to" and not origin else None


def _is_apposed(tokens: Sequence[Token], place: int) -> bool:
    """Whether a name after a comma goes with the one before it: "New York, La Guardia", but not
    "Amsterdam, House the Wind"."""
    follows = tokens[place + 1].text if place + 1 < len(tokens) else ""
    return tokens[place].name_like and follows not in ("the", "a", "an")


def _matters(tokens: Sequence[Token], place: int) -> bool:
    return not is_over(tokens, place, any_verb=True) and not is_rejected(tokens, place)
