"""Assign the words of an utterance to the slots of an intent.

Slots are filled in any order; a word belongs to one value only. The words beside a slot in the
sentences tell slots and bare figures apart. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from cordboard.agents.rules.matching import Look
from cordboard.agents.rules.values import Finder, Judged, Span
from cordboard.agents.rules.words import Token

_RIVAL = 0.09
"""Two values whose costs differ by less than this cannot be told apart."""
_CUE_BONUS = 0.06
_LENGTH_BONUS = 0.08
ARTICLES = frozenset("the a an my your".split())
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


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A value that may fill a slot. The lower the rank, the better: exact ones first, longer ones
    first, those with a cue beside them first."""

    slot: str
    span: Span
    cued: bool

    @property
    def rank(self) -> float:
        length = self.span.end - self.span.start
        return self.span.cost - _LENGTH_BONUS * length - (_CUE_BONUS if self.cued else 0.0)


def fill(
    look: Look,
    slots: Mapping[str, str],
    cues: Mapping[str, Collection[str]],
    asked: str = "",
) -> dict[str, Filled]:
    """Return slot → value, for the spoken ones. `slots`: slot → list; `cues`: slot → words beside
    it in sentences (`from …`, `… nights`).

    A value is a guess if it only resembles the spoken words, has a rival, or has an unknown name
    beside it.
    """
    candidates = [
        _Candidate(slot, span, _is_cued(look, span, cues.get(slot, ())))
        for slot, name in slots.items()
        for span in look.spans.get(name, ())
        if span.value is not None
        and span.start not in look.denied
        and not _is_part(span, look.spans[name])
    ]
    candidates.sort(key=lambda c: (not c.span.is_clear, c.rank))
    usable = [c for c in candidates if not c.span.bare or c.slot == asked or c.cued]
    shortest = sorted(usable, key=lambda c: (c.span.end - c.span.start, c.rank))
    taken = max((_assign(usable), _assign(shortest)), key=len)
    filled: dict[str, Filled] = {}
    for slot, first in taken.items():
        used = [other.span for name, other in taken.items() if name != slot]
        free = [
            c
            for c in candidates
            if c.slot == slot and c is not first and not any(c.span.overlaps(s) for s in used)
        ]
        chosen, rival = _settle(look, first, free)
        crowded = _is_crowded(look, chosen, cues.get(slot, ()), look.spans[slots[slot]])
        sure = chosen.is_clear and rival is None and not crowded
        values = [span.value for span in (chosen, rival) if span is not None and span.value]
        judged = Judged(values[0]) if sure else Judged(None, tuple(values))
        filled[slot] = Filled(judged, chosen.start, chosen.end)
    return filled


def _assign(candidates: Iterable[_Candidate]) -> dict[str, _Candidate]:
    """Return each slot's first candidate without words that another slot has taken."""
    taken: dict[str, _Candidate] = {}
    for each in candidates:
        if each.slot not in taken and not any(each.span.overlaps(t.span) for t in taken.values()):
            taken[each.slot] = each
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


def _is_cued(look: Look, span: Span, cues: Collection[str]) -> bool:
    before, after = look.tokens[max(0, span.start - 1) : span.start], look.tokens[span.end :][:1]
    beside = {f"{t.text} …" for t in before} | {f"… {t.text}" for t in after}
    return not beside.isdisjoint(cues)


def _settle(
    look: Look, first: _Candidate, others: Sequence[_Candidate]
) -> tuple[Span, Span | None]:
    """Return the intended value of those that may fill a slot, and a possible alternative.

    The later of two wins where words of correction stand between them.
    """
    chosen, rival = first.span, None
    for each in others:
        other = each.span
        if other.value == chosen.value:
            continue
        if other.overlaps(chosen):
            missed = max(0, (chosen.end - chosen.start) - (other.end - other.start))
            if chosen.named and other.cost + 0.15 * missed < chosen.cost + _RIVAL:
                rival = rival or other
        elif other.is_clear:
            early, late = sorted((chosen, other), key=lambda span: span.start)
            if {token.text for token in look.tokens[early.end : late.start]} & _CORRECTIONS:
                chosen = late
            elif not other.bare and each.rank <= first.rank + _RIVAL:
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
    own = {place for s in same for place in range(s.start, s.end)}
    if span.end < len(look.tokens) and look.tokens[span.end].text in ("speaking", "calling"):
        return True
    for place, token in _strangers(look):
        cue = look.tokens[place - 1].text if place else ""
        before = place + 1 == span.start and token.name_like
        after = place == span.end and (token.name_like or not (capitals or token.after_stop))
        cued = token.name_like and f"{cue} …" in cues and cue not in ARTICLES
        if place not in own and (before or after or cued):
            return True
    return False


def is_unknown(look: Look, name: str, cues: Collection[str], finder: Finder) -> bool:
    """True if something that is not a value of the list stands where one would: "in Gothenburg", a
    number out of bounds."""
    if finder.spec.type in ("number", "time"):
        wrong = [span for span in look.spans[name] if span.value is None]
        return any(not span.bare or _is_cued(look, span, cues) for span in wrong)
    return finder.spec.type == "list" and any(
        place and f"{look.tokens[place - 1].text} …" in cues for place, _ in _strangers(look)
    )


def _strangers(look: Look) -> Iterator[tuple[int, Token]]:
    """Yield the words that are neither common nor in a sentence nor a day, with their places."""
    dated = look.dated
    for place, token in enumerate(look.tokens):
        if token.is_content and token.text not in look.known and place not in dated:
            yield place, token
