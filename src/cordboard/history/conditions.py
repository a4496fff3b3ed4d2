"""The conditions of a query, as SQL over the tables of the index."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from sqlalchemy import ColumnElement, and_, func, or_, select

from cordboard.history.full_text import FullText
from cordboard.history.query import CallQuery, normal_number
from cordboard.history.sealed_rows import Hashes
from cordboard.history.tables import CALLS, KINDS, MARKED, SEALED, number_of


@dataclass(frozen=True, slots=True)
class Lookup:
    """The ways in which an index finds values."""

    text: FullText
    hashes: tuple[Hashes, ...] = ()
    """Of numbers and tags of encrypted calls: of each node, if several share the index."""
    left_out: tuple[int, ...] = ()
    """Kinds of calls that are on record elsewhere, too."""

    def values(self, kind: str, value: str) -> list[str]:
        """Return the values that stand for one: itself, and its hash."""
        return [value, *(each.of(kind, value) for each in self.hashes)]

    def labels(self, kind: str, values: Collection[str]) -> list[int]:
        """Return the labels of marks; tags may be hashed."""
        found = sorted(values)
        if kind == "tag":
            found = [each for value in found for each in self.values(kind, value)]
        return [number_of((kind, value)) for value in found]


def asks_for_hashes(query: CallQuery) -> bool:
    """True if a query has filters that hashes answer for encrypted calls."""
    return bool(query.number or query.number_last4 or query.called or query.marks.get("tag"))


def conditions(
    lookup: Lookup, query: CallQuery, without: Collection[str] = ()
) -> list[ColumnElement[bool]]:
    """Return the conditions of a query, except those of the filters in `without`.

    The number is an expression, which no index answers: for a common word it is much faster to
    walk an index in the order of the page than to look up every call with that word.
    """
    return [
        *of_call(lookup, query, without),
        *memberships(lookup, query, CALLS.c.number + 0, without),
    ]


def candidates(lookup: Lookup, query: CallQuery) -> list[ColumnElement[bool]]:
    """Return the conditions of a query for plain calls, and for encrypted ones those that the index
    can answer: they must be opened then."""
    others = replace(query, text="", number_prefix="")
    whole = and_(*conditions(lookup, query))
    is_sealed = CALLS.c.number.in_(select(SEALED.c.call))
    return [*conditions(lookup, others), or_(is_sealed, whole)]


def memberships(
    lookup: Lookup, query: CallQuery, number: ColumnElement[int], without: Collection[str]
) -> list[ColumnElement[bool]]:
    """Return the conditions that are sets of calls, here of this `number`."""
    found: list[ColumnElement[bool]] = []
    for kind, values in query.marks.items():
        if kind not in without:
            labels = lookup.labels(kind, values)
            marked = select(MARKED.c.call.label("marked")).where(MARKED.c.label.in_(labels))
            found.append(number.in_(marked.correlate(None)))
    if query.terms:
        found.append(number.in_(lookup.text.matches(query.terms, query.who)))
    return found


def of_call(
    lookup: Lookup, query: CallQuery, without: Collection[str]
) -> list[ColumnElement[bool]]:
    """Return the conditions on a call's own columns."""
    call = CALLS.c
    found: list[ColumnElement[bool]] = []
    of_kind = [
        KINDS.c[name].in_(sorted(values))
        for name, values in query.columns.items()
        if name not in without
    ]
    if query.within is not None:
        of_kind.append(KINDS.c.context.in_(sorted(query.within)))
    if of_kind:
        found.append(call.kind.in_(select(KINDS.c.kind).where(*of_kind)))
    if lookup.left_out:
        found.append(call.kind.not_in(lookup.left_out))
    if query.id:
        found.append(call.id == query.id)
    exactly = (
        (call.caller_key, "number", normal_number(query.number)),
        (call.called_key, "number", normal_number(query.called)),
        (call.last4, "last4", query.number_last4),
    )
    found += [place.in_(lookup.values(kind, value)) for place, kind, value in exactly if value]
    if query.number_prefix:
        found.append(begins(call.caller_number, query.number_prefix))
    return [*found, *period(query, call.started_ms), *_bounds(query)]


def period(query: CallQuery, started: ColumnElement[int]) -> list[ColumnElement[bool]]:
    """Return the conditions on the time at which a call `started`."""
    found: list[ColumnElement[bool]] = []
    if query.since_ms is not None:
        found.append(started >= query.since_ms)
    if query.until_ms is not None:
        found.append(started < query.until_ms)
    return found


def _bounds(query: CallQuery) -> list[ColumnElement[bool]]:
    call = CALLS.c
    found: list[ColumnElement[bool]] = []
    if query.waited_over_ms is not None:
        found.append(call.waited_ms > query.waited_over_ms)
    if query.longer_ms is not None:
        found.append(call.duration_ms >= query.longer_ms)
    if query.shorter_ms is not None:
        found.append(call.duration_ms <= query.shorter_ms)
    if query.cost_over is not None:
        found.append(call.cost > query.cost_over)
    return found


def begins(place: ColumnElement[str], prefix: str) -> ColumnElement[bool]:
    """Return a condition that an index can answer, whatever characters are in the prefix."""
    after = ord(prefix[-1]) + 1
    if after > 0x10FFFF:
        return func.substr(place, 1, len(prefix)) == prefix
    after = 0xE000 if after == 0xD800 else after  # no text has surrogates
    return and_(place >= prefix, place < prefix[:-1] + chr(after))
