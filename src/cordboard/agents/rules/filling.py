"""Assign the words of an utterance to the slots of an intent.

Slots are filled in any order; a word belongs to one value only. The words beside a slot in the
sentences tell slots and bare figures apart. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from cordboard.agents.rules.matching import Look
from cordboard.agents.rules.values import Finder, Judged, Span

_RIVAL = 0.09
"""Two values whose costs differ by less than this cannot be told apart."""
_CUE_BONUS = 0.06
_LENGTH_BONUS = 0.08
_ARTICLES = frozenset("the a an my your".split())
_SAME_NAME = 0.12
"""Cost up to which a word counts as part of a listed name."""
_CORRECTIONS = frozenset(
    "no but sorry actually wait hang hold rather mean make excuse correction".split()
)


@dataclass(frozen=True, slots=True)
class Filled:
    """A slot, and the words that fill it."""

    judged: Judged
    start: int
    end: int


def fill(
    look: Look,
    slots: Mapping[str, str],
    cues: Mapping[str, Collection[str]],
    asked: str = "",
) -> dict[str, Filled]:
    """Return slot → value, for the spoken ones. `slots`: slot → list; `cues`: slot → words beside
    it in sentences.

    A value is a guess if it only resembles the spoken words, has a rival, or has an unknown name
    beside it.
    """
    pairs = [
        (_rank(look, span, cues.get(slot, ())), slot, span)
        for slot, name in slots.items()
        for span in look.spans.get(name, ())
        if span.value is not None
        and span.start not in look.denied
        and not _is_part(span, look.spans[name])
    ]
    pairs.sort(key=lambda pair: (not pair[2].is_clear, pair[0]))
    usable = [
        pair
        for pair in pairs
        if not pair[2].bare or pair[1] == asked or _is_cued(look, pair[2], cues.get(pair[1], ()))
    ]
    shortest = sorted(usable, key=lambda pair: (pair[2].end - pair[2].start, pair[0]))
    taken = max((_assign(usable), _assign(shortest)), key=len)
    filled: dict[str, Filled] = {}
    for slot, span in taken.items():
        others = [pair for pair in pairs if pair[1] == slot and pair[2] is not span]
        free = [
            (rank, other)
            for rank, _, other in others
            if not any(other.overlaps(used) for name, used in taken.items() if name != slot)
        ]
        chosen, rival = _settle(look, span, _rank(look, span, cues.get(slot, ())), free)
        crowded = _is_crowded(look, chosen, cues.get(slot, ()), look.spans[slots[slot]])
        sure = chosen.is_clear and rival is None and not crowded
        values = [found.value for found in (chosen, rival) if found is not None and found.value]
        judged = Judged(values[0]) if sure else Judged(None, tuple(values))
        filled[slot] = Filled(judged, chosen.start, chosen.end)
    return filled


def _assign(pairs: Iterable[tuple[float, str, Span]]) -> dict[str, Span]:
    """Return each slot's first span without words that another slot has taken."""
    taken: dict[str, Span] = {}
    for _, slot, span in pairs:
        if slot not in taken and not any(span.overlaps(other) for other in taken.values()):
            taken[slot] = span
    return taken


def _is_part(span: Span, spans: Sequence[Span]) -> bool:
    """True if it is a part of something longer that is not a value: `ten` of `half past ten`, where
    that is too late."""
    return not span.named and any(
        other.value is None
        and other.start <= span.start
        and span.end <= other.end
        and other.end - other.start > span.end - span.start
        for other in spans
    )


def _rank(look: Look, span: Span, cues: Collection[str]) -> float:
    """Rank exact ones first, longer ones first, those with a cue beside them first."""
    cued = _is_cued(look, span, cues)
    return span.cost - _LENGTH_BONUS * (span.end - span.start) - (_CUE_BONUS if cued else 0.0)


def _is_cued(look: Look, span: Span, cues: Collection[str]) -> bool:
    before = look.tokens[span.start - 1].text if span.start else ""
    after = look.tokens[span.end].text if span.end < len(look.tokens) else ""
    return before in cues or after in cues


def _settle(
    look: Look, first: Span, rank: float, others: Sequence[tuple[float, Span]]
) -> tuple[Span, Span | None]:
    """Return the intended value of those that may fill a slot, and a possible alternative.

    The later of two wins where words of correction stand between them.
    """
    chosen, rival = first, None
    for other_rank, other in others:
        if other.value == chosen.value:
            continue
        if other.overlaps(chosen):
            if not chosen.named:
                continue
            missed = max(0, (chosen.end - chosen.start) - (other.end - other.start))
            if other.cost + 0.15 * missed < chosen.cost + _RIVAL:
                rival = rival or other
            continue
        early, late = sorted((chosen, other), key=lambda span: span.start)
        between = {token.text for token in look.tokens[early.end : late.start]}
        if not other.is_clear:
            continue
        if between & _CORRECTIONS:
            chosen = late
        elif not other.bare and other_rank <= rank + _RIVAL:
            rival = rival or other
    if rival is not None and rival.start < chosen.start and not rival.overlaps(chosen):
        return rival, chosen
    return chosen, rival


def _is_crowded(look: Look, span: Span, cues: Collection[str], spans: Sequence[Span]) -> bool:
    """True if an unknown name stands beside a name ("London Gatwick"), or where one of this slot
    would stand ("I am in Oslo, is it raining in Gothenburg?")."""
    if span.value is None or not (span.named and span.value.spoken[:1].isupper()):
        return False
    capitals = look.text != look.text.lower()
    same = [s for s in spans if s.is_clear and s.cost <= _SAME_NAME]
    own = {place for s in same for place in range(s.start, s.end)} | look.dated
    if span.end < len(look.tokens) and look.tokens[span.end].text in ("speaking", "calling"):
        return True
    for place, token in enumerate(look.tokens):
        if place in own or not token.is_content or token.text in look.known:
            continue
        before = place + 1 == span.start and token.name_like
        after = place == span.end and (token.name_like or not (capitals or token.after_stop))
        cue = look.tokens[place - 1].text if place else ""
        cued = token.name_like and cue in cues and cue not in _ARTICLES
        if before or after or cued:
            return True
    return False


def is_unknown(look: Look, name: str, cues: Collection[str], finder: Finder) -> bool:
    """True if something that is not a value of the list stands where one would: "in Gothenburg", a
    number out of bounds."""
    if finder.spec.type != "list":
        return any(
            span.value is None and (not span.bare or _is_cued(look, span, cues))
            for span in look.spans[name]
            if finder.spec.type in ("number", "time")
        )
    return any(
        token.is_content and token.text not in look.known and place > 0
        and look.tokens[place - 1].text in cues
        for place, token in enumerate(look.tokens)
    )  # fmt: skip
